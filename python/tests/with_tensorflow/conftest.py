"""Tests of sluice.tensorflow against the TensorFlow that is installed."""

import os
import random
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import numpy as np
import pytest

from sluice.tensorflow import _library

SEED = int(os.environ.get("SLUICE_TEST_SEED") or random.SystemRandom().randrange(2**32))


def pytest_report_header(config):
    return f"SLUICE_TEST_SEED={SEED} draws these shapes and numbers again"


@pytest.fixture(scope="session", autouse=True)
def ops():
    """The library with the ops: built where there is none for this TensorFlow and Sluice."""
    path = _library.path_of_library()
    if not path.is_file() or _library.built_for(path) != _library.versions():
        subprocess.run([sys.executable, "-m", "sluice.tensorflow.build", "-o", path], check=True)
    return path


@pytest.fixture
def rng(request):
    """Numbers of this test alone, so that a test that runs by itself draws the same."""
    name = request.node.name
    print(f"SLUICE_TEST_SEED={SEED} {name}")
    return np.random.default_rng([SEED, *name.encode()])
