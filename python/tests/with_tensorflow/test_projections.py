"""Four LSTM layers with projections, as one op, with the states of all layers in and out."""

import numpy as np
import pytest
import sluice.tensorflow
import tensorflow as tf
from compared_layers import assert_close, gradients, variables
from projected import random_weights, stack

# As in test_against_keras.py, with sums of up to some thousand products: sizes of each are below 1 / sqrt(count).
TOLERANCE = 1e-11


def widths(rng, large):
    """Features of x, units, and projected widths of four layers: the last two are wider, so the layers differ."""
    if large:
        return 320, 1536, [320, 320, 448, 448]
    input, more = int(rng.integers(1, 20)), int(rng.integers(1, 8))
    return input, int(rng.integers(1, 50)), [input, input, input + more, input + more]


@pytest.mark.parametrize("large", [False, False, False, True], ids=["one", "two", "three", "320-1536"])
def test_states_of_all_layers_and_gradients_of_everything(large, rng):
    input, hidden, outputs = widths(rng, large)
    time, rows = (4, 2) if large else (int(rng.integers(1, 9)), int(rng.integers(1, 6)))
    weights = variables(random_weights(rng, input, hidden, outputs))
    x = tf.constant(rng.uniform(-1, 1, (time, rows, input)))
    h0 = [tf.constant(rng.uniform(-1, 1, (rows, output))) for output in outputs]
    c0 = [tf.constant(rng.uniform(-1, 1, (rows, hidden))) for _ in outputs]
    lengths = tf.constant(rng.integers(0, time + 1, rows))

    def reference():
        ys, hn, cn = stack(x, weights, h0, c0, lengths)
        return ys[-1], hn, cn

    def own():
        y, (hn, cn) = sluice.tensorflow.lstm(x, weights, ([h[None] for h in h0], tf.stack(c0)), lengths=lengths)
        return y, [h[0] for h in hn], tf.unstack(cn)

    inputs = [x, *h0, *c0, *weights.values()]
    expected, theirs = gradients(reference, inputs, 0)
    found, ours = gradients(own, inputs, 0)
    assert_close(found, expected, TOLERANCE, "outputs")
    assert_close(ours, theirs, TOLERANCE, "gradients")
    graph, of_graph = gradients(tf.function(own), inputs, 0)
    assert_close(graph, found, 0, "outputs in a graph")
    assert_close(of_graph, ours, 0, "gradients in a graph")


def test_layer_by_layer_from_the_last_to_the_first(rng):
    """Each prefix of the stack gives what the reference's layer gives."""
    input, hidden, outputs = widths(rng, False)
    time, rows = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    weights = variables(random_weights(rng, input, hidden, outputs))
    x = tf.constant(rng.uniform(-1, 1, (time, rows, input)))
    zeros = [[tf.zeros([rows, width], tf.float64) for width in of] for of in (outputs, [hidden] * 4)]
    ys, hn, cn = stack(x, weights, *zeros)
    for layer in reversed(range(4)):
        prefix = {name: value for name, value in weights.items() if int(name[-1]) <= layer}
        y, (h, c) = sluice.tensorflow.lstm(x, prefix)
        h = h if isinstance(h, list) else tf.split(h, layer + 1)
        assert_close(y, ys[layer], TOLERANCE, f"y of layer {layer}")
        assert_close([part[0] for part in h], hn[:layer + 1], TOLERANCE, f"h of layers to {layer}")
        assert_close(tf.unstack(c), cn[:layer + 1], TOLERANCE, f"c of layers to {layer}")


@pytest.mark.parametrize("number", range(3))
def test_against_the_projected_cell_of_tensorflow_1(number, rng):
    """LSTMCell with num_proj, of the package tf-keras. Gates i, c, f, o; 1 is added to the forget gate's bias."""
    cells = pytest.importorskip("tf_keras.src.layers.rnn.legacy_cells", reason="tf-keras is not installed")
    input, hidden, output, rows, time = (int(rng.integers(1, most)) for most in (20, 30, 12, 6, 9))
    with pytest.warns(UserWarning, match="deprecated"):
        cell = cells.LSTMCell(hidden, num_proj=output, dtype=tf.float64)
    cell.build((rows, input))
    for variable in cell.variables:
        variable.assign(rng.uniform(-0.5, 0.5, variable.shape))
    kernel, bias, projection = [variable.numpy() for variable in cell.variables]

    def torch_order(array):
        i, g, f, o = np.split(array, 4, axis=-1)
        return np.concatenate([i, f, g, o], axis=-1).T

    weights = {"weight_ih_l0": torch_order(kernel[:input]), "weight_hh_l0": torch_order(kernel[input:]),
               "bias_ih_l0": torch_order(bias), "weight_hr_l0": projection.T,
               "bias_hh_l0": np.repeat([0.0, 1.0, 0.0, 0.0], hidden)}
    x = rng.uniform(-1, 1, (time, rows, input))
    c, h = (tf.constant(rng.uniform(-1, 1, (rows, width))) for width in (hidden, output))
    y, (hn, cn) = sluice.tensorflow.lstm(x, weights, (h[None], c[None]))
    state, expected = cells.LSTMStateTuple(c, h), []
    for t in range(time):
        out, state = cell(tf.constant(x[t]), state)
        expected.append(out)
    assert_close([y, hn[0], cn[0]], [tf.stack(expected), state.h, state.c], TOLERANCE)
