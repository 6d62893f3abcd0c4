"""Dropout with a mask for each gate, which Keras draws where recurrent_dropout is not 0. The engine has one for all gates.

The state is widened: each gate reads a copy of h of its own, and the engine's mask covers all copies. An LSTM makes its copies
by a projection, which costs five times the recurrent product. A GRU runs each unit once for each gate with equal weights, which
costs nine times the recurrent product. Values without masks stay the same.
"""

from keras import ops


def _in_block(gate, place, gates):
    """A gate's weights [rows, columns] at its place in [rows, gates*columns], zero elsewhere."""
    columns = gate.shape[1]
    return ops.pad(gate, ((0, 0), (place * columns, (gates - 1 - place) * columns)))


def _blocks(weight, gates, copies=1):
    """A weight [gates*units, columns] as [gates*copies*units, gates*columns]: a gate reads columns of its own."""
    parts = ops.split(weight, gates, axis=0)
    return ops.concatenate([ops.tile(_in_block(part, place, gates), (copies, 1)) for place, part in enumerate(parts)], axis=0)


def _copies(weight, gates):
    """Each gate's rows as often as there are gates."""
    return ops.concatenate([ops.concatenate([part] * gates, axis=0) for part in ops.split(weight, gates, axis=0)], axis=0)


def drop_inputs(x, weights, masks):
    """x [rows, time, gates*input] and weights for it, where masks [rows, input] has one for each gate."""
    gates = len(masks)
    x = ops.concatenate([x * ops.expand_dims(mask, 1) for mask in masks], axis=2)
    return x, {**weights, "weight_ih_l0": _blocks(weights["weight_ih_l0"], gates)}


def widen(cell, gates, units, weights, h0):
    """Weights and h0 of a stack whose gates read separate copies of h, the first of which is h."""
    recurrent = weights["weight_hh_l0"]
    h0 = ops.tile(h0, (1, gates))
    if cell == "lstm":
        copies = ops.tile(ops.eye(units, dtype=recurrent.dtype), (gates, 1))
        return {**weights, "weight_hh_l0": _blocks(recurrent, gates), "weight_hr_l0": copies}, h0
    wide = {name: _copies(weight, gates) for name, weight in weights.items() if name != "weight_hh_l0"}
    return {**wide, "weight_hh_l0": _blocks(recurrent, gates, gates)}, h0
