"""lstm, gru and rnn."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, Optional, Union

import numpy as np
import tensorflow as tf

from .._weights import layout_of
from . import _gradient  # noqa: F401  registers it
from ._library import ops
from ._states import States

try:
    from tensorflow.python.eager.record import should_record_backprop as _is_watched
except ImportError:  # It is no part of TensorFlow's API.
    def _is_watched(tensors):
        return True

Tensor = Any  #: tf.Tensor, tf.Variable, or what tf.convert_to_tensor takes
State = Union[Tensor, tuple[Optional[Tensor], Optional[Tensor]], None]  #: h, or (h, c) of an LSTM

_DTYPES = (tf.float32, tf.float64, tf.bfloat16)
_NO_SEED = np.int64(0)


def _dtype_of(dtype, weights):
    """The dtype of x, y and states."""
    weight_dtype = weights["weight_ih_l0"].dtype
    dtype = weight_dtype if dtype is None else tf.as_dtype(dtype)
    for name, value in (("dtype", dtype), ("weight_ih_l0", weight_dtype)):
        if value not in _DTYPES:
            raise TypeError(f"{name} is {value.name}; it must be one of float32, float64, bfloat16")
    if weight_dtype != dtype and (dtype, weight_dtype) != (tf.bfloat16, tf.float32):
        raise TypeError(f"the weights are {weight_dtype.name} and dtype is {dtype.name}; convert the weights")
    for name, weight in weights.items():
        if weight.dtype != weight_dtype:
            raise TypeError(f"{name} is {weight.dtype.name}; here it must be {weight_dtype.name}")
    return dtype


def _shapes_of(weights):
    for name, weight in weights.items():
        if not weight.shape.is_fully_defined():
            raise ValueError(f"{name} has shape {weight.shape}; the shapes of weights must be known")
    return {name: tuple(weight.shape) for name, weight in weights.items()}


def _given(value, dtype, name):
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype != dtype:
        raise TypeError(f"{name} is {tensor.dtype.name}; here it must be {dtype.name}")
    return tensor


def _integers(value, name, shape):
    """An int tensor; `shape` has None where an extent is unknown."""
    tensor = tf.convert_to_tensor(value)
    if not (tensor.dtype.is_integer or tensor.dtype.is_bool):
        raise TypeError(f"{name} is {tensor.dtype.name}; it must be of integers")
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"{name} has shape {tensor.shape}, not {tf.TensorShape(shape)}")
    return tensor


def _checked_lengths(lengths, rows):
    tensor = _integers(lengths, "lengths", [rows])
    if tensor.dtype.is_bool:
        raise TypeError("lengths is bool; it must be of integers")
    if tensor.dtype in (tf.uint32, tf.uint64):  # saturate_cast has no kernel for them.
        return tf.cast(tf.minimum(tensor, tf.int32.max), tf.int32)
    return tensor if tensor.dtype == tf.int32 else tf.saturate_cast(tensor, tf.int32)


def _checked_resets(resets, time, rows, batch_first, single):
    tensor = tf.convert_to_tensor(resets)
    if single and tensor.shape.rank == 1:
        tensor = tf.expand_dims(tensor, 0 if batch_first else 1)
    tensor = _integers(tensor, "resets", [rows, time] if batch_first else [time, rows])
    tensor = tensor if tensor.dtype.is_bool else tf.not_equal(tensor, 0)
    return tf.cast(tf.transpose(tensor) if batch_first else tensor, tf.int32)


def _checked_rates(rates):
    for name, rate in rates.items():
        if not isinstance(rate, numbers.Real):
            raise TypeError(f"{name} is of type {type(rate).__name__}; it must be a number")
        if not 0 <= rate < 1:
            raise ValueError(f"{name} is {rate}; a rate is at least 0 and less than 1")


def _seed(seed):
    """None: of TensorFlow's generator, another one in each run."""
    if seed is None:
        return tf.random.uniform([], maxval=tf.int64.max, dtype=tf.int64)
    return tf.cast(_integers(seed, "seed", []), tf.int64)


def _pair(hx, is_lstm):
    if hx is None:
        return None, None
    if not is_lstm:
        return hx, None
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise TypeError("hx must be a pair (h, c)")
    return hx


def _keeps(training, tensors):
    """Whether a run keeps what its gradient needs. Without it, the gradient runs forward again."""
    if training is not None:
        return bool(training)
    return not tf.executing_eagerly() or _is_watched(tensors)


def _checked_x(x, dtype, input, batch_first):
    """x with three dimensions, whether it is a single row, and its time steps and rows, None where they are unknown."""
    x = _given(x, dtype, "x")
    shape = x.shape
    if shape.rank not in (None, 2, 3) or shape.rank and shape[-1] not in (None, input):
        raise ValueError(f"x has shape {shape}; it must have 3 dimensions, the last of {input} features (or 2, for one row)")
    single = shape.rank == 2
    if single:
        x = tf.expand_dims(x, 0 if batch_first else 1)
    time, rows = (x.shape[:2][::-1] if batch_first else x.shape[:2]) if shape.rank else (None, None)
    if time == 0:
        raise ValueError(f"x has shape {shape}; it needs at least one time step")
    return x, single, time, rows


@tf.autograph.experimental.do_not_convert  # There is nothing to convert.
def _run(cell, x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation, training, seed,
         hard_sigmoid=False, **rates):
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights is of type {type(weights).__name__}; it must be a dict from names to tensors")
    weights = {name: tf.convert_to_tensor(weight) for name, weight in weights.items()}
    layout = layout_of(cell, _shapes_of(weights), bidirectional)
    dtype = _dtype_of(dtype, weights)
    _checked_rates(rates)
    x, single, time, rows = _checked_x(x, dtype, layout.input, batch_first)
    h_states = States(layout.outputs, layout.directions)
    c_states = States(layout.hidden, layout.directions)
    h0, c0 = _pair(hx, cell == "lstm")
    h0 = [] if h0 is None else [h_states.given(h0, "h0", dtype, rows, single)]
    c0 = [] if c0 is None else [c_states.given(c0, "c0", dtype, rows, single)]
    lengths = [] if lengths is None else [_checked_lengths(lengths, rows)]
    resets = [] if resets is None else [_checked_resets(resets, time, rows, batch_first, single)]

    names = [name for of_direction in layout.names() for name in of_direction.values()]
    kinds = [kind for of_direction in layout.names() for kind in of_direction]
    tensors = [weights[name] for name in names]
    zoneout = rates["zoneout_h"] or rates["zoneout_c"]
    # Without training, zoneout takes its expectation, which only a plan without gradient has.
    keeps = bool(training) if zoneout else _keeps(training, [x, *tensors, *h0, *c0])
    if not training:
        rates["dropout"] = rates["recurrent_dropout"] = 0.0
    draws = training and any(rates.values())
    y, hn, cn, _, _ = ops().sluice_recurrent(
        x, tensors, h0, c0, lengths, resets, _seed(seed) if draws else _NO_SEED, cell=cell, hidden=layout.hidden,
        projection=layout.projection, directions=layout.directions, weight_kinds=kinds, batch_first=batch_first, training=keeps,
        hard_sigmoid=bool(hard_sigmoid), implementation=implementation, **rates)
    if single:
        y = tf.squeeze(y, 0 if batch_first else 1)
    hn = h_states.returned(hn, single)
    return (y, (hn, c_states.returned(cn, single))) if cell == "lstm" else (y, hn)


def lstm(x: Tensor, weights: Mapping[str, Tensor], hx: State = None, *, lengths: Tensor | None = None,
         resets: Tensor | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
         implementation: str = "auto", training: bool | None = None, dropout: float = 0.0, zoneout_h: float = 0.0,
         zoneout_c: float = 0.0, recurrent_dropout: float = 0.0, hard_sigmoid: bool = False,
         seed: Tensor | int | None = None) -> tuple[tf.Tensor, tuple[Any, Any]]:
    """An LSTM stack. Returns y, (hn, cn).

    x: [time, rows, input], or [rows, time, input] with batch_first; or [time, input], a single row.
    weights: a dict from torch's names to tensors or variables, such as "weight_ih_l0" [4*H, input], "weight_hh_l0" [4*H, H],
        "bias_ih_l0" and "bias_hh_l0" [4*H] (optional), "weight_hr_l0" [P, H] with a projection, and the same with "_l1", ...
        for more layers and "_reverse" for the second direction; see sluice.numpy.Stack for peepholes and layer norm. Gates
        are i, f, g, o.
    hx: the initial state (h0, c0), each [layers*directions, rows, width], or None for zero. If layers differ in width, a
        state is a list with a tensor [directions, rows, width] for each layer.
    lengths: [rows] integers from 0 to time, in any order. Past a row's end y is zero; the last state is that at its end.
    resets: [time, rows], or [rows, time] with batch_first, or [time] for a single row; true where a new sequence begins, so
        that no state passes from the step before.
    bidirectional: None finds out from the names of the weights.
    dtype: of x, y and states: None is that of the weights; "bfloat16" also takes float32 weights.
    training: True: dropout acts, zoneout draws, and the run keeps what its gradient needs. False: it does not, and a
        gradient runs forward again. None: as False, but it keeps what its gradient needs if a tape watches, or in a graph.
    dropout: between layers. recurrent_dropout: of h in the recurrent product. zoneout_h, zoneout_c: rates at which units
        keep their h and c.
    hard_sigmoid: gates are clip(0.2 a + 0.5, 0, 1), as in Keras before version 3.
    seed: an integer, or a scalar tensor, that decides what is drawn; None: TensorFlow's generator does.

    Wrong shapes and values raise ValueError and wrong dtypes TypeError, or tf.errors.InvalidArgumentError where they are known
    only when the graph runs.
    """
    return _run("lstm", x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation, training, seed,
                hard_sigmoid, dropout=dropout, zoneout_h=zoneout_h, zoneout_c=zoneout_c,
                recurrent_dropout=recurrent_dropout)


def gru(x: Tensor, weights: Mapping[str, Tensor], hx: Tensor | None = None, *, lengths: Tensor | None = None,
        resets: Tensor | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
        reset_after: bool = True, implementation: str = "auto", training: bool | None = None, dropout: float = 0.0,
        zoneout_h: float = 0.0, recurrent_dropout: float = 0.0, hard_sigmoid: bool = False,
        seed: Tensor | int | None = None) -> tuple[tf.Tensor, Any]:
    """A GRU stack, gates r, z, n. Returns y, hn. reset_after=False resets before the product. See lstm."""
    return _run("gru" if reset_after else "gru_reset_before", x, weights, hx, lengths, resets, batch_first, bidirectional,
                dtype, implementation, training, seed, hard_sigmoid, dropout=dropout, zoneout_h=zoneout_h, zoneout_c=0.0,
                recurrent_dropout=recurrent_dropout)


def rnn(x: Tensor, weights: Mapping[str, Tensor], hx: Tensor | None = None, *, nonlinearity: str = "tanh",
        lengths: Tensor | None = None, resets: Tensor | None = None, batch_first: bool = False,
        bidirectional: bool | None = None, dtype: Any = None, implementation: str = "auto", training: bool | None = None,
        dropout: float = 0.0, zoneout_h: float = 0.0, recurrent_dropout: float = 0.0,
        seed: Tensor | int | None = None) -> tuple[tf.Tensor, Any]:
    """A plain RNN stack. Returns y, hn. nonlinearity is "tanh" or "relu". See lstm."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity is {nonlinearity!r}, not 'tanh' or 'relu'")
    return _run(f"rnn_{nonlinearity}", x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation,
                training, seed, dropout=dropout, zoneout_h=zoneout_h, zoneout_c=0.0, recurrent_dropout=recurrent_dropout)
