"""LSTM, GRU and plain RNN stacks on NumPy arrays, and on arrays of any framework on the CPU or a GPU.

    import numpy as np
    from sluice.numpy import Stack, lstm

    y, (hn, cn) = lstm(x, weights)      # x [time, rows, input]; weights: a torch state dict as NumPy arrays
    stack = Stack("lstm", weights)      # packs the weights once
    y, (hn, cn) = stack(x)

A call runs where its weights are. On the CPU, arrays are numpy.ndarray, or anything that speaks DLPack. Results are
numpy.ndarray. On an NVIDIA GPU, arrays are DeviceArray, or anything with DLPack or __cuda_array_interface__: torch, CuPy,
JAX, numba. Results are DeviceArrays.

dtypes are float32, float64, bfloat16 (with the package ml_dtypes) and, on a GPU, float16. With 16 bits, weights may be
float32, and cell states (c0, cn) are float32.

Wrong shapes, values and devices raise ValueError, wrong dtypes TypeError, what no implementation can do
NotImplementedError.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _native
from ._arrays import checked_seed, dtype_of
from ._device_arrays import DeviceArray
from ._memory import memory_for, shared_memory_of
from ._plans import Plans
from ._states import States
from ._weights import layout_of

__all__ = ["DeviceArray", "Gradients", "Stack", "gru", "lstm", "rnn"]

Array = Any  #: numpy.ndarray, DeviceArray, or an array of another framework
Result = Union[np.ndarray, DeviceArray]
State = Union[Array, tuple[Optional[Array], Optional[Array]], None]  #: h, or (h, c) of an LSTM


class Gradients(NamedTuple):
    """What Stack.backward returns. None where it was not asked for."""

    x: Optional[Result]  #: as x
    state: Any  #: as the initial state: (dh0, dc0) of an LSTM, else dh0
    weights: Optional[dict[str, Result]]  #: with the names and shapes of the weights


class _Run(NamedTuple):
    """A forward that backward may be called for."""

    entry: object
    args: object
    arrays: tuple  # which the addresses in args need
    x_shape: tuple


class Stack:
    """A stack of recurrent layers. Keeps its plans, packed weights and memory from call to call.

    cell: "lstm", "gru" (resets after the product, as torch's), "gru_reset_before", "rnn_tanh" or "rnn_relu".
    weights: a dict from torch's names to arrays, such as "weight_ih_l0" [G*H, input], "weight_hh_l0" [G*H, H],
        "bias_ih_l0" and "bias_hh_l0" [G*H] (optional), "weight_hr_l0" [P, H] (LSTM with projection), and the same with
        "_l1", ... for more layers and "_reverse" for the second direction. "weight_peephole_l0" [3, H] gives peepholes;
        "gain_ih_l0", "gain_hh_l0" [4*H], "gain_c_l0", "shift_c_l0" [H] give layer norm. The stack runs where they are.
        Those on the CPU are copied. Those on a GPU are not: to change them, call load().
    bidirectional: None finds out from the names.
    batch_first: x and y are [rows, time, features], resets [rows, time].
    dtype: of x and y: None is that of the weights. "bfloat16" and "float16" also take float32 weights.
    training: backward will be called. Only then do dropout (between layers) and recurrent_dropout act, and zoneout
        draws; else zoneout takes its expectation.
    hard_sigmoid: gates of an LSTM or a GRU are clip(0.2 a + 0.5, 0, 1), as in Keras before version 3.
    implementation: "auto", or a name that explain() has.
    plans: the most plans to keep; each is for a rounded number of time steps and rows.
    stream: a cudaStream_t as an integer; 0 is CUDA's default stream. Work is queued there and calls return at once. It
        must outlive the stack and its results. None: a stream of the stack's own, and calls wait for their results.

    Threads may share a stack: calls wait for each other.
    """

    def __init__(self, cell: str, weights: Mapping[str, Array], *, bidirectional: bool | None = None,
                 batch_first: bool = False, dtype: Any = None, training: bool = False, dropout: float = 0.0,
                 zoneout_h: float = 0.0, zoneout_c: float = 0.0, recurrent_dropout: float = 0.0,
                 hard_sigmoid: bool = False, implementation: str = "auto", plans: int = 8,
                 stream: int | None = None) -> None:
        self._memory = memory = memory_for(weights, stream)
        arrays = {name: memory.array(array, name) for name, array in weights.items()}
        self._lock = threading.Lock()
        self._layout = layout_of(cell, {name: array.shape for name, array in arrays.items()}, bidirectional)
        self._set_dtypes(dtype, arrays["weight_ih_l0"].dtype)
        self._batch_first = batch_first
        self._training = training
        options = {**self._layout.plan_options(), "dtype": self._dtype.name, "weight_dtype": self._weight_dtype.name,
                   "training": training, "strided": batch_first, "dropout": float(dropout), "zoneout_h": float(zoneout_h),
                   "zoneout_c": float(zoneout_c), "recurrent_dropout": float(recurrent_dropout),
                   "hard_sigmoid": bool(hard_sigmoid), "implementation": implementation}
        self._plans = Plans(memory.stream, options, memory.allocate, plans)
        self._run = None
        self._version = 0
        self._set_widths()
        self.load(arrays)

    def _set_dtypes(self, dtype, weight_dtype):
        known = self._memory.dtypes
        if weight_dtype.name not in known or not weight_dtype.isnative:
            raise TypeError(f"weight_ih_l0 is {weight_dtype}; {self._wanted_dtypes(weight_dtype.name)}")
        name = weight_dtype.name if dtype is None else getattr(dtype, "name", None) or dtype_of(dtype, "dtype").name
        if name not in known:
            raise TypeError(f"dtype is {name}; {self._wanted_dtypes(name)}")
        self._dtype = dtype_of(name, "dtype")
        if weight_dtype != self._dtype and (name not in ("bfloat16", "float16") or weight_dtype != np.float32):
            raise TypeError(f"the weights are {weight_dtype} and dtype is {name}; convert the weights")
        self._weight_dtype = weight_dtype
        self._cell_dtype = np.dtype(np.float64 if name == "float64" else np.float32)

    def _wanted_dtypes(self, name):
        known = ", ".join(self._memory.dtypes)
        return f"float16 runs on a GPU only; use one of {known}" if name == "float16" else f"it must be one of {known}"

    def _set_widths(self):
        layout = self._layout
        self._x_width = layout.input
        self._empty, self._address = self._memory.empty, self._memory.address
        self._y_width = layout.directions * layout.outputs[-1]
        self._lstm = layout.cell == "lstm"
        self._h = States(layout.outputs, layout.directions, self._dtype, self._memory)
        self._c = States(layout.hidden, layout.directions, self._cell_dtype, self._memory)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of x, y and h."""
        return self._dtype

    def __repr__(self):
        layout = self._layout
        return (f"Stack({layout.cell!r}, input {layout.input}, hidden {list(layout.hidden)}, "
                f"{layout.directions} direction{'s' if layout.directions == 2 else ''}, {self._dtype})")

    def load(self, weights: Mapping[str, Array]) -> None:
        """Takes other weights of the same names and shapes."""
        memory = self._memory
        arrays = {name: memory.array(array, name) for name, array in weights.items()}
        unknown = set(arrays) ^ set(self._layout.shapes)
        if unknown:
            name = min(unknown)
            raise ValueError(f"weights {'has' if name in arrays else 'has no'} {name!r}, unlike those of this stack")
        kept = {name: memory.keep(memory.checked(array, name, self._layout.shapes[name], self._weight_dtype))
                for name, array in arrays.items()}
        with self._lock:
            self._weights = kept
            self._native_weights = self._addresses(kept)
            self._version += 1

    def _addresses(self, arrays):
        address = self._address
        return [_native.Weights(**{kind: address(arrays[name]) for kind, name in names.items()})
                for names in self._layout.names()]

    def explain(self, time: int, rows: int) -> str:
        """Says which implementation runs this extent, and why those before it declined."""
        with self._lock:
            plan = self._plans.plan(time, rows, resets=False)
            return "\n".join(filter(None, (plan.implementation, plan.explain())))

    def _pair(self, state, name):
        """(h, c) of a state that a caller gave; c is None unless it is an LSTM's."""
        if state is None:
            return None, None
        if not self._lstm:
            return state, None
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise TypeError(f"{name} must be a pair (h, c)")
        return state

    # --- runs -----------------------------------------------------------------------------------------------------------

    def __call__(self, x: Array, hx: State = None, *, lengths: Array | None = None, resets: Array | None = None,
                 seed: int = 0) -> tuple[Result, Any]:
        """As forward."""
        return self.forward(x, hx, lengths=lengths, resets=resets, seed=seed)

    def forward(self, x: Array, hx: State = None, *, lengths: Array | None = None, resets: Array | None = None,
                seed: int = 0) -> tuple[Result, Any]:
        """Returns y and the last state: y, (hn, cn) of an LSTM, else y, hn.

        x: [time, rows, input], or [rows, time, input] with batch_first; or [time, input], a single row.
        hx: the initial state, (h0, c0) of an LSTM, else h0: each [layers*directions, rows, width], or None for zero.
        lengths: [rows] integers from 0 to time, in any order. Past a row's end y is zero; the last state is that at its end.
        resets: [time, rows]; true where a new sequence begins, so that no state passes from the step before.
            lengths and resets of a stack on a GPU may be on the host: they are checked and copied, and the call waits for
            that. On the GPU they must be int32 and are not checked: lengths out of range read and write other memory.
        seed: of dropout and zoneout, in training.

        y: as x, with directions*width features. In training, x and y must not change before backward.
        """
        with self._lock:
            self._run = None
            memory = self._memory
            if type(x) is not memory.array_type:
                x = memory.array(x, "x")
            if x.dtype != self._dtype:
                raise TypeError(f"x is {x.dtype}; the stack computes {self._dtype}")
            x_shape = x.shape
            single = len(x_shape) == 2
            if single:
                time, width = x_shape
                x = x.reshape((1, time, width) if self._batch_first else (time, 1, width))
            shape = x.shape
            if len(shape) != 3 or shape[2] != self._x_width:
                raise ValueError(f"x has shape {x_shape}; it must have 3 dimensions, the last of {self._x_width} features "
                                 "(or 2, for one row)")
            x = memory.contiguous(x, "x")
            time, rows = (shape[1], shape[0]) if self._batch_first else shape[:2]
            if time == 0 or rows == 0:
                raise ValueError(f"x has shape {x_shape}; it needs at least one time step and one row")
            return self._forward(x, hx, lengths, resets, seed, time, rows, single, x_shape)

    def _forward(self, x, hx, lengths, resets, seed, time, rows, single, x_shape):
        h0, c0 = self._pair(hx, "hx")
        memory = self._memory
        arrays = {"x": x, "y": self._empty((*x.shape[:2], self._y_width), self._dtype), "hn": self._h.empty(rows)}
        if h0 is not None:
            arrays["h0"] = self._h.given(h0, "h0", rows, single)
        if self._lstm:
            arrays["cn"] = self._c.empty(rows)
            if c0 is not None:
                arrays["c0"] = self._c.given(c0, "c0", rows, single)
        if lengths is not None:
            arrays["lengths"] = memory.lengths(lengths, rows, time)
        if resets is not None:
            arrays["resets"] = memory.resets(resets, time, rows, self._batch_first)
        entry = self._plans.get(time, rows, resets=resets is not None)
        entry.pack(self._native_weights, self._version)
        address = self._address
        args = _native.ForwardArgs(time=time, rows=rows, **{name: address(array) for name, array in arrays.items()})
        if seed != 0:
            args.seed = checked_seed(seed)
        if self._batch_first:
            args.x_time_stride, args.x_row_stride = self._x_width, time * self._x_width
            args.y_time_stride, args.y_row_stride = self._y_width, time * self._y_width
        entry.plan.forward(args, entry.memory)
        memory.finish()
        if self._training:
            self._run = _Run(entry, args, (arrays, self._weights), x_shape)
        y = arrays["y"]
        if single:
            y = y.reshape((time, self._y_width))
        hn = self._h.returned(arrays["hn"], rows, single)
        return (y, (hn, self._c.returned(arrays["cn"], rows, single))) if self._lstm else (y, hn)

    def backward(self, dy: Array | None = None, dstate: State = None, *, x: bool = True, state: bool = True,
                 weights: bool = True) -> Gradients:
        """Returns the Gradients for those of what the last forward returned. Once for each forward.

        dy: as y. dstate: as the last state, (dhn, dcn) of an LSTM, else dhn. None is zero, also within the pair.
        x, state, weights: whether the gradients of these are computed.
        """
        with self._lock:
            if not self._training:
                raise RuntimeError("backward needs a Stack that was made with training=True")
            if self._run is None:
                raise RuntimeError("backward comes once after each forward")
            run = self._run
            arrays, out = self._backward_arrays(run, dy, dstate, x, state)
            self._run = None
            gradients = None
            if weights:
                gradients = {name: self._empty(array.shape, array.dtype) for name, array in run.arrays[1].items()}
            address = self._address
            args = _native.BackwardArgs(**{name: address(array) for name, array in {**arrays, **out}.items()})
            if self._batch_first:
                time = run.args.time
                args.dx_time_stride, args.dx_row_stride = self._x_width, time * self._x_width
                args.dy_time_stride, args.dy_row_stride = self._y_width, time * self._y_width
            run.entry.plan.backward(run.args, args, self._addresses(gradients) if weights else None, run.entry.memory)
            self._memory.finish()
            return self._gradients(run, out, gradients)

    def _backward_arrays(self, run, dy, dstate, x, state):
        """What backward reads, and what it writes."""
        rows = run.args.rows
        single = len(run.x_shape) == 2
        dhn, dcn = self._pair(dstate, "dstate")
        arrays, out = {}, {}
        if dy is not None:
            arrays["dy"] = self._memory.checked(dy, "dy", (*run.x_shape[:-1], self._y_width), self._dtype)
        if dhn is not None:
            arrays["dhn"] = self._h.given(dhn, "dhn", rows, single)
        if dcn is not None:
            arrays["dcn"] = self._c.given(dcn, "dcn", rows, single)
        if x:
            out["dx"] = self._empty(run.x_shape, self._dtype)
        if state:
            out["dh0"] = self._h.empty(rows)
            if self._lstm:
                out["dc0"] = self._c.empty(rows)
        return arrays, out

    def _gradients(self, run, out, gradients):
        single = len(run.x_shape) == 2
        state = None
        if "dh0" in out:
            state = self._h.returned(out["dh0"], run.args.rows, single)
        if "dc0" in out:
            state = (state, self._c.returned(out["dc0"], run.args.rows, single))
        return Gradients(out.get("dx"), state, gradients)


# --- functions ----------------------------------------------------------------------------------------------------------

_kept = threading.local()
_MOST_KEPT = 8


def _stack(cell, weights, **options):
    """A stack that this thread keeps, with these weights."""
    memory = shared_memory_of(weights)
    arrays = {name: memory.array(array, name) for name, array in weights.items()}
    key = (cell, type(memory), memory.device, tuple((name, array.shape, array.dtype) for name, array in arrays.items()), *options.items())
    stacks = _kept.__dict__.setdefault("stacks", OrderedDict())
    stack = stacks.get(key)
    if stack is None:
        stack = stacks[key] = Stack(cell, arrays, **options)
        if len(stacks) > _MOST_KEPT:
            stacks.popitem(last=False)
    else:
        stack.load(arrays)
    stacks.move_to_end(key)
    return stack


def lstm(x: Array, weights: Mapping[str, Array], hx: State = None, *, lengths: Array | None = None,
         resets: Array | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
         implementation: str = "auto") -> tuple[Result, tuple[Any, Any]]:
    """An LSTM stack. Returns y, (hn, cn). Arguments are those of Stack and Stack.forward.

    Weights may have changed since the last call, so each call copies and packs them; a Stack does so once.
    """
    return _stack("lstm", weights, bidirectional=bidirectional, batch_first=batch_first, dtype=dtype,
                  implementation=implementation)(x, hx, lengths=lengths, resets=resets)


def gru(x: Array, weights: Mapping[str, Array], hx: State = None, *, lengths: Array | None = None,
        resets: Array | None = None, batch_first: bool = False, bidirectional: bool | None = None, dtype: Any = None,
        reset_after: bool = True, implementation: str = "auto") -> tuple[Result, Any]:
    """A GRU stack. Returns y, hn. reset_after=False resets before the product. See lstm."""
    return _stack("gru" if reset_after else "gru_reset_before", weights, bidirectional=bidirectional,
                  batch_first=batch_first, dtype=dtype, implementation=implementation)(
                      x, hx, lengths=lengths, resets=resets)


def rnn(x: Array, weights: Mapping[str, Array], hx: State = None, *, nonlinearity: str = "tanh",
        lengths: Array | None = None, resets: Array | None = None, batch_first: bool = False,
        bidirectional: bool | None = None, dtype: Any = None,
        implementation: str = "auto") -> tuple[Result, Any]:
    """A plain RNN stack. Returns y, hn. nonlinearity is "tanh" or "relu". See lstm."""
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"nonlinearity is {nonlinearity!r}, not 'tanh' or 'relu'")
    return _stack(f"rnn_{nonlinearity}", weights, bidirectional=bidirectional, batch_first=batch_first, dtype=dtype,
                  implementation=implementation)(x, hx, lengths=lengths, resets=resets)
