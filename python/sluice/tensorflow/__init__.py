"""LSTM, GRU and plain RNN stacks on TensorFlow's tensors, forward and gradient, on the CPU.

    import sluice.tensorflow

    y, (hn, cn) = sluice.tensorflow.lstm(x, weights)    # x [time, rows, input]; weights: a dict with torch's names

They run eagerly and in tf.function; tf.GradientTape differentiates them. The ops are a library that is compiled for the
TensorFlow that is installed: `python -m sluice.tensorflow.build` makes it.
"""

from ._layers import gru, lstm, rnn
from ._library import load_ops

__all__ = ["gru", "load_ops", "lstm", "rnn"]
