"""Checks of the arrays that feature models are given."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ._arrays import as_array


def dimensions(values: Any) -> int:
    return getattr(values, "ndim", None) or np.ndim(values)


def as_frames(values: Any, name: str, width: Optional[int], rows: str = "time") -> np.ndarray:
    """float32 [time, width], without gaps; float64 is rounded, as in files. width: None for any."""
    array = as_array(values, name)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} is {array.dtype}; it must be float32 or float64")
    if array.ndim != 2 or width not in (None, array.shape[1]):
        features = "features" if width is None else width
        raise ValueError(f"{name} has shape {array.shape}; it must be [{rows}, {features}]")
    return np.ascontiguousarray(array, np.float32)


def as_resets(values: Any, name: str, time: int) -> np.ndarray:
    """uint8 [time]."""
    array = as_array(values, name)
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} is {array.dtype}; it must be of bools or integers")
    if array.shape != (time,):
        raise ValueError(f"{name} has shape {array.shape}, not ({time},)")
    return np.ascontiguousarray(array != 0, np.uint8)


def as_many_resets(resets: Any, sequences: list[np.ndarray]) -> list[Optional[np.ndarray]]:
    """Returns the resets of each sequence, None for sequences without."""
    if resets is None:
        return [None] * len(sequences)
    if len(resets) != len(sequences):
        raise ValueError(f"there are {len(resets)} resets for {len(sequences)} sequences")
    return [None if one is None else as_resets(one, f"resets[{i}]", len(frames))
            for i, (one, frames) in enumerate(zip(resets, sequences))]
