"""Runs on tensors of TensorFlow, by sluice.tensorflow's op."""

import tensorflow as tf

from .. import tensorflow as layers
from ._functions import call

STARTS_FROM_STATE = False
SUPPORTS_XLA = False  # XLA can't call an op that it does not know.

layers.load_ops()


def run(cell, x, weights, h0, c0, lengths, training, recurrent_dropout=0.0, seed=None):
    """y, hn and cn; see _backend.py."""
    dtype = x.dtype
    own = tf.float32 if dtype == tf.float16 else dtype  # The op has no float16.
    weights = {name: tf.cast(weight, own) for name, weight in weights.items()}
    h0, c0 = (tf.cast(part, own)[None] if part is not None else None for part in (h0, c0))
    drawn = {"recurrent_dropout": recurrent_dropout, "seed": seed[0]} if seed is not None else {}
    y, state = call(layers, cell, tf.cast(x, own), weights, h0, c0, lengths=lengths, batch_first=True, training=training,
                    **drawn)
    hn, cn = state if cell == "lstm" else (state, None)
    return tf.cast(y, dtype), tf.cast(hn[0], dtype), tf.cast(cn[0], dtype) if cn is not None else None
