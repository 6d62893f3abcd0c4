"""lstm, gru and rnn: checks of what callers give, and one run of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Optional, Union

import jax
import jax.numpy as jnp
import numpy as np

from .._weights import layout_of
from ._config import Config
from ._primitives import forward_p

Array = Any  #: jax.Array, or what jnp.asarray takes
State = Union[Array, tuple[Optional[Array], Optional[Array]], None]  #: h, or (h, c) of an LSTM

_DTYPES = ("float32", "float64", "bfloat16", "float16")
# Those for which XLA multiplies float32 on a GPU without TF32.
_EXACT = ("highest", "float32", "f32_f32_f32", "bf16_bf16_f32_x6", "bf16_bf16_f32_x9", "f64_f64_f64")


def lstm(x: Array, weights: Mapping[str, Array], hx: State = None, *, lengths: Array | None = None,
         resets: Array | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
         dropout: float = 0.0, zoneout_h: float = 0.0, zoneout_c: float = 0.0, recurrent_dropout: float = 0.0,
         hard_sigmoid: bool = False, key: Array | None = None,
         implementation: str = "auto") -> tuple[jax.Array, tuple[Any, Any]]:
    """An LSTM stack. Returns y, (hn, cn).

    x: [time, rows, input], or [rows, time, input] with batch_first; or [time, input], a single row.
    weights: a dict from torch's names to arrays, such as "weight_ih_l0" [4*H, input], "weight_hh_l0" [4*H, H],
        "bias_ih_l0" and "bias_hh_l0" [4*H] (optional), "weight_hr_l0" [P, H] (a projection), and the same with "_l1", ...
        for more layers and "_reverse" for the second direction. "weight_peephole_l0" [3, H] gives peepholes;
        "gain_ih_l0", "gain_hh_l0" [4*H], "gain_c_l0", "shift_c_l0" [H] give layer norm. `init` makes such a dict.
    hx: the initial state (h0, c0), each [layers*directions, rows, width], or None for zero. If layers differ in width, each
        is a list with an array [directions, rows, width] for each layer.
    lengths: [rows] integers from 0 to time, in any order. Past a row's end y is zero; the last state is that at its end.
        A length in a NumPy array or a list raises ValueError if it is below 0 or above time. In a jax.Array it counts as 0
        or time then, because JAX traces before it has the values.
    resets: [time, rows], or [rows, time] with batch_first; true where a new sequence begins, so that no state passes from
        the step before.
    bidirectional: None finds out from the names.
    dtype: of x, y and h: None is that of the weights. "bfloat16" and "float16" also take float32 weights; cell states are
        float32 then.
    dropout (between layers), recurrent_dropout, zoneout_h, zoneout_c: rates that act in training, which is if there is a
        key. Without one, dropout is none and zoneout takes its expectation.
    hard_sigmoid: gates are clip(0.2 a + 0.5, 0, 1), as in Keras before version 3.
    key: a key of jax.random.
    implementation: "auto", or a name that sluice.numpy's Stack.explain has.

    y: as x, with directions*width features. The last state is as hx.
    """
    return _stack("lstm", x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation, key,
                  hard_sigmoid=hard_sigmoid, dropout=dropout, zoneout_h=zoneout_h, zoneout_c=zoneout_c,
                  recurrent_dropout=recurrent_dropout)


def gru(x: Array, weights: Mapping[str, Array], hx: State = None, *, lengths: Array | None = None,
        resets: Array | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
        reset_after: bool = True, dropout: float = 0.0, zoneout_h: float = 0.0, recurrent_dropout: float = 0.0,
        hard_sigmoid: bool = False, key: Array | None = None, implementation: str = "auto") -> tuple[jax.Array, Any]:
    """A GRU stack. Returns y, hn. reset_after=False resets before the product. hx is h0; the rest is as lstm's."""
    return _stack("gru" if reset_after else "gru_reset_before", x, weights, hx, lengths, resets, batch_first, bidirectional,
                  dtype, implementation, key, hard_sigmoid=hard_sigmoid, dropout=dropout, zoneout_h=zoneout_h,
                  recurrent_dropout=recurrent_dropout)


def rnn(x: Array, weights: Mapping[str, Array], hx: State = None, *, nonlinearity: str = "tanh",
        lengths: Array | None = None, resets: Array | None = None, batch_first: bool = False,
        bidirectional: bool | None = None, dtype: Any = None, dropout: float = 0.0, zoneout_h: float = 0.0,
        recurrent_dropout: float = 0.0, key: Array | None = None,
        implementation: str = "auto") -> tuple[jax.Array, Any]:
    """A plain RNN stack. Returns y, hn. nonlinearity is "tanh" or "relu". hx is h0; the rest is as lstm's."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity is {nonlinearity!r}, not 'tanh' or 'relu'")
    return _stack(f"rnn_{nonlinearity}", x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation,
                  key, dropout=dropout, zoneout_h=zoneout_h, recurrent_dropout=recurrent_dropout)


# --- checks -------------------------------------------------------------------------------------------------------------


def _array(value, name):
    """A jax.Array of what callers give."""
    if isinstance(value, jax.Array):
        return value
    if value is None or isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be an array")
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no array: {str(error).splitlines()[0]}") from None


def _check(array, name, shape, dtype):
    if array.dtype.name != dtype:
        raise TypeError(f"{name} is {array.dtype}; here it must be {dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    return array


def _integers(array, name, shape):
    if array.dtype.kind not in "iub":
        raise TypeError(f"{name} is {array.dtype}; it must be of integers")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, not {shape}")
    return array


def _sized(array, name):
    """Refuses sizes that jax.export leaves open."""
    if any(not isinstance(size, int) for size in array.shape):
        shape = ", ".join(map(str, array.shape))
        raise NotImplementedError(f"{name} has the shape ({shape}); export a function with numbers for all sizes")
    return array


def _checked_rate(rate, value):
    try:
        number = float(value + 0.0)  # raises for text too
    except TypeError:  # JAX's, for a value that it traces, is one
        kind = type(value).__name__
        raise TypeError(f"{rate} is of type {kind}; it must be a number that is known before tracing") from None
    if not 0 <= number < 1:
        raise ValueError(f"{rate} is {value}; a rate is at least 0 and less than 1")
    return number


def _checked_lengths(lengths, rows, time):
    if not isinstance(lengths, jax.Array):
        try:
            lengths = np.asarray(lengths)
        except jax.errors.TracerArrayConversionError:
            raise TypeError("lengths is a list with values that JAX traces; make one array of them by jnp.stack") from None
        host = _integers(lengths, "lengths", (rows,))
        least, most = int(host.min()), int(host.max())
        if least < 0 or most > time:
            raise ValueError(f"lengths has {least if least < 0 else most}; with {time} time steps they are 0 to {time}")
        lengths = host.astype(np.int32)
    return _integers(jnp.asarray(lengths), "lengths", (rows,))


def _dtype_name(dtype, weight_dtype):
    try:
        name = weight_dtype if dtype is None else jnp.dtype(dtype).name
    except TypeError:
        raise TypeError(f"dtype is {dtype!r}; it must be one of {', '.join(_DTYPES)}") from None
    if name not in _DTYPES:
        what = "weight_ih_l0" if dtype is None else "dtype"
        raise TypeError(f"{what} is {name}; it must be one of {', '.join(_DTYPES)}")
    if weight_dtype != name and (name not in ("bfloat16", "float16") or weight_dtype != "float32"):
        raise TypeError(f"the weights are {weight_dtype} and dtype is {name}; convert the weights")
    return name


def _config(cell, arrays, bidirectional, batch_first, dtype, implementation, key, hard_sigmoid, rates):
    layout = layout_of(cell, {name: array.shape for name, array in arrays.items()}, bidirectional)
    weight_dtype = arrays["weight_ih_l0"].dtype.name
    name = _dtype_name(dtype, weight_dtype)
    for weight, array in arrays.items():
        if array.dtype.name != weight_dtype:
            raise TypeError(f"{weight} is {array.dtype}; here it must be {weight_dtype}")
    if not isinstance(implementation, str):
        raise TypeError(f"implementation is of type {type(implementation).__name__}; it must be a name, such as 'auto'")
    rates = {rate: _checked_rate(rate, rates.get(rate, 0.0))
             for rate in ("dropout", "zoneout_h", "zoneout_c", "recurrent_dropout")}
    if key is None:
        rates.update(dropout=0.0, recurrent_dropout=0.0)  # a gradient's forward would draw them otherwise
    precision = (jax.config.jax_default_matmul_precision or "default").lower()
    return Config(cell, layout.input, layout.hidden, layout.projection, layout.directions,
                  tuple(tuple(names) for names in layout.names()), layout.peepholes, layout.layer_norm, bool(hard_sigmoid),
                  name, weight_dtype, batch_first=bool(batch_first), tf32=name == "float32" and precision not in _EXACT,
                  implementation=implementation, **rates)


def _checked_state(config, name, state, rows, single):
    """The memory of an initial state, None for zero."""
    if state is None:
        return None
    widths, dtype = (config.outputs, config.dtype) if name == "h0" else (config.hidden, config.cell_dtype)
    shape = config.state_shape(name[0], rows)
    if len(shape) == 3:
        array = _array(state, name)
        if single and array.ndim == 2:
            array = array[:, None]
        return _check(array, name, shape, dtype)
    if not isinstance(state, (tuple, list)) or len(state) != len(widths):
        raise ValueError(f"{name} must be a list of {len(widths)} arrays, as the layers differ in width")
    parts = [_check(_array(part, f"{name}[{i}]"), f"{name}[{i}]", (config.directions, rows, width), dtype)
             for i, (part, width) in enumerate(zip(state, widths))]
    return jnp.concatenate([part.ravel() for part in parts])


def _returned_state(config, name, state, rows, single):
    """A last state in a caller's shape."""
    if state.ndim == 3:
        return state[:, 0] if single else state
    parts, begin = [], 0
    for width in config.outputs if name == "h" else config.hidden:
        end = begin + config.directions * rows * width
        parts.append(state[begin:end].reshape((config.directions, width) if single else (config.directions, rows, width)))
        begin = end
    return parts


# --- a run --------------------------------------------------------------------------------------------------------------


def _stack(cell, x, weights, hx, lengths, resets, batch_first, bidirectional, dtype, implementation, key, hard_sigmoid=False,
           **rates):
    if not isinstance(weights, Mapping):
        raise TypeError(f"weights is of type {type(weights).__name__}; it must be a dict from names to arrays")
    arrays = {name: _sized(_array(value, name), name) for name, value in weights.items()}
    config = _config(cell, arrays, bidirectional, batch_first, dtype, implementation, key, hard_sigmoid, rates)
    x = _sized(_array(x, "x"), "x")
    if x.dtype.name != config.dtype:
        raise TypeError(f"x is {x.dtype}; the stack computes {config.dtype}")
    single = x.ndim == 2
    shape = x.shape if not single else (1, *x.shape) if batch_first else (x.shape[0], 1, x.shape[1])
    if len(shape) != 3 or shape[2] != config.input:
        raise ValueError(f"x has shape {x.shape}; it must have 3 dimensions, the last of {config.input} features (or 2, for "
                         "one row)")
    time, rows = config.extent(shape)
    if time == 0 or rows == 0:
        raise ValueError(f"x has shape {x.shape}; it needs at least one time step and one row")
    if hx is not None and config.is_lstm and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
        raise TypeError("hx must be a pair (h, c)")
    h0, c0 = (None, None) if hx is None else hx if config.is_lstm else (hx, None)
    optional = {"h0": _checked_state(config, "h0", h0, rows, single),
                "c0": _checked_state(config, "c0", c0, rows, single)}
    if lengths is not None:
        optional["lengths"] = _checked_lengths(lengths, rows, time)
    if resets is not None:
        resets = _array(resets, "resets")
        if single and resets.ndim == 1:
            resets = resets[None] if batch_first else resets[:, None]
        optional["resets"] = _integers(resets, "resets", (rows, time) if batch_first else (time, rows))
    if key is not None and config.draws:
        optional["key"] = key
    optional = {name: value for name, value in optional.items() if value is not None}
    y, hn, *cn = _run(config, x.reshape(shape), tuple(arrays[name] for name, _ in config.weight_shapes), optional)
    y = y.reshape(*x.shape[:-1], y.shape[-1])
    hn = _returned_state(config, "h", hn, rows, single)
    return (y, (hn, _returned_state(config, "c", cn[0], rows, single))) if cn else (y, hn)


@partial(jax.jit, static_argnums=0, inline=True)
def _run(config, x, weights, optional):
    """y, hn and, of an LSTM, cn. optional: some of h0, c0, lengths, resets and key."""
    time, rows = config.extent(x.shape)
    if "lengths" in optional:
        lengths = optional["lengths"]
        if lengths.dtype.itemsize < 4:
            lengths = lengths.astype(jnp.int32)  # int8 does not hold a time above 127
        optional["lengths"] = jnp.clip(lengths, 0, time).astype(jnp.int32)
    if "resets" in optional:
        resets = optional["resets"] != 0
        optional["resets"] = (resets.T if config.batch_first else resets).astype(jnp.int32)
    if "key" in optional:
        # What is drawn depends on a number for each row, so keys of an axis that vmap maps draw for its rows.
        optional["row_ids"] = jax.random.bits(optional.pop("key"), (rows,), jnp.uint32).astype(jnp.int32)
    given = tuple(name for name in ("h0", "c0", "lengths", "resets", "row_ids") if name in optional)
    return forward_p.bind(x, *weights, *(optional[name] for name in given), config=config, given=given, residuals=False)
