"""Recurrent layers that are fast on CPUs and NVIDIA GPUs.

sluice.numpy has functions and a class for NumPy arrays, and for arrays on a GPU.
"""

from ._native import DeviceError, DeviceLost, Error
from ._native import version as __version__

__all__ = ["DeviceError", "DeviceLost", "Error", "__version__"]
