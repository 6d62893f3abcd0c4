"""Models of Keras 3 and of tf-keras: random chains, in each file format, there and back."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy
import pytest
from interop_cases import CASES
from keras_chains import Chain, assert_goes_there_and_back

ENDINGS = (".keras", ".h5")


@pytest.mark.parametrize("seed", range(CASES))
def test_a_chain_of_keras_3_goes_there_and_back(seed, tmp_path):
    keras.backend.clear_session()
    chain = Chain(keras, numpy.random.default_rng(seed), seed)
    path = tmp_path / f"model{ENDINGS[seed % 2]}"
    chain.model.save(path)
    assert_goes_there_and_back(chain, path, tmp_path / f"back{ENDINGS[seed // 2 % 2]}", tmp_path)
