"""sluice.keras.replace on models that know nothing of it."""

import keras
import numpy as np
import pytest
import sluice.keras
from keras import ops
from keras_cases import JIT, array


def sequential():
    return keras.Sequential([keras.Input((6, 4)), keras.layers.LSTM(5, return_sequences=True),
                             keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True), merge_mode="ave"),
                             keras.layers.SimpleRNN(3), keras.layers.Dense(2)])


def functional():
    """One layer at two places, states passed on, and a model within the model."""
    first, second = keras.Input((6, 4)), keras.Input((6, 4))
    shared = keras.layers.LSTM(5, return_state=True, name="shared")
    _, *state = shared(first)
    y = keras.layers.LSTM(5, return_sequences=True)(second, initial_state=state)
    inner = keras.Sequential([keras.layers.GRU(3)], name="inner")
    return keras.Model([first, second], keras.layers.Dense(2)(keras.layers.concatenate([inner(y), shared(second)[0]])))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.layers_by_name = {"encoder": keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True))}
        self.stack = [keras.layers.GRU(5, return_sequences=True), keras.layers.TimeDistributed(keras.layers.SimpleRNN(3))]
        self.out = keras.layers.Dense(2)

    def call(self, x, training=False):
        y = self.layers_by_name["encoder"](x, training=training)
        y = self.stack[0](y, training=training)
        return self.out(self.stack[1](ops.stack([y, -y], axis=2))[:, -1])


MODELS = {"sequential": (sequential, 1), "functional": (functional, 2), "subclassed": (Subclassed, 1)}


def recurrent(model):
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.RNN)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fitted", [True, False])
def test_models_go_on_as_before(name, fitted, capsys):
    make, inputs = MODELS[name]
    generator = np.random.default_rng(0)
    x = [generator.uniform(-1, 1, (8, 6, 4)).astype("float32") for _ in range(inputs)]
    x, target = x if inputs > 1 else x[0], generator.uniform(-1, 1, (8, 2)).astype("float32")
    histories, outputs = [], []
    for swaps in (False, True):
        keras.utils.set_random_seed(1)
        model = make()
        model(x)
        # Keras decides once for XLA, before the swap, which on TensorFlow ends that.
        model.compile(keras.optimizers.Adam(0.01), "mse", jit_compile="auto" if name == "subclassed" and fitted else JIT)
        if fitted:
            model.fit(x, target, verbose=0)
            model.predict(x, verbose=0)
        if swaps:
            kept = [id(variable) for variable in model.trainable_variables]
            count = len(recurrent(model))
            assert sluice.keras.replace(model) is model
            assert capsys.readouterr().out.count("swapped ") == count
            assert [id(variable) for variable in model.trainable_variables] == kept
            assert all(type(layer).__module__ == "sluice.keras._layers" for layer in recurrent(model))
        histories.append(model.fit(x, target, epochs=5, batch_size=4, shuffle=False, verbose=0).history["loss"])
        outputs.append(model.predict(x, verbose=0))
    # float32 rounds at 6e-8. Adam divides by the gradients' size, so roundings of small ones grow over eleven steps.
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-3)
    assert histories[1][-1] < histories[1][0]


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="torch traces nothing")
def test_a_part_of_a_compiled_model_is_used_once_that_is_compiled_again():
    part = keras.Sequential([keras.Input((6, 4)), keras.layers.LSTM(3)])
    model = keras.Sequential([keras.Input((6, 4)), part, keras.layers.Dense(2)])
    model.compile("sgd", "mse", jit_compile=JIT)
    x = np.random.default_rng(0).uniform(-1, 1, (4, 6, 4)).astype("float32")
    before = model.predict(x, verbose=0)
    sluice.keras.replace(part, verbose=False)
    layer, runs = part.layers[0], []
    inner_loop = layer.inner_loop
    object.__setattr__(layer, "inner_loop", lambda *inputs, **options: (runs.append(1), inner_loop(*inputs, **options))[1])
    model.predict(x, verbose=0)
    assert not runs  # traced before
    model.compile("sgd", "mse", jit_compile=JIT)
    np.testing.assert_allclose(model.predict(x, verbose=0), before, atol=1e-6)
    assert runs


class Own(keras.layers.LSTM):
    def call(self, sequences, initial_state=None, mask=None, training=False):
        return super().call(sequences * 2, initial_state=initial_state, mask=mask, training=training)


def test_says_what_it_leaves(capsys):
    model = keras.Sequential([
        keras.Input((6, 4)), Own(3, return_sequences=True),
        keras.layers.LSTM(3, return_sequences=True, activation="relu", name="relu"),
        keras.layers.GRU(3, return_sequences=True, recurrent_activation="hard_sigmoid", name="hard"),
        keras.layers.SimpleRNN(3, return_sequences=True, activation="elu", name="elu"),
        keras.layers.RNN(keras.layers.LSTMCell(3), return_sequences=True, name="cell"),
        keras.layers.RNN([keras.layers.GRUCell(3), keras.layers.GRUCell(2)], name="stack"), keras.layers.Dense(2)])
    x = np.random.default_rng(0).uniform(-1, 1, (3, 6, 4))
    before, kinds = array(model(x)), [type(layer) for layer in model.layers]
    sluice.keras.replace(model)
    assert [type(layer) for layer in model.layers] == kinds
    np.testing.assert_array_equal(array(model(x)), before)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6 and all(line.startswith("left ") for line in lines)
    assert lines[0].endswith("Own changes LSTM")
    assert "its activation is 'relu'; Sluice has 'tanh'" in lines[1] and "/relu: LSTM(3)" in lines[1]
    assert "its recurrent_activation is 'hard_sigmoid'" in lines[2]
    assert "its activation is 'elu'" in lines[3]
    assert "not an RNN over a cell" in lines[4] and "not an RNN over a cell" in lines[5]


def test_a_layer_alone_and_no_layer(capsys):
    layer = keras.layers.GRU(3)
    assert sluice.keras.replace(layer, verbose=False) is layer and type(layer) is sluice.keras.GRU
    assert capsys.readouterr().out == ""
    assert layer(np.zeros((2, 3, 4))).shape == (2, 3)  # built after the swap
    sluice.keras.replace(keras.Sequential([keras.layers.Dense(2)]))
    assert capsys.readouterr().out == "no recurrent layer to swap\n"
    with pytest.raises(TypeError, match="model is of type list"):
        sluice.keras.replace([layer])


def test_stateful_layers_keep_their_states():
    model = keras.Sequential([keras.Input(batch_shape=(3, 4, 2)), keras.layers.LSTM(5, stateful=True)])
    x = np.random.default_rng(0).uniform(-1, 1, (3, 4, 2)).astype("float32")
    outputs = []
    for swaps in (False, True):
        model.layers[0].reset_state()
        model(x)
        if swaps:
            sluice.keras.replace(model, verbose=False)
        outputs.append(array(model(x)))
    np.testing.assert_allclose(outputs[1], outputs[0], atol=1e-6)
