"""The configuration of a stack: a static parameter of JAX's primitives."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from .. import _native
from .._devices import open_device
from .._weights import KINDS, name_of, shapes_of

_CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")  # from 1 on, as sluice_cell
_DTYPES = ("float64", "float32", "bfloat16", "float16")  # from 1 on, as sluice_dtype


@dataclass(frozen=True)
class Config:
    cell: str
    input: int
    hidden: tuple  # of each layer
    projection: tuple  # of each layer; empty: none
    directions: int
    kinds: tuple  # for each layer and direction, a tuple of the kinds of weights that it has
    peepholes: bool
    layer_norm: bool
    hard_sigmoid: bool
    dtype: str
    weight_dtype: str
    batch_first: bool
    tf32: bool
    dropout: float
    zoneout_h: float
    zoneout_c: float
    recurrent_dropout: float
    implementation: str

    @property
    def is_lstm(self):
        return self.cell == "lstm"

    @property
    def layers(self):
        return len(self.hidden)

    @property
    def outputs(self):
        """Widths of h, of each layer."""
        return self.projection or self.hidden

    @property
    def cell_dtype(self):
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def row_axis(self):
        """The axis of rows in x and y."""
        return 0 if self.batch_first else 1

    @property
    def draws(self):
        """Whether training draws random numbers."""
        between = self.dropout and self.layers > 1
        return bool(between or self.zoneout_h or self.zoneout_c or self.recurrent_dropout)

    @cached_property
    def weight_shapes(self):
        """(name, shape) of all weights, in the order that primitives take them in."""
        shapes, width = [], self.input
        for layer, (hidden, output) in enumerate(zip(self.hidden, self.outputs)):
            known = shapes_of(self.cell, width, hidden, output)
            for direction in range(self.directions):
                kinds = self.kinds[layer * self.directions + direction]
                shapes += [(name_of(kind, layer, direction), known[kind]) for kind in kinds]
            width = self.directions * output
        return tuple(shapes)

    def extent(self, x_shape):
        """Time steps and rows."""
        return (x_shape[1], x_shape[0]) if self.batch_first else tuple(x_shape[:2])

    def state_shape(self, name, rows):
        """The shape of the buffer of "h" or "c": [layers*directions, rows, width], or flat if layers differ in width."""
        widths = self.outputs if name == "h" else self.hidden
        if len(set(widths)) == 1:
            return (self.layers * self.directions, rows, widths[0])
        return (self.directions * rows * sum(widths),)

    def result_shapes(self, x_shape):
        """ShapeDtypeStructs of y, hn and, of an LSTM, cn."""
        rows = self.extent(x_shape)[1]
        results = [jax.ShapeDtypeStruct((*x_shape[:2], self.directions * self.outputs[-1]), jnp.dtype(self.dtype)),
                   jax.ShapeDtypeStruct(self.state_shape("h", rows), jnp.dtype(self.dtype))]
        if self.is_lstm:
            results.append(jax.ShapeDtypeStruct(self.state_shape("c", rows), jnp.dtype(self.cell_dtype)))
        return results

    # --- for the library ------------------------------------------------------------------------------------------------

    def attributes(self, time, rows, training, resets):
        """The description of a plan, in the order of python/src/jax/description.h."""
        numbers = [1 + _CELLS.index(self.cell), self.layers, self.directions, self.input, time, rows,
                   *(1 + _DTYPES.index(dtype) for dtype in (self.dtype, self.weight_dtype, self.cell_dtype)),
                   self.tf32, training, self.batch_first, resets, self.peepholes, self.layer_norm, self.hard_sigmoid,
                   bool(self.projection),
                   *self.hidden, *self.projection]
        drawn = (self.dropout if self.layers > 1 else 0.0, self.recurrent_dropout) if training else (0.0, 0.0)
        rates = [drawn[0], self.zoneout_h, self.zoneout_c, drawn[1]]
        bits = [sum(1 << KINDS.index(kind) for kind in kinds) for kinds in self.kinds]
        # The version keeps calls that JAX's compilation cache has from another Sluice from being found there.
        return {"numbers": np.array(numbers, np.int64), "rates": np.array(rates, np.float64),
                "implementation": self.implementation, "weights": np.array(bits, np.int64), "version": _native.version}

    @lru_cache(maxsize=1024)
    def sizes(self, time, rows, training, resets):
        """Bytes of packed weights, workspace and reserve, enough for each device that JAX has.

        JAX traces a call before it knows where it will run. Raises what the default device says if no device runs it.
        """
        sizes, errors = [], []
        for device in _devices():
            try:
                plan = self._plan(device, time, rows, training, resets)
                sizes.append((plan.packed_bytes, plan.workspace_bytes, plan.reserve_bytes))
            except (ValueError, NotImplementedError, _native.DeviceError) as error:
                errors.append(error)
        if not sizes:
            raise errors[-1 if _defaults_to_cpu() else 0]
        return tuple(max(each) for each in zip(*sizes))

    def _plan(self, device, time, rows, training, resets):
        drawn = training and self.layers > 1
        return _native.Plan(
            _stream_of(device), self.cell, input=self.input, hidden=list(self.hidden),
            projection=list(self.projection) or None, directions=self.directions, time=time, rows=rows, dtype=self.dtype,
            weight_dtype=self.weight_dtype, cell_dtype=self.cell_dtype, tf32=self.tf32 and device != "cpu",
            training=training, strided=self.batch_first, dropout=self.dropout if drawn else 0.0, resets=resets,
            peepholes=self.peepholes, layer_norm=self.layer_norm, hard_sigmoid=self.hard_sigmoid, zoneout_h=self.zoneout_h,
            zoneout_c=self.zoneout_c, recurrent_dropout=self.recurrent_dropout if training else 0.0,
            implementation=self.implementation)


@lru_cache(maxsize=1)
def _devices():
    """Names of devices for whose kind JAX may compile; the CPU comes last."""
    try:
        gpus = jax.devices("cuda")
    except RuntimeError:
        return ("cpu",)
    return (f"cuda:{gpus[0].local_hardware_id}", "cpu")


def _defaults_to_cpu():
    default = jax.config.jax_default_device or jax.default_backend()
    return getattr(default, "platform", default) == "cpu"


@lru_cache(maxsize=None)
def _stream_of(device):
    """A stream for plans that only say their sizes."""
    opened = open_device(device)
    return _native.Stream.create(opened)
