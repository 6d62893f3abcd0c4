"""Names and shapes of the weights of a stack, as torch's state dicts have them."""

import re
from dataclasses import dataclass

GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}

# Members of _native.Weights.
KINDS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr",
         "weight_peephole", "gain_ih", "gain_hh", "gain_c", "shift_c")
_LAYER_NORM = ("gain_ih", "gain_hh", "gain_c", "shift_c")
_NAME = re.compile(rf"({'|'.join(KINDS)})_l(\d+)(_reverse)?")


def name_of(kind, layer, direction):
    """For example "weight_hh_l0_reverse"."""
    return f"{kind}_l{layer}{'_reverse' if direction else ''}"


def shapes_of(cell, input, hidden, output):
    """The shapes of all kinds of weights of a layer and direction whose h has the width `output`."""
    sums = GATES[cell] * hidden
    return {"weight_ih": (sums, input), "weight_hh": (sums, output), "bias_ih": (sums,), "bias_hh": (sums,),
            "weight_hr": (output, hidden), "weight_peephole": (3, hidden), "gain_ih": (sums,), "gain_hh": (sums,),
            "gain_c": (hidden,), "shift_c": (hidden,)}


@dataclass(frozen=True)
class Layout:
    """What the shapes of weights say about a stack."""

    cell: str
    input: int
    hidden: tuple  # of each layer
    projection: tuple  # of each layer; empty: none
    directions: int
    peepholes: bool
    layer_norm: bool
    shapes: dict  # of all weights that were given, by name

    @property
    def layers(self):
        return len(self.hidden)

    @property
    def outputs(self):
        """Widths of h, of each layer."""
        return self.projection or self.hidden

    def names(self):
        """For each layer and direction, a dict from kind to name."""
        return [{kind: name for kind in KINDS if (name := name_of(kind, layer, direction)) in self.shapes}
                for layer in range(self.layers) for direction in range(self.directions)]

    def plan_options(self):
        return {"cell": self.cell, "input": self.input, "hidden": list(self.hidden),
                "projection": list(self.projection) or None, "directions": self.directions,
                "peepholes": self.peepholes, "layer_norm": self.layer_norm}


def layout_of(cell, shapes, bidirectional=None):
    """The Layout of weights with these shapes (a dict from name to tuple).

    Raises ValueError with the first name that is unknown, missing, or has another shape than the others ask for.
    """
    if cell not in GATES:
        raise ValueError(f"cell is {cell!r}, not one of {', '.join(GATES)}")
    found = {name: _NAME.fullmatch(name) for name in shapes}
    for name, match in found.items():
        if match is None:
            raise ValueError(f"weights has {name!r}, which recurrent layers don't have; "
                             "their names are such as 'weight_ih_l0'")
    if not found:
        raise ValueError("weights is empty; it needs 'weight_ih_l0' and 'weight_hh_l0'")
    layers = 1 + max(int(match[2]) for match in found.values())
    directions = 2 if any(match[3] for match in found.values()) else 1
    if bidirectional is not None and bidirectional != (directions == 2):
        raise ValueError("bidirectional is True, but weights has no 'weight_ih_l0_reverse'" if bidirectional else
                         "bidirectional is False, but weights has names that end in '_reverse'")
    kinds = {match[1] for match in found.values()}
    if "weight_hr" in kinds and cell != "lstm":
        raise ValueError(f"weights has 'weight_hr_l0', but only an LSTM has projections and this is {cell}")
    layout = Layout(cell, _dimension(shapes, "weight_ih_l0", 1), *_widths(cell, shapes, layers, kinds), directions,
                    "weight_peephole" in kinds, any(kind in kinds for kind in _LAYER_NORM), dict(shapes))
    _check_shapes(layout, kinds)
    return layout


def _dimension(shapes, name, axis):
    if name not in shapes:
        raise ValueError(f"weights has no {name!r}")
    if len(shapes[name]) != 2:
        raise ValueError(f"{name} has shape {shapes[name]}; it must have two dimensions")
    return shapes[name][axis]


def _widths(cell, shapes, layers, kinds):
    """Hidden units and projected widths of each layer."""
    projected = "weight_hr" in kinds
    hidden, projection = [], []
    for layer in range(layers):
        name = name_of("weight_hh", layer, 0)
        sums = _dimension(shapes, name, 0)
        if sums % GATES[cell] or sums == 0:
            raise ValueError(f"{name} has shape {shapes[name]}; its first dimension must be a multiple of {GATES[cell]}, "
                             f"the gates of {cell}")
        hidden.append(sums // GATES[cell])
        if projected:
            projection.append(_dimension(shapes, name, 1))
    return tuple(hidden), tuple(projection)


def _check_shapes(layout, kinds):
    width = layout.input
    for layer in range(layout.layers):
        hidden, output = layout.hidden[layer], layout.outputs[layer]
        expected = shapes_of(layout.cell, width, hidden, output)
        for direction in range(layout.directions):
            for kind, shape in expected.items():
                name = name_of(kind, layer, direction)
                if name not in layout.shapes:
                    if kind in kinds and not kind.startswith("bias") or layout.layer_norm and kind in _LAYER_NORM:
                        raise ValueError(f"weights has no {name!r}")
                elif layout.shapes[name] != shape:
                    raise ValueError(f"{name} has shape {layout.shapes[name]}, not {shape}")
        width = layout.directions * output
