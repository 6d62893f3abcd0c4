"""Devices that the tests run on, and arrays there."""

import numpy as np
import pytest

from sluice import DeviceError, _native
from sluice.numpy import DeviceArray

NAMES = {"cpu": "cpu", "gpu": "cuda:0"}


def open_or_skip(device):
    """Skips the test where there is no such device."""
    try:
        _native.Device(device)
    except DeviceError as error:
        pytest.skip(f"{device} can't be opened: {error}")
    return device


def on(device, values):
    """DeviceArrays of NumPy arrays, or of a dict, tuple or list of them."""
    if isinstance(values, dict):
        return {name: on(device, value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(on(device, value) for value in values)
    return None if values is None else DeviceArray.from_numpy(values, device)


def back(values):
    """The NumPy arrays of DeviceArrays; floating-point ones of 16 bits as float64."""
    if isinstance(values, dict):
        return {name: back(value) for name, value in values.items()}
    if isinstance(values, (tuple, list)):
        return [back(value) for value in values]
    array = values.numpy()
    return array.astype(np.float64) if array.dtype.itemsize == 2 else array


class FakeGpuArray:
    """An array that says that it is on a GPU, with a protocol."""

    def __init__(self, protocol, device=(2, 0)):
        self.protocol, self.device = protocol, device

    def __getattr__(self, name):
        if name == "__dlpack_device__" and self.protocol == "dlpack":
            return lambda: self.device
        if name == "__cuda_array_interface__" and self.protocol == "interface":
            return {"shape": (1,), "typestr": "<f4", "data": (0, False), "version": 3}
        raise AttributeError(name)
