"""Runs on torch tensors, by sluice.torch's operators."""

import torch

from ..torch import _operators
from ..torch._config import Config

STARTS_FROM_STATE = False
SUPPORTS_XLA = True  # torch.compile, which takes the operators


def _config_of(cell, weights, rate):
    projection = weights.get("weight_hr_l0")
    gated = weights["weight_hh_l0"]
    hidden = projection.shape[1] if projection is not None else gated.shape[1]
    return Config(cell, weights["weight_ih_l0"].shape[1], hidden, bias="bias_ih_l0" in weights,
                  projection=gated.shape[1] if projection is not None else 0, batch_first=True, recurrent_dropout=rate)


def _empty(config, x):
    """Outputs of what has no memory (Keras asks for shapes on the device "meta") or no rows."""
    rows = x.shape[0]
    y = x.new_zeros((*x.shape[:2], config.output))
    return y, x.new_zeros((rows, config.output)), x.new_zeros((rows, config.hidden)) if config.cell == "lstm" else None


def run(cell, x, weights, h0, c0, lengths, training, recurrent_dropout=0.0, seed=None):
    """y, hn and cn; see _backend.py."""
    config = _config_of(cell, weights, recurrent_dropout)
    if x.device.type == "meta" or x.shape[0] == 0:
        return _empty(config, x)
    dtype = x.dtype
    # float16 is the GPU's.
    own = torch.float32 if dtype == torch.float16 and x.device.type == "cpu" else dtype
    in_order = [weights[f"{kind}_l0"].to(own) for kind in config.kinds]
    state = [part.to(own).unsqueeze(0) if part is not None else None for part in (h0, c0)]
    lengths = lengths.contiguous() if lengths is not None else None
    draws = recurrent_dropout > 0
    y, hn, cn = _operators.run(config.text, draws, x.to(own), in_order, *state, lengths, None, draws, False, seed)
    return y.to(dtype), hn[0].to(dtype), cn[0].to(dtype) if cell == "lstm" else None
