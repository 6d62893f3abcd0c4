"""Tests of sluice.keras against the Keras that is installed, on the back end that KERAS_BACKEND names.

`./dev test-frameworks` runs them once for each. SLUICE_SEED chooses the random cases; without it they are new in each run.
"""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")  # JAX has no float64 without it, and reads this once.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # Compiling takes nearly all of the time.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import pytest
from keras.src.backend.common import dtypes
from keras_cases import SEED


def pytest_report_header():
    return f"keras {keras.__version__} on {keras.backend.backend()}, SLUICE_SEED={SEED}"


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(SEED)


@pytest.fixture(autouse=True)
def in_float32():
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")  # Keras makes one from floatx when it is first asked, and keeps it.
    yield
    keras.config.set_floatx("float32")


@pytest.fixture
def true_float64():
    """Keras's float64 without roundings: on torch and JAX, operations such as matmul and tanh otherwise round it to float32."""
    before = dtypes.BIT64_TO_BIT32_DTYPE["float64"]
    keras.config.set_floatx("float64")
    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    yield
    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = before
