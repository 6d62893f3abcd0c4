"""Shape files, as `sluice bench` reads them."""

import dataclasses
import pathlib

DTYPES = ["float32", "tf32", "bfloat16", "float16"]
SHORT = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}

# Blocks of weights of a cell.
GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


@dataclasses.dataclass(frozen=True)
class Shape:
    """A line of a shape file; bench/shape_file.h explains the keys."""

    # What a key's text may be, and the least a number may be where that is not 1.
    CHOICES = {"cell": list(GATES), "dtype": DTYPES, "lengths": ["full", "uniform"],
               "pass": ["all", "forward"], "directions": ["1", "2"],
              "peepholes": ["on", "off"], "layer_norm": ["on", "off"], "hard_sigmoid": ["on", "off"]}
    LEAST = {"projection": 0, "seed": 0}

    name: str
    cell: str = "lstm"
    time: int = 100
    batch: int = 64
    input: int = 512
    hidden: int = 512
    layers: int = 1
    directions: int = 1
    projection: object = 0  # or a tuple, one of each layer
    dtype: str = "float32"
    lengths: str = "full"
    seed: int = 1
    device: str = "cpu"
    passes: str = "all"  # the key `pass`
    reset: float = 0.0
    zoneout: float = 0.0
    recurrent_dropout: float = 0.0
    peepholes: str = "off"
    layer_norm: str = "off"
    hard_sigmoid: str = "off"

    def check(self):
        if self.projection and self.cell != "lstm":
            raise ValueError("only the LSTM has a projection")
        if self.is_uneven and len(self.projection) != self.layers:
            raise ValueError(f"{len(self.projection)} projections given for {self.layers} layers")

    @property
    def has_extras(self):
        """Whether cells have more than their equations, which no peer's have."""
        rates = self.reset or self.zoneout or self.recurrent_dropout
        return bool(rates or "on" in (self.peepholes, self.layer_norm, self.hard_sigmoid))

    @property
    def gates(self):
        return GATES[self.cell]

    @property
    def is_uneven(self):
        """Whether each layer has a projection of its own, which no library's stack has."""
        return isinstance(self.projection, tuple)

    @property
    def output(self):
        return self.projection or self.hidden

    def input_of(self, layer):
        return self.input if layer == 0 else self.directions * self.output

    def forward_flops(self):
        flops = 0
        for layer in range(self.layers):
            products = self.gates * self.hidden * (self.input_of(layer) + self.output)
            flops += self.directions * (products + self.projection * self.hidden)
        return 2 * self.time * self.batch * flops

    def set_bytes(self):
        """Bytes of x, dx, y and dy."""
        width = 2 if self.dtype in ("bfloat16", "float16") else 4
        return 2 * width * self.time * self.batch * (self.input + self.directions * self.output)


def parse_value(kind, key, text):
    """The value of a key of the dataclass `kind`, whose field `passes` is the key `pass`."""
    types = {"pass" if field.name == "passes" else field.name: field.type
             for field in dataclasses.fields(kind) if field.name != "name"}
    if key not in types:
        raise ValueError("there is no such key")
    text = SHORT.get(text, text) if key == "dtype" else text
    if key == "projection" and "," in text:
        widths = tuple(parse_value(kind, "hidden", part) for part in text.split(","))
        return widths if len(set(widths)) > 1 else widths[0]
    if key in kind.CHOICES and text not in kind.CHOICES[key]:
        raise ValueError(f"'{text}' is none of {', '.join(kind.CHOICES[key])}")
    if types[key] not in (int, object):
        return types[key](text)
    least = kind.LEAST.get(key, 1)
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ValueError(f"'{text}' is not an integer of at least {least}")
    return int(text)


def parse_line(kind, words, place):
    if "=" in words[0]:
        raise ValueError(f"{place}: the line must start with a name, not with '{words[0]}'")
    values = {}
    for word in words[1:]:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"{place}: '{word}' is not of the form key=value")
        try:
            values["passes" if key == "pass" else key] = parse_value(kind, key, text)
        except ValueError as error:
            raise ValueError(f"{place}: {key}: {error}") from None
    shape = kind(words[0], **values)
    try:
        shape.check()
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return shape


def read_shapes(path, dtype=None, device=None, kind=Shape):
    """The shapes of a file, each with `dtype` and `device` instead of its own if given; no duplicates."""
    shapes = []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        changes = {key: value for key, value in (("dtype", dtype), ("device", device)) if value}
        shape = dataclasses.replace(parse_line(kind, words, f"{path}:{number}"), **changes)
        if shape not in shapes:
            shapes.append(shape)
    if not shapes:
        raise ValueError(f"{path} holds no shape")
    return shapes
