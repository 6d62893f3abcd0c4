"""LSTM, GRU and RNN with torch's constructors, shapes and state dicts."""

import math
from dataclasses import replace
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from . import _inputs, _operators, _runs
from ._config import Config

_CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}
_ATTRIBUTES = {"mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional",
               "proj_size", "peepholes", "layer_norm", "zoneout", "recurrent_dropout", "reset_after",
               "hard_sigmoid"}


class _Layers(nn.RNNBase):
    """The base of LSTM, GRU and RNN. It is an nn.RNNBase, for code that looks for one, and no nn.LSTM, at which torch.compile
    stops.

    forward also takes
        lengths: [rows] integers from 0 to time, in any order; past a row's end y is zero, and the last state is that at
            its end. On the GPU larger ones count as `time`; none is read on the host.
        resets: [time, rows], or [rows, time] with batch_first; true where a new sequence begins, so that no state passes
            from the step before.
    """

    # For kinds of layers that lack an option, and for pickles that are older than it.
    peepholes = layer_norm = hard_sigmoid = False
    reset_after = True
    zoneout = recurrent_dropout = 0.0

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, proj_size=0, device=None, dtype=None, **options):
        super().__init__(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype)
        for name, value in options.items():
            setattr(self, name, value)
        self._check_options()
        self._add_weights(device, dtype)
        self._configure()

    def _check_options(self):
        h, c = self._zoneouts()
        for name, value in (("recurrent_dropout", self.recurrent_dropout), ("zoneout of h", h), ("zoneout of c", c)):
            if not 0 <= value < 1:
                raise ValueError(f"{name} is {value}; a rate is at least 0 and less than 1")
        if self.layer_norm and (self.proj_size or self.peepholes):
            raise ValueError("layer_norm goes with neither proj_size nor peepholes")
        if self.mode != "LSTM" and c and isinstance(self.zoneout, (tuple, list)):
            raise ValueError("zoneout is a pair, but only an LSTM has a c to keep")

    def _zoneouts(self):
        """Rates of h and of c."""
        if isinstance(self.zoneout, (tuple, list)):
            if len(self.zoneout) != 2:
                raise ValueError(f"zoneout has {len(self.zoneout)} rates; it is one rate, or a pair for h and c")
            return tuple(float(rate) for rate in self.zoneout)
        return float(self.zoneout), float(self.zoneout) if self.mode == "LSTM" else 0.0

    def _add_weights(self, device, dtype):
        """Adds the weights that torch's layers don't have."""
        config = self._make_config()
        extra = [(name, shape) for name, shape in config.weights() if name not in self._flat_weights_names]
        for name, shape in extra:
            setattr(self, name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        if extra:
            self._flat_weights_names = [name for name, _ in config.weights()]
            per_layer = len(config.kinds)
            self._all_weights = [self._flat_weights_names[i:i + per_layer]
                                 for i in range(0, len(self._flat_weights_names), per_layer)]
            self._init_flat_weights()
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch's: uniform up to 1 / sqrt(hidden_size). Gains of layer norm are 1, its shifts and peepholes 0."""
        limit = 1 / math.sqrt(self.hidden_size)
        for name, weight in self.named_parameters():
            if name.startswith("gain"):
                nn.init.ones_(weight)
            elif name.startswith(("shift", "weight_peephole")):
                nn.init.zeros_(weight)
            else:
                nn.init.uniform_(weight, -limit, limit)

    def flatten_parameters(self) -> None:
        """Makes the next run in eval mode pack the weights anew. Needed after writing to `weight.data`."""
        first = self._parameters.get("weight_ih_l0") if "_parameters" in self.__dict__ else None
        if first is not None:
            _runs.forget(first)

    # --- configuration --------------------------------------------------------------------------------------------------

    def _make_config(self):
        cell = _CELLS[self.mode]
        if cell == "gru" and not self.reset_after:
            cell = "gru_reset_before"
        zoneout_h, zoneout_c = self._zoneouts()
        return Config(cell, self.input_size, self.hidden_size, self.num_layers, 2 if self.bidirectional else 1, self.bias,
                      self.proj_size, self.batch_first, self.peepholes, self.layer_norm, self.dropout, zoneout_h, zoneout_c,
                      float(self.recurrent_dropout), bool(self.hard_sigmoid))

    def _configure(self):
        config = self._make_config()
        self._names = tuple(name for name, _ in config.weights())
        # For training mode or not, batch_first or not.
        self._configs = {}
        for training in (True, False):
            own = config if training else replace(config, dropout=0.0, recurrent_dropout=0.0)
            for batch_first in (True, False):
                self._configs[training, batch_first] = replace(own, batch_first=batch_first).text, own.draws

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name in _ATTRIBUTES and "_configs" in self.__dict__:
            self._configure()

    def __setstate__(self, state):
        super().__setstate__(state)
        self._configure()

    def extra_repr(self) -> str:
        text = super().extra_repr()
        for name in ("peepholes", "layer_norm", "zoneout", "recurrent_dropout", "hard_sigmoid"):
            if getattr(self, name):
                text += f", {name}={getattr(self, name)}"
        return text + ("" if self.reset_after else ", reset_after=False")

    # --- runs -----------------------------------------------------------------------------------------------------------

    def _weights(self):
        parameters = self._parameters
        try:
            return [parameters[name] for name in self._names]
        except KeyError:  # Some are parametrized, which makes them attributes.
            return [getattr(self, name) for name in self._names]

    def _run(self, x, state, lengths, resets):
        """y, hn and cn of x with two or three dimensions, or of a PackedSequence. state: (h0, c0), each may be None."""
        if isinstance(x, PackedSequence):
            if lengths is not None or resets is not None:
                raise ValueError("a PackedSequence has its own lengths; lengths and resets go with a tensor")
            return self._run_packed(x, state)
        if x.dim() not in (2, 3):
            raise ValueError(f"{self._get_name()}: x has shape {tuple(x.shape)}; it must have 3 dimensions, or 2 for one row")
        single = x.dim() == 2
        row_axis = 0 if self.batch_first else 1
        if single:
            self._check_single(state)
            x = x.unsqueeze(row_axis)
            state = tuple(part.unsqueeze(1) if part is not None else None for part in state)
        y, hn, cn = self._run_batch(x, *state, lengths, resets, self.batch_first)
        if single:
            y, hn = y.squeeze(row_axis), hn.squeeze(1)
            cn = cn.squeeze(1) if self.mode == "LSTM" else cn
        return y, hn, cn

    def _check_single(self, state):
        for part in state:
            if part is not None and part.dim() != 2:
                raise RuntimeError(f"For unbatched 2-D input, hx must also be 2-D, and it has shape {tuple(part.shape)}")

    def _run_packed(self, packed, state):
        layout = _inputs.PackedLayout(packed)
        state = tuple(part if part is None else layout.sort(part) for part in state)
        y, hn, cn = self._run_batch(layout.padded(), *state, layout.lengths, None, False)
        cn = layout.unsort(cn) if self.mode == "LSTM" else cn
        return layout.packed(y), layout.unsort(hn), cn

    def _run_batch(self, x, h0, c0, lengths, resets, batch_first):
        weights = self._weights()
        device_type = x.device.type
        if torch.is_autocast_enabled(device_type):
            # The weights stay as they are: the engine rounds them, and their gradients come in their own dtype.
            dtype = torch.get_autocast_dtype(device_type)
            x = x.to(dtype)
            h0 = h0.to(dtype) if h0 is not None else None
            c0 = c0.to(dtype) if c0 is not None else None
        elif x.dtype != weights[0].dtype:
            self.check_input(x, None)  # raises
        time, rows = (x.shape[1], x.shape[0]) if batch_first else (x.shape[0], x.shape[1])
        if x.shape[2] != self.input_size:
            self.check_input(x, None)
        if h0 is not None:
            self._check_state(h0, rows, self.proj_size or self.hidden_size, x.dtype, "h0")
        if c0 is not None:
            self._check_state(c0, rows, self.hidden_size, x.dtype, "c0")
        if weights[0].device != x.device:
            raise RuntimeError(f"x is on {x.device} and the weights are on {weights[0].device}; move one of them")
        if time == 0:
            raise RuntimeError(f"x has shape {tuple(x.shape)}; it needs at least one time step")
        if lengths is not None:
            lengths = _inputs.checked_lengths(lengths, rows, time, x.device)
        if resets is not None:
            resets = _inputs.checked_resets(resets, time, rows, batch_first, x.device)
        if rows == 0:
            return self._run_nothing(x, h0, c0)
        config, draws = self._configs[self.training, batch_first]
        # float16 is the GPU's.
        widen = device_type == "cpu" and x.dtype == torch.float16
        if widen:
            x, h0, c0, *weights = (part.float() if part is not None else None for part in (x, h0, c0, *weights))
        # In training mode weights change all the time, also by ways that leave no trace, such as weight.data.
        y, hn, cn = _operators.run(config, draws, x, weights, h0, c0, lengths, resets, self.training,
                                   not (self.training or widen))
        return (y.half(), hn.half(), cn.half()) if widen else (y, hn, cn)

    def _check_state(self, state, rows, width, dtype, name):
        expected = (self.num_layers * (2 if self.bidirectional else 1), rows, width)
        if state.dim() != 3:
            raise RuntimeError(f"For batched 3-D input, hx must also be 3-D, and {name} has shape {tuple(state.shape)}")
        if tuple(state.shape) != expected:
            raise RuntimeError(f"Expected hidden size {expected} of {name}, got {list(state.shape)}")
        if state.dtype != dtype:
            raise RuntimeError(f"{name} is {state.dtype} and x is {dtype}; convert one of them")

    def _run_nothing(self, x, h0, c0):
        directions = 2 if self.bidirectional else 1
        width = self.proj_size or self.hidden_size
        y = x.new_zeros((*x.shape[:2], directions * width))
        hn = x.new_zeros((self.num_layers * directions, 0, width))
        return y, hn, x.new_zeros((self.num_layers * directions, 0, self.hidden_size))

    @torch.compiler.disable
    def explain(self, time: int, rows: int, dtype: Optional[torch.dtype] = None) -> str:
        """Says which implementation runs this many time steps and rows, and why those before it declined.

        For x of this dtype (None: the weights'), in the module's mode, where the weights are.
        """
        weights = self._weights()
        config = self._configs[self.training, self.batch_first][0]
        plan = _runs.plan_of(config, weights[0].device, dtype or weights[0].dtype, weights[0].dtype, time, rows,
                             self.training, _runs.uses_tf32(dtype or weights[0].dtype, weights[0].device), False)
        return "\n".join(filter(None, (plan.native.implementation, plan.native.explain())))


class LSTM(_Layers):
    """As torch.nn.LSTM, and with more options.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype: as torch's.
        peepholes: adds weight_peephole_l0 [3, hidden_size] of the gates i, f and o.
        layer_norm: adds gain_ih_l0 and gain_hh_l0 [4*hidden_size], gain_c_l0 and shift_c_l0 [hidden_size].
        zoneout: the rate at which units keep their h and c from the step before, or a pair of rates.
        recurrent_dropout: the rate of h in the recurrent product.
        hard_sigmoid: gates are clip(0.2 a + 0.5, 0, 1), as in Keras before version 3.

    Equations of the options are in docs/equations.md.
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 proj_size=0, device=None, dtype=None, *, peepholes=False, layer_norm=False, zoneout=0.0,
                 recurrent_dropout=0.0, hard_sigmoid=False):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size,
                         device, dtype, peepholes=peepholes, layer_norm=layer_norm, zoneout=zoneout,
                         recurrent_dropout=recurrent_dropout, hard_sigmoid=hard_sigmoid)

    def forward(self, input, hx=None, *, lengths: Optional[Tensor] = None, resets: Optional[Tensor] = None):
        """Returns y and (hn, cn), with torch's shapes. hx: (h0, c0); None is zero. lengths, resets: see the class's base."""
        h0, c0 = hx if hx is not None else (None, None)
        y, hn, cn = self._run(input, (h0, c0), lengths, resets)
        return y, (hn, cn)


class GRU(_Layers):
    """As torch.nn.GRU, and with more options.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: as torch's.
        reset_after: False resets before the recurrent product.
        zoneout: the rate at which units keep their h from the step before.
        recurrent_dropout: the rate of h in the recurrent product.
        hard_sigmoid: gates are clip(0.2 a + 0.5, 0, 1), as in Keras before version 3.
    """

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None, *, reset_after=True, zoneout=0.0, recurrent_dropout=0.0, hard_sigmoid=False):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device,
                         dtype, reset_after=reset_after, zoneout=zoneout, recurrent_dropout=recurrent_dropout,
                         hard_sigmoid=hard_sigmoid)

    def forward(self, input, hx=None, *, lengths: Optional[Tensor] = None, resets: Optional[Tensor] = None):
        """Returns y and hn, with torch's shapes. hx: h0; None is zero. lengths, resets: see the class's base."""
        return self._run(input, (hx, None), lengths, resets)[:2]


class RNN(_Layers):
    """As torch.nn.RNN, and with more options.

    Args:
        input_size, hidden_size, num_layers, nonlinearity, bias, batch_first, dropout, bidirectional, device, dtype: as
            torch's.
        zoneout: the rate at which units keep their h from the step before.
        recurrent_dropout: the rate of h in the recurrent product.
    """

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None, *, zoneout=0.0, recurrent_dropout=0.0):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity is {nonlinearity!r}, not 'tanh' or 'relu'")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype, zoneout=zoneout, recurrent_dropout=recurrent_dropout)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None, *, lengths: Optional[Tensor] = None, resets: Optional[Tensor] = None):
        """Returns y and hn, with torch's shapes. hx: h0; None is zero. lengths, resets: see the class's base."""
        return self._run(input, (hx, None), lengths, resets)[:2]
