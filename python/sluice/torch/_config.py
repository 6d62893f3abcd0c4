"""The configuration of a stack of layers. Custom operators get it as a text."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from .._weights import name_of, shapes_of


@dataclass(frozen=True)
class Config:
    """A stack of layers of one width."""

    cell: str  # as _native.Cell
    input: int
    hidden: int
    layers: int = 1
    directions: int = 1
    bias: bool = True
    projection: int = 0  # 0: none
    batch_first: bool = False
    peepholes: bool = False
    layer_norm: bool = False
    dropout: float = 0.0
    zoneout_h: float = 0.0
    zoneout_c: float = 0.0
    recurrent_dropout: float = 0.0
    hard_sigmoid: bool = False

    @cached_property
    def text(self):
        return json.dumps({name: value for name, value in asdict(self).items() if value != _DEFAULTS.get(name)})

    @cached_property
    def output(self):
        """Width of h in one direction."""
        return self.projection or self.hidden

    @cached_property
    def kinds(self):
        """Weights of a layer and direction, in the order of torch's modules."""
        kinds = ["weight_ih", "weight_hh"]
        if self.bias:
            kinds += ["bias_ih", "bias_hh"]
        if self.projection:
            kinds += ["weight_hr"]
        if self.peepholes:
            kinds += ["weight_peephole"]
        if self.layer_norm:
            kinds += ["gain_ih", "gain_hh", "gain_c", "shift_c"]
        return tuple(kinds)

    @cached_property
    def draws(self):
        """Whether runs in training draw random numbers."""
        return bool((self.dropout and self.layers > 1) or self.zoneout_h or self.zoneout_c or self.recurrent_dropout)

    def weights(self):
        """(name, shape) of all weights, in the order that runs take them in."""
        first = shapes_of(self.cell, self.input, self.hidden, self.output)
        others = shapes_of(self.cell, self.directions * self.output, self.hidden, self.output)
        return [(name_of(kind, layer, direction), (others if layer else first)[kind]) for layer in range(self.layers)
                for direction in range(self.directions) for kind in self.kinds]


_DEFAULTS = {name: field.default for name, field in Config.__dataclass_fields__.items()}


@lru_cache(maxsize=1024)
def config_of(text):
    return Config(**json.loads(text))
