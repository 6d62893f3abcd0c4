"""Where the arrays of a stack are, by its weights."""

import threading

import numpy as np

from . import _native
from ._arrays import DTYPES, address, as_array, checked, checked_lengths, checked_resets, contiguous
from ._device_arrays import DeviceArray
from ._device_memory import DeviceMemory
from ._devices import device_of, full_name, open_device

_shared = {}
_lock = threading.Lock()


class HostMemory:
    """NumPy arrays on the CPU. Has what DeviceMemory has."""

    device = "cpu"
    dtypes = DTYPES
    array_type = np.ndarray

    array = staticmethod(as_array)
    contiguous = staticmethod(contiguous)
    checked = staticmethod(checked)
    empty = staticmethod(np.empty)
    address = staticmethod(address)
    lengths = staticmethod(checked_lengths)
    resets = staticmethod(checked_resets)

    def __init__(self):
        self._opened = open_device("cpu")
        self.stream = _native.Stream.create(self._opened)

    def allocate(self, bytes):
        return _native.Buffer(self._opened, bytes)

    def finish(self):
        """A CPU's work is done when a call returns."""

    @staticmethod
    def keep(array):
        """What a stack keeps of a weight: a copy, as callers change their arrays."""
        return np.array(array, order="C")

    @staticmethod
    def joined(parts):
        return np.concatenate([part.ravel() for part in parts])


def _kind(weights):
    """The class of the memory of weights, and where they are."""
    for name, value in weights.items():
        if isinstance(value, DeviceArray):
            return DeviceMemory, value.device
        device = full_name(device_of(value, name))
        return (HostMemory if device == "cpu" else DeviceMemory), device
    return HostMemory, "cpu"


def memory_for(weights, stream):
    """The memory of a new stack. `stream` is None, or a cudaStream_t as an integer."""
    kind, device = _kind(weights)
    if device != "cpu":
        return DeviceMemory(device, stream)
    if stream is not None:
        raise ValueError("stream is for arrays on a GPU; the first weight is on the CPU")
    return kind() if kind is HostMemory else kind(device)


def shared_memory(kind, device):
    """One of this process."""
    with _lock:
        if (kind, device) not in _shared:
            _shared[kind, device] = kind() if kind is HostMemory else kind(device)
        return _shared[kind, device]


def shared_memory_of(weights):
    return shared_memory(*_kind(weights))
