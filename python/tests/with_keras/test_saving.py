"""Configurations, weights and files pass between Keras's layers and Sluice's."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import sluice.keras
from keras_cases import JIT, KINDS, Case, array

PACKAGES = {"keras": keras.layers, "sluice": sluice.keras}


def model_of(package):
    layers = PACKAGES[package]
    model = keras.Sequential([
        keras.layers.Embedding(11, 5, mask_zero=True),
        keras.layers.Bidirectional(layers.LSTM(4, return_sequences=True, dropout=0.1, recurrent_dropout=0.2)),
        layers.GRU(6, return_sequences=True, reset_after=False, kernel_regularizer=keras.regularizers.L2(0.1)),
        layers.GRU(6, return_sequences=True, kernel_constraint="max_norm"),
        layers.SimpleRNN(3, activation="relu", use_bias=False, recurrent_initializer="identity"),
        keras.layers.Dense(2)])
    model.build((None, 7))
    return model


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(0, 11, (5, 7))


def same(found, expected):
    # float32 rounds at 6e-8; five layers of seven steps.
    np.testing.assert_allclose(array(found), array(expected), rtol=0, atol=3e-6)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weights_have_kerass_names_shapes_and_order(kind):
    reference, own = Case(0, "float32", kind=kind, name="layer").layers()
    assert [(weight.path, weight.shape, weight.dtype) for weight in own.weights] == [
        (weight.path, weight.shape, weight.dtype) for weight in reference.weights]
    assert [variable.shape for variable in own.variables] == [variable.shape for variable in reference.variables]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_same_seed_gives_kerass_first_weights(kind):
    weights = []
    for package in (keras.layers, sluice.keras):
        keras.utils.set_random_seed(4)
        layer = getattr(package, kind[0])(5, **kind[1])
        layer.build((2, 3, 4))
        weights.append(layer.get_weights())
    for own, reference in zip(*weights, strict=True):
        np.testing.assert_array_equal(own, reference)


@pytest.mark.parametrize("number", range(10))
def test_configurations(number):
    case = Case(number, dropout=0.2, recurrent_dropout=0.1, bias_regularizer="l2", seed=3)
    reference, own = case.layers()
    theirs, ours = reference.get_config(), own.get_config()
    for config in (theirs, ours):
        del config["name"]
    assert ours == theirs
    again = type(own).from_config(own.get_config())
    assert again.get_config() == own.get_config()


@pytest.mark.parametrize("writer", PACKAGES)
@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_models_pass_through_files(writer, ending, tmp_path, tokens):
    model = model_of(writer)
    model.compile(keras.optimizers.Adam(), keras.losses.MeanSquaredError(), jit_compile=JIT)
    model.fit(tokens, np.zeros((5, 2)), verbose=0)
    path = tmp_path / f"model.{ending}"
    model.save(path)
    read = sluice.keras.replace(keras.models.load_model(path), verbose=False)
    assert type(read.layers[2]) is sluice.keras.GRU and type(read.layers[1].forward_layer) is sluice.keras.LSTM
    same(read(tokens), model(tokens))
    if ending == "keras":  # Keras can't train what it read from the older format, whatever the layers.
        assert read.optimizer.iterations == 1
        assert np.isfinite(read.train_on_batch(tokens, np.zeros((5, 2))))


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_a_program_without_sluice_reads_a_file(ending, tmp_path, tokens):
    model = model_of("sluice")
    model.save(tmp_path / f"model.{ending}")
    np.save(tmp_path / "tokens.npy", tokens)
    program = """import sys, keras, numpy
as_keras = {f"sluice>{name}": getattr(keras.layers, name) for name in ("LSTM", "GRU", "SimpleRNN")}
model = keras.models.load_model(sys.argv[1], custom_objects=as_keras)
assert type(model.layers[2]) is keras.layers.GRU and type(model.layers[1].forward_layer) is keras.layers.LSTM
assert not any(name.startswith("sluice") for name in sys.modules)
numpy.save("outputs.npy", keras.ops.convert_to_numpy(model(numpy.load("tokens.npy"))))
"""
    subprocess.run([sys.executable, "-c", program, f"model.{ending}"], check=True, cwd=tmp_path)
    same(np.load(tmp_path / "outputs.npy"), model(tokens))


@pytest.mark.parametrize("writer, reader", [("keras", "sluice"), ("sluice", "keras")])
def test_weights_pass_through_files(writer, reader, tmp_path, tokens):
    model, other = model_of(writer), model_of(reader)
    model.save_weights(tmp_path / "some.weights.h5")
    other.load_weights(tmp_path / "some.weights.h5")
    same(other(tokens), model(tokens))


def test_clones(tokens):
    model = model_of("sluice")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert type(clone.layers[2]) is sluice.keras.GRU
    same(clone(tokens), model(tokens))
