"""Random layers of Keras with weights in torch's names, and what compares runs of both."""

import numpy as np
import tensorflow as tf

_NAMES = ("weight_ih", "weight_hh")
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8}


def blocks(array, order):
    """The blocks of the last axis in another order."""
    parts = np.split(array, len(order), axis=-1)
    return np.concatenate([parts[i] for i in order], axis=-1)


def converted(layer, suffix="_l0"):
    """Weights of a Keras layer by torch's names, as NumPy arrays. Keras has gates i, f, c, o and z, r, h."""
    kernel, recurrent, *bias = [weight.numpy() for weight in layer.weights]
    order = {"LSTM": [0, 1, 2, 3], "GRU": [1, 0, 2], "SimpleRNN": [0]}[type(layer).__name__]
    weights = {"weight_ih": blocks(kernel, order).T, "weight_hh": blocks(recurrent, order).T}
    if bias:
        both = blocks(np.atleast_2d(bias[0]), order)  # [2, 3H] of a GRU that resets after the product
        weights["bias_ih"] = both[0]
        if len(both) == 2:
            weights["bias_hh"] = both[1]
    return {name + suffix: np.ascontiguousarray(value) for name, value in weights.items()}


def randomize(layer, rng):
    """Draws all weights anew: Keras begins with biases of 0 and 1, which would hide their order."""
    for weight in layer.weights:
        weight.assign(rng.uniform(-0.5, 0.5, weight.shape))


def variables(weights, dtype="float64"):
    return {name: tf.Variable(tf.cast(value, dtype)) for name, value in weights.items()}


def flat(*parts):
    return [part for part in tf.nest.flatten(parts) if part is not None]


def gradients(function, inputs, rng_seed):
    """Outputs of function(), and the gradients of a random sum of them by the inputs."""
    with tf.GradientTape() as tape:
        for tensor in inputs:
            tape.watch(tensor)
        outputs = flat(function())
        rng = np.random.default_rng(rng_seed)
        loss = tf.add_n([tf.reduce_sum(tf.cast(output, tf.float64) * rng.uniform(-1, 1, output.shape)) for output in outputs])
    return outputs, tape.gradient(loss, inputs)


def assert_close(found, expected, tolerance, what=""):
    """Each element differs by at most the tolerance times the largest of its tensor, or 1."""
    found, expected = flat(found), flat(expected)
    assert len(found) == len(expected)
    for i, (a, b) in enumerate(zip(found, expected)):
        a, b = np.asarray(tf.cast(a, tf.float64)), np.asarray(tf.cast(b, tf.float64))
        assert a.shape == b.shape, f"{what} {i}: shape {a.shape}, not {b.shape}"
        scale = max(1.0, np.abs(b).max(initial=0))
        worst = np.abs(a - b).max(initial=0)
        assert worst <= tolerance * scale, f"{what} {i}: differs by {worst} of {scale}"
