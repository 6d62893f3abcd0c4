"""Stacks of random hyper-parameters against lax.scan in float64, and against sluice.numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_stacks import SEED, Case, assert_close, converted, name_of

import sluice.jax
import sluice.numpy

# A result is the end of at most 12 steps and 3 layers of sums of at most 3 * 24 terms of order 1, a gradient sums over 12 * 9
# steps and rows beyond that. Some thousand roundings, which add up like their square root and are damped by the gates: about
# 100 epsilon, of 2e-16 or 1e-7.
TOLERANCE = {"float64": 1e-12, "float32": 3e-5}
# In bfloat16 each step of each layer rounds h by 2**-9 of its size. The errors of 12 steps and 3 layers add up; gates, and
# weights of at most 1/2, damp them. Gradients sum such errors over steps and rows, relative to a sum that grows likewise. A
# ReLU layer damps nothing.
RESULTS_IN_BFLOAT16, GRADIENTS_IN_BFLOAT16 = 0.06, 0.12


def gradients_of(function, slopes):
    """A compiled function from inputs to results and gradients."""
    def run(inputs):
        results, pull = jax.vjp(function, inputs)
        return results, pull(jax.tree.map(lambda slope, result: jnp.asarray(slope, result.dtype), slopes, results))[0]

    return jax.jit(run)


@pytest.mark.parametrize("number", range(40), ids=name_of)
def test_values_and_gradients_are_the_references(number):
    case = Case(number)
    slopes = case.slopes()
    reference, own = gradients_of(case.expected, slopes), gradients_of(case.found, slopes)
    expected = reference(converted(case.inputs, jnp.float64))
    for dtype, tolerance in TOLERANCE.items():
        found = own(converted(case.inputs, dtype))
        assert {array.dtype.name for array in jax.tree.leaves(found)} == {dtype}
        assert_close(found, expected, tolerance, f"{dtype}, {case}")
    # The reference gets the rounded numbers, so only what is rounded on the way differs.
    inputs = converted(case.inputs, jnp.bfloat16, cell_dtype=jnp.float32)
    results, gradients = own(inputs)
    expected = reference(converted(inputs, jnp.float64))
    assert results[0].dtype == gradients["x"].dtype == jnp.bfloat16
    if case.cell == "lstm":
        assert jax.tree.leaves(results[2])[0].dtype == jnp.float32  # cell states
    if case.cell != "rnn_relu":
        assert_close(results, expected[0], RESULTS_IN_BFLOAT16, f"bfloat16, {case}")
        assert_close(gradients, expected[1], GRADIENTS_IN_BFLOAT16, f"bfloat16, {case}")


@pytest.mark.parametrize("number", range(15), ids=name_of)
def test_agrees_with_sluice_numpy(number):
    case = Case(number, plain=True)
    weights = converted(case.weights, jnp.float32)
    x, lengths, resets = jnp.asarray(case.x, jnp.float32), case.lengths, case.resets
    h0, c0 = (None if state is None else np.concatenate(state).astype(np.float32) for state in (case.h0, case.c0))
    hx = (h0, c0) if case.cell == "lstm" else h0
    # Both in the implementation for one row: sluice.numpy's plan may be for more rows, for which another one would be chosen.
    name = sluice.numpy.Stack(case.cell, weights, training=True).explain(case.time, 1).split("\n")[0]
    stack = sluice.numpy.Stack(case.cell, weights, training=True, implementation=name)
    y, _ = stack(x, hx, lengths=lengths, resets=resets)
    slope = case.rng.standard_normal(y.shape).astype(np.float32)
    gradients = stack.backward(slope)
    inputs = converted(case.inputs, jnp.float32)
    found, pull = jax.vjp(lambda inputs: case.found(inputs, implementation=name)[0], inputs)
    own = pull(jnp.asarray(slope))[0]
    np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(own["x"], gradients.x)
    for name, value in gradients.weights.items():
        np.testing.assert_array_equal(own["weights"][name], value)


@pytest.mark.parametrize("number", range(10), ids=name_of)
def test_zoneout_without_a_key_is_its_expectation(number):
    case = Case(number)
    case.zoneout = (0.3, 0.2 if case.cell == "lstm" else 0.0)
    rates = {"zoneout_h": 0.3, **({"zoneout_c": 0.2} if case.cell == "lstm" else {})}
    inputs = converted(case.inputs, jnp.float64)
    assert_close(case.found(inputs, **rates), case.expected(inputs), 1e-12, str(case))


@pytest.mark.parametrize("run, cell", ((sluice.jax.lstm, "lstm"), (sluice.jax.gru, "gru")), ids=("lstm", "gru"))
def test_hard_sigmoids_are_those_of_numpy(run, cell):
    rng = np.random.default_rng(SEED)
    weights = sluice.jax.init(jax.random.key(SEED), cell, 3, 5, 2, dtype=jnp.float64)
    x = 9 * rng.standard_normal((6, 2, 3))
    stack = sluice.numpy.Stack(cell, {name: np.asarray(value) for name, value in weights.items()}, hard_sigmoid=True)
    found = jax.jit(lambda x: run(x, weights, hard_sigmoid=True)[0])(x)
    np.testing.assert_allclose(found, stack(x)[0], atol=1e-12)
    assert np.abs(found - run(x, weights)[0]).max() > 1e-3


@pytest.mark.parametrize("batch_first", (False, True))
def test_a_single_row(batch_first):
    rng = np.random.default_rng(SEED)
    time = int(rng.integers(1, 9))
    weights = sluice.jax.init(jax.random.key(SEED), "lstm", 3, 5, 2, dtype=jnp.float64)
    x, resets = jnp.asarray(rng.standard_normal((time, 3))), rng.random(time) < 0.3
    y, (hn, cn) = sluice.jax.lstm(x, weights, resets=resets, batch_first=batch_first)
    rows, (h, c) = sluice.jax.lstm(x[:, None], weights, resets=resets[:, None])
    np.testing.assert_array_equal(y, rows[:, 0])
    np.testing.assert_array_equal(hn, h[:, 0])
    np.testing.assert_array_equal(cn, c[:, 0])
    again, _ = sluice.jax.lstm(x, weights, (jnp.zeros((2, 5)), None), resets=resets, batch_first=batch_first)
    np.testing.assert_array_equal(again, y)


def test_init_has_torchs_names_and_shapes():
    weights = sluice.jax.init(jax.random.key(0), "lstm", 5, 8, 2, bidirectional=True, projection=3, dtype=jnp.bfloat16)
    assert weights["weight_ih_l1_reverse"].shape == (32, 6) and weights["weight_hr_l0"].shape == (3, 8)
    assert {value.dtype.name for value in weights.values()} == {"bfloat16"}
    plain = sluice.jax.init(jax.random.key(0), "gru", 4, 100)
    spread = np.concatenate([np.ravel(value) for value in plain.values()])
    assert np.abs(spread).max() <= 0.1 and abs(spread.std() - 0.1 / 3**0.5) < 0.002  # 31,800 uniform numbers
    normed = sluice.jax.init(jax.random.key(0), "lstm", 4, 8, peepholes=True)
    assert not normed["weight_peephole_l0"].any()
