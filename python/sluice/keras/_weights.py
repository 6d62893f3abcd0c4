"""Keras's weights of a layer as torch's names, shapes and order of gates, by operations that Keras differentiates."""

from keras import ops

# Torch's gates i, f, g, o and r, z, n, as places among Keras's i, f, c, o and z, r, h.
_ORDER = {"lstm": (0, 1, 2, 3), "gru": (1, 0, 2), "gru_reset_before": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}


def in_order(gates, cell):
    """A list with one item for each gate, in torch's order."""
    return [gates[place] for place in _ORDER[cell]]


def _is_in_order(cell):
    return _ORDER[cell] == tuple(range(len(_ORDER[cell])))


def _rows_of_gates(weight, cell):
    """[inputs, gates*units] as [gates*units, inputs]."""
    if _is_in_order(cell):
        return ops.transpose(weight)
    gates = ops.split(weight, len(_ORDER[cell]), axis=1)
    return ops.concatenate([ops.transpose(gate) for gate in in_order(gates, cell)], axis=0)


def _biases(bias, cell):
    """bias_ih and bias_hh; of a GRU that resets after the product Keras has two rows."""
    if not _is_in_order(cell):
        bias = ops.concatenate(in_order(ops.split(bias, len(_ORDER[cell]), axis=-1), cell), axis=-1)
    return (bias[0], bias[1]) if len(bias.shape) == 2 else (bias, ops.zeros_like(bias))


def weights_of(cell, kernel, recurrent_kernel, bias):
    """A dict with torch's names. kernel [input, gates*units], recurrent_kernel [units, gates*units], bias or None."""
    weights = {"weight_ih_l0": _rows_of_gates(kernel, cell), "weight_hh_l0": _rows_of_gates(recurrent_kernel, cell)}
    if bias is not None:
        weights["bias_ih_l0"], weights["bias_hh_l0"] = _biases(bias, cell)
    return weights
