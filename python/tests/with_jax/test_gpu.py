"""On a GPU: results against lax.scan in float64 on the CPU, and what only a GPU has."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_stacks import SEED, Case, assert_close, converted, name_of

from sluice.jax import gru, init, lstm

pytestmark = pytest.mark.usefixtures("gpu")
# As on the CPU (test_random.py). TF32 rounds factors by 2**-11, float16 by 2**-11 too, bfloat16 by 2**-9.
TOLERANCE = {"float32": 3e-5, "tf32": 0.02, "bfloat16": 0.06, "float16": 0.02}


def run_both(case, dtype, gpu):
    slopes = case.slopes()
    name = "float32" if dtype == "tf32" else dtype
    inputs = converted(case.inputs, name, cell_dtype=jnp.float32)

    def gradients_of(function):
        def run(inputs):
            results, pull = jax.vjp(function, inputs)
            return results, pull(jax.tree.map(lambda slope, result: jnp.asarray(slope, result.dtype), slopes, results))[0]
        return jax.jit(run)

    with jax.default_device(jax.devices("cpu")[0]):
        expected = gradients_of(case.expected)(jax.device_put(converted(inputs, jnp.float64), jax.devices("cpu")[0]))
    with jax.default_device(gpu), jax.default_matmul_precision("default" if dtype == "tf32" else "highest"):
        found = gradients_of(case.found)(jax.device_put(inputs, gpu))
    assert found[0][0].devices() == {gpu}
    return found, expected


@pytest.mark.parametrize("number", range(20), ids=name_of)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_values_and_gradients_are_the_references(number, dtype, gpu):
    case = Case(number)
    if case.cell == "rnn_relu" and dtype != "float32":
        pytest.skip("a ReLU layer damps no rounding")
    found, expected = run_both(case, dtype, gpu)
    assert_close(found[0], expected[0], TOLERANCE[dtype], f"{dtype}, {case}")
    assert_close(found[1], expected[1], 2 * TOLERANCE[dtype], f"{dtype}, {case}")


@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
@pytest.mark.parametrize("cell", ("lstm", "gru"))
def test_wide_layers_on_many_steps(cell, dtype, gpu):
    """Shapes for which persistent kernels run, in one jit with other work before and after."""
    layer = {"lstm": lstm, "gru": gru}[cell]
    rng = np.random.default_rng(SEED)
    time, rows, width = int(rng.integers(30, 120)), 8 * int(rng.integers(1, 9)), 64 * int(rng.integers(2, 9))
    weights = init(jax.random.key(SEED), cell, width, width, dtype=dtype)
    x = jnp.asarray(rng.standard_normal((time, rows, width)), dtype)

    def loss(weights, x):
        y = layer(jnp.tanh(x), weights)[0]
        return (y.astype(jnp.float32)**2).mean()

    def reference(weights, x):
        import scan_reference
        return (scan_reference.stack(cell, weights, jnp.tanh(x))[0]**2).mean()

    with jax.default_matmul_precision("highest"):
        found = jax.jit(jax.value_and_grad(loss, (0, 1)))(*jax.device_put((weights, x), gpu))
    cpu = jax.devices("cpu")[0]
    doubles = jax.device_put(jax.tree.map(lambda a: a.astype(jnp.float64), (weights, x)), cpu)
    expected = jax.jit(jax.value_and_grad(reference, (0, 1)))(*doubles)
    # Gradients are small, so each is held to its own largest value: errors of time steps add up like a square root.
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        a, b = np.asarray(a, np.float64), np.asarray(b)
        assert np.abs(a - b).max() <= {"bfloat16": 0.06, "float32": 1e-4}[dtype] * np.abs(b).max(), (SEED, a.shape)


def test_a_loop_of_steps_and_repeated_runs(gpu):
    weights = jax.device_put(init(jax.random.key(1), "lstm", 64, 64), gpu)
    x = jax.device_put(jax.random.normal(jax.random.key(2), (20, 8, 64), jnp.float32), gpu)

    @jax.jit
    def steps(x):
        def body(state, x):
            y, state = lstm(x[None], weights, state)
            return state, y[0]
        return jax.lax.scan(body, (jnp.zeros((1, 8, 64), jnp.float32), jnp.zeros((1, 8, 64), jnp.float32)), x)[1]

    with jax.default_matmul_precision("highest"):
        whole = lstm(x, weights)[0]
        for _ in range(5):
            np.testing.assert_allclose(steps(x), whole, atol=2e-5)


def test_float64_is_refused_when_it_runs(gpu):
    weights = jax.device_put(init(jax.random.key(1), "lstm", 3, 4, dtype=jnp.float64), gpu)
    x = jax.device_put(jnp.ones((2, 2, 3), jnp.float64), gpu)
    with pytest.raises(Exception, match="Sluice: no implementation of a recurrent stack can run here"):
        jax.block_until_ready(lstm(x, weights))
