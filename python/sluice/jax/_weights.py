"""Initial weights."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .._weights import GATES, name_of, shapes_of


def init(key: jax.Array, cell: str, input: int, hidden: int, layers: int = 1, *, bidirectional: bool = False,
         bias: bool = True, projection: int = 0, peepholes: bool = False, layer_norm: bool = False,
         dtype: Any = jnp.float32) -> dict[str, jax.Array]:
    """Weights of a stack with torch's names and shapes, a dict that lstm, gru and rnn take.

    cell: "lstm", "gru", "gru_reset_before", "rnn_tanh" or "rnn_relu".
    projection: the width to which an LSTM projects h; 0: none.

    As torch's: uniform up to 1 / sqrt(hidden). Gains of layer norm are 1, its shifts and peepholes 0.
    """
    if cell not in GATES:
        raise ValueError(f"cell is {cell!r}, not one of {', '.join(GATES)}")
    for name, value in (("input", input), ("hidden", hidden), ("layers", layers)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if cell != "lstm" and (projection or peepholes or layer_norm):
        raise ValueError(f"only an LSTM has a projection, peepholes and layer norm, and this is {cell}")
    kinds = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * bias + ["weight_hr"] * bool(projection)
    kinds += ["weight_peephole"] * peepholes + ["gain_ih", "gain_hh", "gain_c", "shift_c"] * layer_norm
    directions = 2 if bidirectional else 1
    shapes = {name_of(kind, layer, direction): shapes_of(cell, directions * (projection or hidden) if layer else input,
                                                         hidden, projection or hidden)[kind]
              for layer in range(layers) for direction in range(directions) for kind in kinds}
    keys = jax.random.split(key, len(shapes))
    return {name: _drawn(name, key, shape, 1 / math.sqrt(hidden), dtype)
            for key, (name, shape) in zip(keys, shapes.items())}


def _drawn(name, key, shape, limit, dtype):
    if name.startswith("gain"):
        return jnp.ones(shape, dtype)
    if name.startswith(("shift", "weight_peephole")):
        return jnp.zeros(shape, dtype)
    return jax.random.uniform(key, shape, dtype, -limit, limit)
