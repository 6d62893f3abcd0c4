"""Dropout, zoneout and recurrent dropout: what a key draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_stacks import SEED

from sluice.jax import init, lstm, rnn

RATES = {"dropout": 0.3, "zoneout_h": 0.2, "zoneout_c": 0.1, "recurrent_dropout": 0.25}
KEY = jax.random.key(SEED)
TIME, ROWS, INPUT, HIDDEN = 5, 4, 3, 6
WEIGHTS = init(jax.random.key(SEED + 1), "lstm", INPUT, HIDDEN, 2, dtype=jnp.float64)
RNG = np.random.default_rng(SEED)
X = jnp.asarray(RNG.standard_normal((TIME, ROWS, INPUT)))
XS = jnp.asarray(RNG.standard_normal((3, TIME, ROWS, INPUT)))


def run(x, key, weights=WEIGHTS, rates=RATES):
    return lstm(x, weights, key=key, **rates)[0]


def test_a_key_decides_what_is_drawn():
    y = run(X, KEY)
    np.testing.assert_array_equal(run(X, KEY), y)
    np.testing.assert_array_equal(jax.jit(run)(X, KEY), y)
    np.testing.assert_array_equal(run(X, jax.random.key_data(KEY)), y)  # a key as a uint32 array
    assert np.abs(run(X, jax.random.key(SEED + 2)) - y).max() > 0.01
    assert np.abs(y[:, 0] - run(jnp.broadcast_to(X[:, :1], X.shape), KEY)[:, 1]).max() > 0.001  # each row draws its own


@pytest.mark.parametrize("rate", RATES)
def test_each_rate_acts_with_a_key_alone(rate):
    without = lstm(X, WEIGHTS)[0]
    drawn = run(X, KEY, rates={rate: RATES[rate]})
    assert np.abs(drawn - without).max() > 1e-3
    at_rest = run(X, None, rates={rate: RATES[rate]})
    if rate.startswith("zoneout"):
        assert np.abs(at_rest - without).max() > 1e-3  # its expectation
        return
    np.testing.assert_array_equal(at_rest, without)
    # Nor does dropout act where a gradient is asked for.
    y, pull = jax.vjp(lambda x: run(x, None, rates={rate: RATES[rate]}), X)
    np.testing.assert_array_equal(y, without)
    np.testing.assert_array_equal(pull(y), jax.vjp(lambda x: lstm(x, WEIGHTS)[0], X)[1](y))


def test_a_key_without_rates_changes_nothing():
    np.testing.assert_array_equal(lstm(X, WEIGHTS, key=KEY)[0], lstm(X, WEIGHTS)[0])


def test_drawing_is_the_same_with_and_without_gradients():
    y, pull = jax.vjp(lambda x: run(x, KEY), X)
    np.testing.assert_array_equal(y, run(X, KEY))
    slope = jnp.asarray(RNG.standard_normal(y.shape))
    towards = jnp.asarray(RNG.standard_normal(X.shape))
    step = 1e-6
    ends = [(run(X + sign * step * towards, KEY) * slope).sum() for sign in (1, -1)]
    # Differences of losses lose about 10 of 16 digits.
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), (pull(slope)[0] * towards).sum(), rtol=1e-5, atol=1e-6)


def test_dropout_drops_its_share():
    # The second layer passes on what it gets from the first: nearly linear in x, without a recurrent product.
    weights = init(jax.random.key(1), "rnn_tanh", 4, 64, 2, bias=False, dtype=jnp.float64)
    weights.update(weight_ih_l1=1e-3 * jnp.eye(64), weight_hh_l1=jnp.zeros((64, 64)))
    x = jnp.asarray(RNG.standard_normal((16, 64, 4)))
    y = rnn(x, weights, dropout=0.3, key=KEY)[0]
    kept, whole = np.asarray(y != 0), np.asarray(rnn(x, weights)[0])
    # 65,536 draws: a standard deviation of .0018.
    assert abs(kept.mean() - 0.7) < 0.009
    np.testing.assert_allclose(np.asarray(y)[kept], whole[kept] / 0.7, rtol=1e-4)  # tanh(v) is v up to v**3


@pytest.mark.parametrize("in_axes", ((0, None), (0, 0), (None, 0)))
def test_mapped_keys_draw_as_single_ones(in_axes):
    keys = jax.random.split(KEY, 3)
    given = (XS if in_axes[0] == 0 else X), (keys if in_axes[1] == 0 else KEY)
    found = jax.vmap(run, in_axes)(*given)
    assert "scan" not in str(jax.make_jaxpr(jax.vmap(run, in_axes))(*given))
    for i in range(3):
        single = run(XS[i] if in_axes[0] == 0 else X, keys[i] if in_axes[1] == 0 else KEY)
        np.testing.assert_allclose(found[i], single, atol=1e-14)


def test_zoneout_needs_a_key_for_gradients():
    with pytest.raises(NotImplementedError, match="without a key zoneout takes its expectation"):
        jax.grad(lambda x: run(x, None).sum())(X)
