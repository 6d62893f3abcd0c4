"""LSTMCell, GRUCell and RNNCell with torch's constructors, shapes and state dicts."""

import torch
from torch import nn

from . import _operators
from ._config import Config


class _Cell(nn.RNNCellBase):
    """One time step of a layer."""

    def __init__(self, cell, chunks, input_size, hidden_size, bias, device, dtype):
        super().__init__(input_size, hidden_size, bias, num_chunks=chunks, device=device, dtype=dtype)
        self._cell = cell
        self._config = Config(cell, input_size, hidden_size, bias=bias).text

    def _run(self, x, h, c=None):
        """h and c after the step, with the dimensions of x."""
        if x.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: x has shape {tuple(x.shape)}; it must have 2 dimensions, or 1 for one row")
        for state, name in ((h, "h"), (c, "c")):
            if state is not None and state.dim() not in (1, 2):
                raise ValueError(f"{self._get_name()}: {name} has shape {tuple(state.shape)}; it must have 2 dimensions, or 1 for "
                                 "one row")
        single = x.dim() == 1
        if single:
            x = x.unsqueeze(0)
            h = h.unsqueeze(0) if h is not None else None
            c = c.unsqueeze(0) if c is not None else None
        weights = [self.weight_ih, self.weight_hh] + ([self.bias_ih, self.bias_hh] if self.bias else [])
        x, h, c = self._cast(x, h, c)
        self._check(x, h, c, weights[0])
        if x.shape[0] == 0:
            empty = x.new_zeros((0, self.hidden_size))
            return empty, empty
        widen = x.device.type == "cpu" and x.dtype == torch.float16
        if widen:
            x, h, c, *weights = (part.float() if part is not None else None for part in (x, h, c, *weights))
        _, hn, cn = _operators.run(self._config, False, x.unsqueeze(0), weights, h.unsqueeze(0) if h is not None else None,
                                   c.unsqueeze(0) if c is not None else None, None, None, self.training,
                                   not (self.training or widen))
        hn, cn = (hn.half(), cn.half()) if widen else (hn, cn)
        axes = (0, 1) if single else 0
        return hn.squeeze(axes), cn.squeeze(axes) if self._cell == "lstm" else cn

    def _cast(self, x, h, c):
        device_type = x.device.type
        if not torch.is_autocast_enabled(device_type):
            return x, h, c
        dtype = torch.get_autocast_dtype(device_type)
        return tuple(part.to(dtype) if part is not None else None for part in (x, h, c))

    def _check(self, x, h, c, weight):
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]}, expected {self.input_size}")
        for state, name in ((h, "h"), (c, "c")):
            if state is None:
                continue
            if tuple(state.shape) != (x.shape[0], self.hidden_size):
                raise RuntimeError(f"{name} has shape {tuple(state.shape)}, not {(x.shape[0], self.hidden_size)}")
            if state.dtype != x.dtype:
                raise RuntimeError(f"{name} is {state.dtype} and x is {x.dtype}; convert one of them")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise RuntimeError(f"x is {x.dtype} and the weights are {weight.dtype}; convert one of them")
        if x.device != weight.device:
            raise RuntimeError(f"x is on {x.device} and the weights are on {weight.device}; move one of them")


class LSTMCell(_Cell):
    """As torch.nn.LSTMCell: input [rows, input_size] and (h, c), each [rows, hidden_size], give (h, c) of the next step."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("lstm", 4, input_size, hidden_size, bias, device, dtype)

    def forward(self, input, hx=None):
        h, c = hx if hx is not None else (None, None)
        return self._run(input, h, c)


class GRUCell(_Cell):
    """As torch.nn.GRUCell: input [rows, input_size] and h [rows, hidden_size] give h of the next step."""

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__("gru", 3, input_size, hidden_size, bias, device, dtype)

    def forward(self, input, hx=None):
        return self._run(input, hx)[0]


class RNNCell(_Cell):
    """As torch.nn.RNNCell: input [rows, input_size] and h [rows, hidden_size] give h of the next step."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity is {nonlinearity!r}, not 'tanh' or 'relu'")
        super().__init__(f"rnn_{nonlinearity}", 1, input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "nonlinearity":
            self._config = Config(f"rnn_{value}", self.input_size, self.hidden_size, bias=self.bias).text

    def forward(self, input, hx=None):
        return self._run(input, hx)[0]
