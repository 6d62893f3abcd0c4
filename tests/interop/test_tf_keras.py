"""Models of tf-keras (Keras 2): random chains in HDF5 there and back, and layers of cuDNN."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
import pytest
import tf_keras as keras
from interop_cases import CASES, assert_same, outputs_of
from keras_chains import Chain, assert_goes_there_and_back, predict

import sluice

L = keras.layers


@pytest.mark.parametrize("seed", range(max(1, CASES // 10)))
def test_a_chain_of_tf_keras_goes_there_and_back(seed, tmp_path):
    keras.backend.clear_session()
    chain = Chain(keras, numpy.random.default_rng(seed), seed)
    path = tmp_path / "model.h5"
    chain.model.save(path)
    assert_goes_there_and_back(chain, path, tmp_path / "back.h5", tmp_path)


@pytest.mark.parametrize("seed", range(max(1, CASES // 10)))
def test_layers_of_cudnn_compute_what_keras_converts_them_to(seed, tmp_path):
    """compat.v1's CuDNNLSTM and CuDNNGRU run on a GPU alone, so Keras converts their weights to those of LSTM and GRU."""
    keras.backend.clear_session()
    draw = numpy.random.default_rng(seed)
    cudnn, plain, features = cudnn_and_plain(draw)
    cudnn.set_weights([draw.uniform(-0.6, 0.6, w.shape) for w in cudnn.get_weights()])
    cudnn.save(tmp_path / "model.h5")
    cudnn.save_weights(tmp_path / "weights.h5", save_format="h5")
    plain.load_weights(tmp_path / "weights.h5")
    report = sluice.convert(tmp_path / "model.h5", tmp_path / "model", verify=True)
    assert report.check.agrees
    x = draw.normal(size=(int(draw.integers(1, 20)), features)).astype("f4")
    assert_same(outputs_of(tmp_path / "model", x), predict(plain, x[None], len(x)), report.text)


def cudnn_and_plain(draw):
    from tf_keras.src.layers.rnn.cudnn_gru import CuDNNGRU
    from tf_keras.src.layers.rnn.cudnn_lstm import CuDNNLSTM

    features, is_lstm, both = int(draw.integers(1, 12)), bool(draw.integers(2)), bool(draw.integers(2))
    layers = [[keras.Input((None, features))], [keras.Input((None, features))]]
    for at in range(int(draw.integers(1, 4))):
        units = int(draw.integers(2, 12))
        options = {"return_sequences": True}
        pair = [CuDNNLSTM(units, **options), L.LSTM(units, **options)] if is_lstm else [
            CuDNNGRU(units, **options), L.GRU(units, reset_after=True, **options)]
        for chain, layer in zip(layers, pair, strict=True):
            chain.append(L.Bidirectional(layer, name=f"layer{at}") if both else layer)
    return keras.Sequential(layers[0]), keras.Sequential(layers[1]), features
