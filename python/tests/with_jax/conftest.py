"""Tests of sluice.jax with the JAX that is installed. `./dev test-frameworks` runs them."""

import jax
import pytest

jax.config.update("jax_enable_x64", True)
# float64 is the CPU's. Tests of GPUs put their arrays there.
jax.config.update("jax_default_device", jax.devices("cpu")[0])
# XLA takes most of the tests' time to compile lax.scan well.
jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def gpu():
    try:
        return jax.devices("cuda")[0]
    except RuntimeError:
        pytest.skip("no GPU that JAX can use")
