"""What a stack of layers is made of, as a text that custom operators can be given."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from .._weights import GATES, name_of


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

    def shape(self, kind, layer):
        gates, hidden = GATES[self.cell] * self.hidden, self.hidden
        input = self.input if layer == 0 else self.directions * self.output
        return {"weight_ih": (gates, input), "weight_hh": (gates, self.output), "bias_ih": (gates,), "bias_hh": (gates,),
                "weight_hr": (self.output, hidden), "weight_peephole": (3, hidden), "gain_ih": (gates,),
                "gain_hh": (gates,), "gain_c": (hidden,), "shift_c": (hidden,)}[kind]

    def weights(self):
        """(name, shape) of all weights, in the order that runs take them in."""
        return [(name_of(kind, layer, direction), self.shape(kind, layer)) for layer in range(self.layers)
                for direction in range(self.directions) for kind in self.kinds]


_DEFAULTS = {name: field.default for name, field in Config.__dataclass_fields__.items()}


@lru_cache(maxsize=1024)
def config_of(text):
    return Config(**json.loads(text))
