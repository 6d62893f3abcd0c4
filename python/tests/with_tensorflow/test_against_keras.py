"""Layer by layer against Keras's own layers in float64: outputs, states, and gradients of all."""

import keras
import numpy as np
import pytest
import sluice.tensorflow
import tensorflow as tf
from compared_layers import assert_close, converted, gradients, randomize, variables

# Sums of at most some hundred products of numbers up to 1, over at most 12 steps, in float64: about 1e3 roundings of 1.1e-16
# each. Gradients sum over rows and steps too. Both sides round, each in another order.
TOLERANCE = 1e-11

KINDS = ["lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu"]


def make(kind, units, **options):
    options = {"dtype": "float64", "return_sequences": True, "recurrent_initializer": "glorot_uniform", **options}
    if kind == "lstm":
        return keras.layers.LSTM(units, **options)
    if kind.startswith("gru"):
        return keras.layers.GRU(units, reset_after=kind == "gru", **options)
    return keras.layers.SimpleRNN(units, activation=kind.removeprefix("rnn_"), **options)


def own(kind, x, weights, hx=None, **options):
    if kind == "lstm":
        return sluice.tensorflow.lstm(x, weights, hx, **options)
    if kind.startswith("gru"):
        return sluice.tensorflow.gru(x, weights, hx, reset_after=kind == "gru", **options)
    return sluice.tensorflow.rnn(x, weights, hx, nonlinearity=kind.removeprefix("rnn_"), **options)


def by_keras_names(kind, layer_gradients, layer):
    """Gradients of a Keras layer's weights by torch's names: a layer that has them as its weights is converted."""
    copy = make(kind, layer.units, use_bias=layer.use_bias)
    copy.build((None, None, layer.weights[0].shape[0]))
    for weight, gradient in zip(copy.weights, layer_gradients):
        weight.assign(gradient)
    return converted(copy)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(4))
def test_a_layer(kind, batch_first, number, rng):
    time, rows, input, units = (int(rng.integers(1, most)) for most in (13, 8, 24, 40))
    layer = make(kind, units, use_bias=bool(rng.integers(2)), return_state=True)
    layer.build((rows, time, input))
    randomize(layer, rng)
    x = tf.constant(rng.uniform(-1, 1, (rows, time, input)))
    states = [tf.constant(rng.uniform(-1, 1, (rows, units))) for _ in range(2 if kind == "lstm" else 1)]
    values = [weight.value for weight in layer.weights]

    expected, theirs = gradients(lambda: layer(x, initial_state=states), [x, *states, *values], number)
    names, weights = zip(*variables(converted(layer)).items())

    def run():
        hx = [state[None] for state in states]
        y, last = own(kind, x if batch_first else tf.transpose(x, [1, 0, 2]), dict(zip(names, weights)),
                      tuple(hx) if kind == "lstm" else hx[0], batch_first=batch_first)
        return y if batch_first else tf.transpose(y, [1, 0, 2]), [part[0] for part in tf.nest.flatten(last)]

    found, ours = gradients(run, [x, *states, *weights], number)
    assert_close(found, expected, TOLERANCE, "outputs")
    count = 1 + len(states)
    assert_close(ours[:count], theirs[:count], TOLERANCE, "gradients of x and states")
    by_name = by_keras_names(kind, theirs[count:], layer)
    assert_close(ours[count:], [by_name[name] for name in names], TOLERANCE, "gradients of weights")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(3))
def test_a_bidirectional_stack_layer_by_layer(kind, number, rng):
    time, rows, input, units = (int(rng.integers(2, most)) for most in (13, 8, 24, 30))
    depth = int(rng.integers(2, 4))
    lengths = rng.integers(1, time + 1, rows)
    x = tf.constant(rng.uniform(-1, 1, (rows, time, input)))
    mask = tf.sequence_mask(lengths, time)
    weights, expected = {}, x
    for layer in range(depth):
        both = keras.layers.Bidirectional(make(kind, units), dtype="float64")
        both.build(expected.shape)
        for direction, suffix in ((both.forward_layer, ""), (both.backward_layer, "_reverse")):
            randomize(direction, rng)
            weights |= converted(direction, f"_l{layer}{suffix}")
        # Keras holds the last output past a row's end; Sluice has zeros there.
        expected = tf.where(mask[..., None], both(expected, mask=mask), 0)
        found, _ = own(kind, x, weights, lengths=lengths, batch_first=True)
        assert_close(found, expected, TOLERANCE, f"layer {layer}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_dtypes(kind, dtype, rng):
    """Against the layer in float64 with the same rounded numbers. Keras's own layer in this dtype is the measure of rounding."""
    time, rows, input, units = (int(rng.integers(2, most)) for most in (13, 8, 24, 40))
    layers = {name: make(kind, units, dtype=name) for name in ("float64", dtype)}
    x = tf.cast(rng.uniform(-1, 1, (rows, time, input)), dtype)
    layers["float64"].build(x.shape)
    layers[dtype].build(x.shape)
    randomize(layers[dtype], rng)
    for wide, narrow in zip(layers["float64"].weights, layers[dtype].weights):
        wide.assign(tf.cast(narrow, "float64"))
    expected = layers["float64"](tf.cast(x, "float64"))
    rounded = tf.cast(layers[dtype](x), "float64")
    found, _ = own(kind, x, variables(converted(layers["float64"]), dtype), batch_first=True)
    assert found.dtype == dtype
    theirs = np.abs(rounded - expected).max()
    assert_close(found, expected, max(3 * theirs, {"float32": 1e-6, "bfloat16": 2e-2}[dtype]))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_bfloat16_with_weights_in_float32(kind, rng):
    layer = make(kind, 24, dtype="float32")
    layer.build((None, None, 16))
    randomize(layer, rng)
    x = tf.cast(rng.uniform(-1, 1, (4, 9, 16)), tf.bfloat16)
    weights = variables(converted(layer), "float32")
    expected, theirs = gradients(lambda: layer(tf.cast(x, tf.float32)), [weight.value for weight in layer.weights], 1)
    found, ours = gradients(lambda: own(kind, x, weights, dtype="bfloat16", batch_first=True)[0], list(weights.values()), 1)
    assert found[0].dtype == tf.bfloat16 and all(gradient.dtype == tf.float32 for gradient in ours)
    # A bfloat16 has 8 bits: each step rounds h, of size up to 1, by up to 2^-9, and errors pass on for some steps.
    assert_close(found, expected, 3e-2)
    by_name = by_keras_names(kind, theirs, layer)
    assert_close(ours, [by_name[name] for name in weights], 6e-2)


@pytest.mark.parametrize("implementation", ["auto", "portable", "onednn"])
def test_onednn_of_tensorflow_and_of_sluice_in_one_process(implementation, rng):
    """TensorFlow has a oneDNN of its own, and loads it first. Sluice's makes portable's products in bfloat16."""
    layer = make("lstm", 64, dtype="float32")
    layer.build((None, None, 32))
    randomize(layer, rng)
    x = tf.constant(rng.uniform(-1, 1, (16, 20, 32)), tf.float32)
    expected = layer(x)
    weights = {name: tf.cast(value, tf.bfloat16) for name, value in variables(converted(layer), "float32").items()}
    wide, _ = own("lstm", x, variables(converted(layer), "float32"), batch_first=True, implementation=implementation)
    assert_close(wide, expected, 1e-5)  # Sums of 96 products in float32, over 20 steps.
    if implementation != "onednn":  # Its LSTM in bfloat16 needs instructions that not all machines have.
        narrow, _ = own("lstm", tf.cast(x, tf.bfloat16), weights, batch_first=True, implementation=implementation)
        assert_close(narrow, expected, 5e-2)  # Numbers of 8 bits.
    assert_close(layer(x), expected, 0)
