"""Checks of the arrays that callers give, and their addresses."""

import operator

import numpy as np

from . import _native
from ._devices import LEGACY_STREAM, device_of, mixed

DTYPES = ("float32", "float64", "bfloat16")


def as_array(value, name):
    """An ndarray of a value that may be of another framework; the memory is shared where it can be."""
    if isinstance(value, np.ndarray):
        return value
    device = device_of(value, name)
    if device != "cpu":
        raise mixed(name, device, "cpu")
    if hasattr(value, "__dlpack_device__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{name} can't be read as an array: {error}") from error
    array = np.asarray(value)
    if array.dtype == object:
        raise TypeError(f"{name} is of type {type(value).__name__}, which is no array")
    return array


def address(array):
    # ml_dtypes has no code in the buffer protocol.
    return _native.address(array if array.dtype.kind != "V" else array.view(np.uint16))


def dtype_of(dtype, name):
    """NumPy's dtype of a name, for the array `name`."""
    if dtype == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    try:
        return np.dtype(dtype)
    except TypeError:
        raise TypeError(f"{name} is {dtype}, which NumPy does not know") from None


def check(array, name, shape, dtype):
    """Raises unless shape and dtype are right."""
    if array.dtype != dtype:
        raise TypeError(f"{name} is {array.dtype}; here it must be {dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")


def contiguous(array, name=None):
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def checked(array, name, shape, dtype):
    """The array, contiguous, if shape and dtype are right."""
    if type(array) is not np.ndarray:
        array = as_array(array, name)
    if array.dtype != dtype or array.shape != shape:
        check(array, name, shape, dtype)
    return contiguous(array)


def _integers(values, name, shape):
    array = as_array(values, name)
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} is {array.dtype}; it must be of integers")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    return array


def checked_lengths(lengths, rows, time):
    array = _integers(lengths, "lengths", (rows,))
    least, most = int(array.min()), int(array.max())
    if least < 0 or most > time:
        raise ValueError(f"lengths has {least if least < 0 else most}; with {time} time steps they are 0 to {time}")
    return np.ascontiguousarray(array, np.int32)


def checked_resets(resets, time, rows, batch_first):
    array = _integers(resets, "resets", (rows, time) if batch_first else (time, rows))
    if batch_first:
        array = array.T
    # Not 0 must stay not 0 in fewer bits.
    return np.ascontiguousarray(array != 0, np.int32)


def checked_seed(seed):
    seed = operator.index(seed)
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}, not 0 to 2**64 - 1")
    return seed


def checked_stream(stream):
    """A cudaStream_t as DLPack numbers it: 1 for CUDA's default stream, which is also 0."""
    number = operator.index(stream)
    if number < 0:
        raise ValueError(f"stream is {number}, which is no cudaStream_t")
    return number or LEGACY_STREAM
