"""jax.export: calls in a file, and what reads them."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_stacks import SEED, assert_close

from sluice.jax import init, lstm

RNG = np.random.default_rng(SEED)
TIME, ROWS, INPUT, HIDDEN = (int(RNG.integers(1, 9)) for _ in range(4))
WEIGHTS = init(jax.random.key(SEED), "lstm", INPUT, HIDDEN, dtype=jnp.float64)
X = jnp.asarray(RNG.standard_normal((TIME, ROWS, INPUT)))
MESSAGE = f"seed {SEED}: time {TIME}, rows {ROWS}, input {INPUT}, hidden {HIDDEN}"
CHECKS = [jax.export.DisabledSafetyCheck.custom_call(f"sluice_{call}") for call in ("pack", "forward", "backward")]
_READ = """
import sys
import jax, numpy as np
import sluice.jax
jax.config.update("jax_enable_x64", True)
file = sys.argv[1]
with open(file, "rb") as opened:
    run = jax.export.deserialize(opened.read()).call
with np.load(file + ".npz") as arrays:
    weights = {name: arrays[name] for name in arrays if name not in ("x", "expected")}
    np.testing.assert_array_equal(run(weights, arrays["x"]), arrays["expected"])
"""


@jax.jit
def run(weights, x):
    return lstm(x, weights)[0]


def loss(function):
    return lambda weights, x: (function(weights, x)**2).sum()


def test_exported_calls_run_in_another_process(tmp_path):
    file = tmp_path / "lstm.bin"
    file.write_bytes(jax.export.export(run, platforms=["cpu"], disabled_checks=CHECKS)(WEIGHTS, X).serialize())
    np.savez(f"{file}.npz", **WEIGHTS, x=X, expected=run(WEIGHTS, X))
    subprocess.run([sys.executable, "-c", _READ, str(file)], check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})


def test_exported_gradients():
    data = jax.export.export(run, platforms=["cpu"], disabled_checks=CHECKS)(WEIGHTS, X).serialize(vjp_order=1)
    found = jax.grad(loss(jax.export.deserialize(data).call), (0, 1))(WEIGHTS, X)
    assert_close(found, jax.grad(loss(run), (0, 1))(WEIGHTS, X), 0.0, MESSAGE)


def test_jax_wants_the_checks_disabled():
    with pytest.raises(ValueError, match="custom calls whose targets have no compatibility guarantees"):
        jax.export.export(run)(WEIGHTS, X).serialize()
