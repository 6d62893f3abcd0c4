"""The module that runs the engine on Keras's back end.

It has
    run(cell, x, weights, h0, c0, lengths, training, recurrent_dropout, seed): y, hn and cn of one layer; cn is None unless it
        is an LSTM. cell: as _native.Cell. x: [rows, time, input]. weights: a dict with torch's names. h0, c0: [rows, units].
        lengths: int32 [rows] or None. training: Keras's. TensorFlow keeps what a gradient needs only if it is true; torch and
        JAX find out themselves. recurrent_dropout: its rate in this run. seed: an integer tensor [1] where that is not 0.
    STARTS_FROM_STATE: what a row puts out before its first step that no mask hides: its initial state (True) or zero.
        Keras's back ends differ here.
    SUPPORTS_XLA: whether Keras may compile a model with XLA.
"""

import keras

_NAME = keras.backend.backend()
if _NAME == "torch":
    from . import _torch as backend
elif _NAME == "jax":
    from . import _jax as backend
elif _NAME == "tensorflow":
    from . import _tensorflow as backend
else:
    raise ImportError(f"Keras runs on the back end {_NAME!r}; sluice.keras runs on 'torch', 'jax' and 'tensorflow'")

__all__ = ["backend"]
