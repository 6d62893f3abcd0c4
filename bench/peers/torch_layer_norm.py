#!/usr/bin/env python3
"""Measures the layer-normalised LSTM (docs/equations.md) as one writes it in torch, which has no such layer.

The input's products and their norm are those of all steps at once; a step is a product, torch's
layer_norm of it and of c, and its pointwise functions. Implementations: torch (eager) and, on a GPU,
torch+graph (the same captured in a CUDA graph). One layer and direction.

    torch_layer_norm.py --shapes bench/shapes/extras.shapes --device cuda --dtype bfloat16 --json norm.json
"""

import sys

import torch

import common
import torch_common
import torch_recurrent


class LayerNormLstm(torch.nn.Module):
    def __init__(self, input_size, hidden):
        super().__init__()
        self.hidden = hidden
        bound = hidden ** -0.5
        for name, sizes in {"weight_ih": (4 * hidden, input_size), "weight_hh": (4 * hidden, hidden),
                            "bias": (4 * hidden,), "gain_ih": (4 * hidden,), "gain_hh": (4 * hidden,),
                            "gain_c": (hidden,), "shift_c": (hidden,)}.items():
            values = torch.empty(sizes).uniform_(-bound, bound)
            self.register_parameter(name, torch.nn.Parameter(values + name.startswith("gain")))

    def forward(self, x, state):
        """x [time, rows, input], state (h, c), each [1, rows, hidden]; likewise what comes out."""
        h, c = state[0][0], state[1][0]
        norm = torch.nn.functional.layer_norm
        inputs = norm(x @ self.weight_ih.t(), (4 * self.hidden,), self.gain_ih, self.bias)
        weight = self.weight_hh.t()
        outputs = []
        for step in inputs:
            gates = step + norm(h @ weight, (4 * self.hidden,), self.gain_hh)
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(norm(c, (self.hidden,), self.gain_c, self.shift_c))
            outputs.append(h)
        return torch.stack(outputs), (h[None], c[None])


class Contest(torch_recurrent.Contest):
    @staticmethod
    def refuse(shape):
        alone = not (shape.reset or shape.zoneout or shape.recurrent_dropout)
        single = shape.cell == "lstm" and shape.layers == shape.directions == 1 and not shape.projection
        if shape.layer_norm == "on" and alone and single and shape.lengths == "full":
            return None
        return "this is an LSTM of one layer and direction with layer norm alone"

    def make_module(self):
        module = LayerNormLstm(self.shape.input, self.shape.hidden)
        return module.to(self.target, torch_recurrent.TYPES[self.shape.dtype])


def main():
    arguments = common.parse_arguments(__doc__, torch_recurrent.IMPLEMENTATIONS)
    try:
        common.measure(arguments, Contest, torch_common.name_and_version())
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
