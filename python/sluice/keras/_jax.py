"""Runs on arrays of JAX, by sluice.jax."""

import jax
import jax.numpy as jnp

from .. import jax as layers
from ._functions import call

STARTS_FROM_STATE = True
SUPPORTS_XLA = True  # XLA calls Sluice.


def run(cell, x, weights, h0, c0, lengths, training, recurrent_dropout=0.0, seed=None):
    """y, hn and cn; see _backend.py."""
    dtype, rows = x.dtype, x.shape[0]
    if rows == 0:
        y = jnp.zeros((*x.shape[:2], weights["weight_hh_l0"].shape[1]), dtype)
        return y, h0, c0
    # float16 is the GPU's.
    own = jnp.dtype("float32") if dtype == jnp.float16 and jax.default_backend() == "cpu" else dtype
    weights = {name: weight.astype(own) for name, weight in weights.items()}
    h0 = h0.astype(own)[None]
    if c0 is not None:  # The engine keeps c of 16 bits in float32.
        c0 = c0.astype(jnp.float64 if own == jnp.float64 else jnp.float32)[None]
    key = jax.random.key(seed[0]) if seed is not None else None
    y, state = call(layers, cell, x.astype(own), weights, h0, c0, lengths=lengths, batch_first=True,
                    recurrent_dropout=recurrent_dropout, key=key)
    hn, cn = state if cell == "lstm" else (state, None)
    return y.astype(dtype), hn[0].astype(dtype), cn[0].astype(dtype) if cn is not None else None
