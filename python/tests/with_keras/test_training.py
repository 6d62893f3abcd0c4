"""fit reaches the losses of Keras's own layers from the same seed."""

import keras
import numpy as np
import pytest
import sluice.keras
from keras_cases import JIT

SETTINGS = {"plain": {}, "dropout": {"dropout": 0.3, "seed": 5}, "regularized": {
    "kernel_regularizer": "l2", "recurrent_constraint": "max_norm", "activity_regularizer": keras.regularizers.L2(0.01)}}


def losses(package, kind, settings, policy, tokens, labels):
    keras.utils.set_random_seed(3)
    layer = getattr(package, kind[0])(8, return_sequences=True, dtype=policy, **kind[1], **settings)
    model = keras.Sequential([
        keras.layers.Embedding(20, 6, mask_zero=True, dtype=policy), keras.layers.Bidirectional(layer, dtype=policy),
        getattr(package, kind[0])(7, dtype=policy, **kind[1]), keras.layers.Dense(1, activation="sigmoid", dtype=policy)])
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"], jit_compile=JIT)
    return np.array(model.fit(tokens, labels, epochs=4, batch_size=16, verbose=0).history["loss"])


@pytest.fixture(scope="module")
def data():
    """Rows of tokens, of which it counts whether the first is among the others."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(1, 20, (96, 9))
    tokens[np.arange(9)[None] >= generator.integers(2, 10, (96, 1))] = 0
    return tokens, (tokens[:, 1:] == tokens[:, :1]).any(1).astype("float32")[:, None]


@pytest.mark.parametrize("kind", [("LSTM", {}), ("GRU", {}), ("GRU", {"reset_after": False}), ("SimpleRNN", {})], ids=str)
@pytest.mark.parametrize("settings", SETTINGS)
def test_losses_in_float64(kind, settings, data, true_float64):
    found, expected = (losses(package, kind, SETTINGS[settings], "float64", *data) for package in (sluice.keras, keras.layers))
    # 24 steps of Adam from roundings of 1e-16; losses of Keras's metrics are float32, which rounds at 6e-8.
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert found[-1] < found[0]


@pytest.mark.parametrize("policy, more", [("float32", 1e-5), ("mixed_bfloat16", 2e-3)])
@pytest.mark.parametrize("kind", [("LSTM", {}), ("GRU", {})], ids=str)
def test_losses_in_fewer_bits(kind, policy, more, data, true_float64):
    """As near to those in float64 as Keras's are, which by luck may be near; so there is something to add."""
    exact = losses(keras.layers, kind, {}, "float64", *data)
    found, expected = (losses(package, kind, {}, policy, *data) for package in (sluice.keras, keras.layers))
    assert np.abs(found - exact).max() <= 3 * np.abs(expected - exact).max() + more


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="torch and JAX know whether a gradient comes")
def test_inference_on_tensorflow_keeps_nothing_for_a_gradient():
    import tensorflow as tf

    model = keras.Sequential([keras.Input((None, 3)), sluice.keras.LSTM(4)])
    model.compile("sgd", "mse", jit_compile=JIT)
    x, target = np.ones((2, 5, 3), "float32"), np.ones((2, 4), "float32")

    def trains(step, *arguments):
        """The attribute of the ops in the graph of a step."""
        graph = tf.function(step).get_concrete_function(*map(tf.constant, arguments)).graph
        return [op.get_attr("training") for op in graph.get_operations() if op.type == "SluiceRecurrent"]

    assert trains(lambda x: model.predict_step(x), x) == [False]
    assert trains(lambda x, target: model.test_step((x, target)), x, target) == [False]
    assert trains(lambda x, target: model.train_step((x, target)), x, target) == [True]

    @tf.function
    def gradient(x, training):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x, training=training)
        return tape.gradient(y, [x, *(weight.value for weight in model.trainable_weights)])

    for one, other in zip(gradient(tf.constant(x), False), gradient(tf.constant(x), True)):
        np.testing.assert_array_equal(one, other)  # The engine does the same, only later.


def test_recurrent_dropout_trains(data):
    found = losses(sluice.keras, ("LSTM", {}), {"dropout": 0.2, "recurrent_dropout": 0.2}, "float32", *data)
    assert np.isfinite(found).all() and found[-1] < found[0]
