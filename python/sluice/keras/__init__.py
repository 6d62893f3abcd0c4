"""LSTM, GRU and SimpleRNN in place of Keras's, on its torch, JAX and TensorFlow back ends.

    import sluice.keras

    layer = sluice.keras.LSTM(128, return_sequences=True)     # keras.layers.LSTM's arguments, weights and masks
    model = sluice.keras.replace(model)                       # every LSTM, GRU and SimpleRNN in a model

They are subclasses of Keras's layers: Bidirectional, saving and loading take them as they are. Only the loop over time is
Sluice's.
"""

from ._layers import GRU, LSTM, SimpleRNN
from ._replace import replace

__all__ = ["GRU", "LSTM", "SimpleRNN", "replace"]
