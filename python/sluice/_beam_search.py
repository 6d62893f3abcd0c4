"""Checks of what a beam search begins with, and its run."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from . import _native
from ._arrays import as_array
from ._beam import Beam, States
from ._devices import device_of
from ._options import check_numbers


class _Numbers:
    """float32 numbers of the host or of the model's GPU."""

    def __init__(self, value: Any, name: str, shape: tuple[int, ...], device: str) -> None:
        self.on_device = device_of(value, name) != "cpu"
        if self.on_device:
            from ._device_memory import DeviceMemory
            from ._devices import full_name
            from ._memory import shared_memory

            self.array = shared_memory(DeviceMemory, full_name(device)).array(value, name)
        else:
            self.array = np.ascontiguousarray(as_array(value, name))
        if self.array.dtype != np.float32:
            raise TypeError(f"{name} is {self.array.dtype}; it must be float32")
        if self.array.shape != shape:
            raise ValueError(f"{name} has shape {self.array.shape}, not {shape}")

    @property
    def place(self) -> tuple[int, int]:
        pointer = self.array.pointer if self.on_device else _native.address(self.array)
        return pointer, self.array.size


def search(model: Any, states: Any, scores: Any, tokens: Any, steps: int, k: int, n: Optional[int], mask: Any,
           nbest: int, min_length: int, length_penalty: float, allow_unknown: bool) -> Beam:
    check_numbers(steps=steps, k=k, n=1 if n is None else n, nbest=nbest, min_length=min_length,
                  length_penalty=length_penalty)
    vocabulary = len(model.vocabulary)
    if not 1 <= k <= min(4096, vocabulary):
        raise ValueError(f"k is {k}; it must be in 1..{min(4096, vocabulary)}, for the vocabulary has {vocabulary} tokens")
    if n is not None and n < 1:
        raise ValueError(f"n is {n}; it must be at least 1")
    if not 0 <= nbest <= k:
        raise ValueError(f"nbest is {nbest}; it must be in 1..{k}, which k is, or 0 for k")
    layers, width, hidden = model._native.state_shape
    if isinstance(states, States) and tokens is None:
        tokens = states.tokens
    h, c = _pair(states, hidden)
    ids = None if tokens is None else _vector(tokens, "tokens", "iu", np.int32)
    sums = None if scores is None else _vector(scores, "scores", "f", np.float64)
    given = {"states": None if h is None else _rows(h),
             "scores": None if sums is None else sums.size, "tokens": None if ids is None else ids.size}
    rows = {name: count for name, count in given.items() if count is not None}
    if len(set(rows.values())) > 1:
        raise ValueError("; ".join(f"{name} has {count} row{'s' * (count != 1)}" for name, count in rows.items()) +
                         ": give as many of each")
    count = next(iter(rows.values()), 1 if n is None else n)
    inputs = count if n is None else n
    if count not in (inputs, inputs * k):
        wanted = inputs if k == 1 else f"{inputs} or {inputs * k}"
        raise ValueError(f"{count} row{'s are' if count != 1 else ' is'} given for n={inputs} and k={k}; there must be "
                         f"{wanted}")
    numbers = [None if value is None else _Numbers(value, name, (layers, count, size), model.device)
               for value, name, size in ((h, "h", width), (c, "c", hidden))]
    if len({one.on_device for one in numbers if one is not None}) > 1:
        raise ValueError("h and c must be on one device")
    on_device = any(one is not None and one.on_device for one in numbers)
    places = [(0, 0) if one is None else one.place for one in numbers]
    with model._lock:
        model._profile()
        native = model._native.beam(inputs, n is not None and count == inputs * k, *places, on_device, ids, sums, steps, k,
                                    nbest, min_length, length_penalty, bool(allow_unknown),
                                    None if mask is None else _mask(mask, steps, inputs, vocabulary))
    return Beam(native, model)


def _pair(states: Any, hidden: int) -> tuple[Any, Any]:
    """h and c, or None for both."""
    if states is None:
        return None, None
    if isinstance(states, (tuple, list)):
        if len(states) < 2:
            raise ValueError("states has one part; it must be (h, c), or h alone for cells without c")
        return states[0], states[1]
    if hidden:
        raise TypeError(f"states is of type {type(states).__name__}; it must be (h, c), for the model's cells have both")
    return states, None


def _rows(h: Any) -> int:
    shape = np.shape(h) if not hasattr(h, "shape") else h.shape
    if len(shape) != 3:
        raise ValueError(f"h has shape {tuple(shape)}; it must be [layers, rows, width]")
    return int(shape[1])


def _vector(value: Any, name: str, kinds: str, dtype: Any) -> np.ndarray:
    array = as_array(value.numpy() if hasattr(value, "memory") else value, name)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} is {array.dtype}; it must be of {'integers' if kinds == 'iu' else 'floating numbers'}")
    if array.ndim > 2:
        raise ValueError(f"{name} has shape {array.shape}; it must be [rows] or [n, k]")
    if dtype == np.int32 and array.size and not -2**31 <= int(array.min()) <= int(array.max()) < 2**31:
        raise ValueError(f"{name} holds {int(array.max())}, which is no token")
    return np.ascontiguousarray(array.reshape(-1), dtype)


def _mask(mask: Any, steps: int, inputs: int, vocabulary: int) -> np.ndarray:
    """uint8 [steps or 1, inputs or 1, vocabulary]."""
    array = as_array(mask, "mask")
    if array.dtype != np.bool_:
        raise TypeError(f"mask is {array.dtype}; it must be bool: true where a token may be chosen")
    full = (steps, inputs, vocabulary)
    padded = array.reshape((1,) * (3 - array.ndim) + array.shape) if array.ndim <= 3 else array
    if padded.ndim != 3 or padded.shape[2] != vocabulary or any(
            have not in (1, want) for have, want in zip(padded.shape, full)):
        raise ValueError(f"mask has shape {array.shape}; it must be [vocabulary], [n, vocabulary] or [steps, n, vocabulary], "
                         f"with {vocabulary} tokens, n {inputs} and {steps} steps")
    return np.ascontiguousarray(padded).view(np.uint8)
