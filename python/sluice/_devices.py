"""Where arrays are: "cpu", or "cuda:N" for a GPU."""

import threading

from . import _native

CPU, CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13  # DLPack's device types
ANY_GPU = "cuda"  # of an array that does not say which: __cuda_array_interface__ has no number
LEGACY_STREAM = 1  # DLPack's number of CUDA's default stream
ALIGNMENT = 16  # Kernels of a GPU read this many bytes at a time.

_opened = {}
_lock = threading.Lock()


def device_of(value, name):
    """Where an array of any framework is. `name` is for the error."""
    if hasattr(value, "__dlpack_device__"):
        kind, number = value.__dlpack_device__()
        if kind in (CPU, _CUDA_HOST):
            return "cpu"
        if kind in (CUDA, _CUDA_MANAGED):
            return f"cuda:{number}"
        raise NotImplementedError(f"{name} is on a device of DLPack's type {int(kind)}; "
                                  "arrays must be on the CPU or an NVIDIA GPU")
    return ANY_GPU if hasattr(value, "__cuda_array_interface__") else "cpu"


def dlpack_device(device):
    return (CPU, 0) if device == "cpu" else (CUDA, int(device.partition(":")[2]))


def full_name(device):
    """ "cuda" is short for "cuda:0"."""
    return "cuda:0" if device == ANY_GPU else device


def open_device(device):
    """Opened once a process."""
    with _lock:
        if device not in _opened:
            _opened[device] = _native.Device(device)
        return _opened[device]


def _in_words(device):
    return "on the CPU" if device == "cpu" else "on a GPU" if device == ANY_GPU else f"on {device}"


def mixed(name, device, first):
    return ValueError(f"{name} is {_in_words(device)} and the first weight is {_in_words(first)}; "
                      "all arrays must be on one device")
