"""Random weights and inputs for the tests."""

import numpy as np
from reference import GATES


def random_weights(rng, cell, input, hidden, layers=1, directions=1, projection=0, bias=True, peepholes=False,
                   layer_norm=False, dtype=np.float64):
    gates, weights = GATES[cell], {}
    output = projection or hidden

    def draw(*shape):
        return rng.uniform(-0.5, 0.5, shape).astype(dtype)

    for layer in range(layers):
        width = input if layer == 0 else directions * output
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            weights["weight_ih" + suffix] = draw(gates * hidden, width)
            weights["weight_hh" + suffix] = draw(gates * hidden, output)
            if bias:
                weights["bias_ih" + suffix] = draw(gates * hidden)
                weights["bias_hh" + suffix] = draw(gates * hidden)
            if projection:
                weights["weight_hr" + suffix] = draw(projection, hidden)
            if peepholes:
                weights["weight_peephole" + suffix] = draw(3, hidden)
            if layer_norm:
                for kind, size in (("gain_ih", 4), ("gain_hh", 4), ("gain_c", 1), ("shift_c", 1)):
                    weights[kind + suffix] = draw(size * hidden) + dtype(0.7)
    return weights


def random_states(rng, layers, directions, rows, hidden, output, dtype=np.float64):
    """h0 and c0."""
    return tuple(rng.uniform(-1, 1, (layers * directions, rows, width)).astype(dtype) for width in (output, hidden))
