"""LSTM, GRU and plain RNN stacks for JAX.

    import jax
    from sluice.jax import init, lstm

    weights = init(jax.random.key(0), "lstm", 64, 128)     # a dict from torch's names to arrays
    y, (hn, cn) = lstm(x, weights)                         # x [time, rows, input]

Arguments, shapes and dtypes are those of sluice.numpy. The functions run in jax.jit, jax.grad, jax.vmap, jax.checkpoint and
lax.scan, as custom calls of XLA on XLA's own memory and stream, on CPUs and NVIDIA GPUs.

When JAX traces the call, wrong shapes and values raise ValueError, wrong dtypes TypeError, and options that no device of the
process supports NotImplementedError. If another device of the process supports them, the device that runs the call raises
jax.errors.JaxRuntimeError.
"""

from ._functions import gru, lstm, rnn
from ._weights import init

__all__ = ["gru", "init", "lstm", "rnn"]
