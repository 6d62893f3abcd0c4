"""Lengths, resets, single rows, layers of different widths, dropout; against the reference in NumPy or against each other."""

import numpy as np
import pytest
import reference
import sluice.numpy
import sluice.tensorflow
import tensorflow as tf
from cases import random_states, random_weights
from compared_layers import assert_close, gradients, variables

TOLERANCE = 1e-11  # See test_against_keras.py.


def own(cell, *arguments, **options):
    if cell == "lstm":
        return sluice.tensorflow.lstm(*arguments, **options)
    if cell.startswith("gru"):
        return sluice.tensorflow.gru(*arguments, reset_after=cell == "gru", **options)
    return sluice.tensorflow.rnn(*arguments, nonlinearity=cell.removeprefix("rnn_"), **options)


@pytest.mark.parametrize("cell", list(reference.GATES))
@pytest.mark.parametrize("number", range(6))
def test_lengths_resets_and_states(cell, number, rng):
    time, rows, input, hidden = (int(rng.integers(1, most)) for most in (10, 8, 16, 24))
    layers, directions = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    options = {"projection": int(rng.integers(1, 12))} if cell == "lstm" and rng.integers(2) else {}
    if cell == "lstm" and not options and rng.integers(2):
        options = {"peepholes": True} if rng.integers(2) else {"layer_norm": True}
    bias = bool(rng.integers(2)) or "layer_norm" in options
    weights = random_weights(rng, cell, input, hidden, layers, directions, bias=bias, **options)
    x = rng.uniform(-1, 1, (time, rows, input))
    h0, c0 = random_states(rng, layers, directions, rows, hidden, options.get("projection", hidden))
    lengths = rng.integers(0, time + 1, rows)
    lengths[rng.integers(rows)] = 0
    resets = rng.uniform(size=(time, rows)) < 0.3
    batch_first = bool(rng.integers(2))
    print(cell, x.shape, hidden, layers, directions, options, bias, batch_first)
    y, hn, cn = reference.stack(cell, weights, x, h0, c0, lengths, resets)

    def turned(array):
        return np.swapaxes(array, 0, 1) if batch_first else array

    found, last = own(cell, turned(x), weights, (h0, c0) if cell == "lstm" else h0, lengths=lengths, resets=turned(resets),
                      batch_first=batch_first)
    assert_close([turned(found), last], [y, (hn, cn) if cell == "lstm" else hn], TOLERANCE)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32, np.uint32, np.uint64])
def test_integers_of_any_kind(dtype, rng):
    weights = random_weights(rng, "gru", 5, 7)
    x = rng.uniform(-1, 1, (6, 4, 5))
    lengths, resets = rng.integers(0, 7, 4), rng.integers(0, 3, (6, 4))
    expected = sluice.numpy.gru(x, weights, lengths=lengths, resets=resets)
    found = sluice.tensorflow.gru(x, weights, lengths=lengths.astype(dtype), resets=resets.astype(dtype))
    assert_close(found, expected, 0)


def test_no_gradient_comes_from_behind_a_reset_or_an_end(rng):
    weights = variables(random_weights(rng, "lstm", 5, 7))
    x = tf.constant(rng.uniform(-1, 1, (6, 2, 5)))
    h0, c0 = (tf.constant(state) for state in random_states(rng, 1, 1, 2, 7, 7))
    resets = np.zeros((6, 2), bool)
    resets[3, 0] = True  # Row 0 begins anew at step 3; row 1 ends after step 2.

    def last():
        return sluice.tensorflow.lstm(x, weights, (h0, c0), lengths=[6, 2], resets=resets)[1]

    _, (dx, dh0) = gradients(last, [x, h0], 0)
    assert not np.any(dx[:3, 0]) and not np.any(dx[2:, 1]) and not np.any(dh0[0, 0])
    assert np.all(dx[3:, 0] != 0) and np.all(dx[:2, 1] != 0) and np.all(dh0[0, 1] != 0)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_single_row(cell, batch_first, rng):
    weights = random_weights(rng, cell, 5, 7, 2)
    x = rng.uniform(-1, 1, (6, 5))
    resets = rng.uniform(size=6) < 0.5
    for options, of_rows in (({}, {}), ({"resets": resets}, {"resets": resets[:, None]})):
        found = own(cell, x, weights, batch_first=batch_first, **options)
        y, last = own(cell, x[:, None], weights, **of_rows)
        assert_close(found, [y[:, 0], tf.nest.map_structure(lambda state: state[:, 0], last)], 0)


def test_layers_of_different_widths(rng):
    first, second = random_weights(rng, "gru", 5, 7, directions=2), random_weights(rng, "gru", 14, 4, directions=2)
    weights = first | {name.replace("_l0", "_l1"): value for name, value in second.items()}
    x = rng.uniform(-1, 1, (6, 3, 5))
    states = [rng.uniform(-1, 1, (2, 3, width)) for width in (7, 4)]
    found, last = sluice.tensorflow.gru(x, weights, states)
    expected, expected_last = sluice.numpy.gru(x, weights, states)
    assert_close([found, last], [expected, expected_last], 0)
    single = sluice.tensorflow.gru(x[:, 0], weights, [state[:, 0] for state in states])
    assert_close(single, [found[:, 0], [state[:, 0] for state in last]], TOLERANCE)


# Exact in float32, which an op's attributes have.
RATES = [{"dropout": 0.5}, {"recurrent_dropout": 0.375}, {"zoneout_h": 0.25}, {"zoneout_c": 0.25}]


@pytest.mark.parametrize("rate", RATES, ids=lambda rate: next(iter(rate)))
def test_what_is_drawn(rate, rng):
    weights = variables(random_weights(rng, "lstm", 5, 16, 2))
    x = tf.constant(rng.uniform(-1, 1, (6, 3, 5)))

    def run(**options):
        return sluice.tensorflow.lstm(x, weights, **{"training": True, **rate, **options})[0]

    stack = sluice.numpy.Stack("lstm", {name: value.numpy() for name, value in weights.items()}, training=True, **rate)
    seed = int(rng.integers(1, 2**40))
    expected, _ = stack(x.numpy(), seed=seed)
    assert_close(run(seed=seed), expected, TOLERANCE, "a seed")
    assert_close(run(seed=tf.constant(seed, tf.int64)), expected, TOLERANCE, "a seed in a tensor")
    assert np.any(run(seed=seed + 1) != expected)
    tf.random.set_seed(seed)
    in_graph = tf.function(run)
    one, other = in_graph(), in_graph()
    assert np.any(one != other) and np.any(run() != run())
    tf.random.set_seed(seed)
    assert_close(in_graph(), one, 0, "TensorFlow's seed")
    _, found = gradients(lambda: run(seed=seed), list(weights.values()), 7)
    at = weights["weight_hh_l0"]
    direction = tf.constant(rng.uniform(-1, 1, at.shape))
    difference = 0.0
    for sign in (1, -1):
        at.assign_add(sign * 1e-6 * direction)
        y = run(seed=seed)
        difference += sign * tf.reduce_sum(y * np.random.default_rng(7).uniform(-1, 1, y.shape))
        at.assign_sub(sign * 1e-6 * direction)
    expected = tf.reduce_sum(found[1] * direction)
    assert abs(difference / 2e-6 - expected) < 1e-6 * max(1, abs(expected))


def test_rates_that_are_almost_equal_have_plans_of_their_own(rng):
    weights = random_weights(rng, "lstm", 5, 7)
    x = rng.uniform(-1, 1, (6, 3, 5))
    for rate in (0.25, 0.25 + 2**-23):  # Exact in float32; six digits of both are equal.
        expected, _ = sluice.numpy.Stack("lstm", weights, zoneout_h=rate)(x)
        # The rates differ by 1.2e-7 and so do the outputs, about.
        assert_close(sluice.tensorflow.lstm(x, weights, zoneout_h=rate)[0], expected, TOLERANCE)


@pytest.mark.parametrize("run, cell", ((sluice.tensorflow.lstm, "lstm"), (sluice.tensorflow.gru, "gru")),
                         ids=("lstm", "gru"))
def test_hard_sigmoids_are_those_of_numpy(run, cell, rng):
    weights = random_weights(rng, cell, 5, 7)
    x = rng.uniform(-9, 9, (6, 3, 5))
    stack = sluice.numpy.Stack(cell, weights, hard_sigmoid=True, training=True)
    expected, _ = stack(x)
    own = variables(weights)
    with tf.GradientTape() as tape:
        found, _ = run(tf.constant(x), own, hard_sigmoid=True, training=True)
        loss = tf.reduce_sum(found)
    assert_close(found, expected, TOLERANCE)
    assert np.abs(found - run(tf.constant(x), own)[0]).max() > 1e-3
    slopes = stack.backward(np.ones_like(expected)).weights
    name = "weight_hh_l0"
    assert_close(tape.gradient(loss, own[name]), slopes[name], TOLERANCE)


def test_without_training_nothing_is_drawn(rng):
    weights = variables(random_weights(rng, "lstm", 5, 16, 2))
    x = tf.constant(rng.uniform(-1, 1, (6, 3, 5)))
    plain, _ = sluice.tensorflow.lstm(x, weights)
    for training in (None, False):
        found, _ = sluice.tensorflow.lstm(x, weights, dropout=0.5, recurrent_dropout=0.5, training=training)
        assert_close(found, plain, 0)
    stack = sluice.numpy.Stack("lstm", {name: value.numpy() for name, value in weights.items()}, zoneout_h=0.25)
    zoneout = tf.function(lambda: sluice.tensorflow.lstm(x, weights, zoneout_h=0.25))
    assert_close(zoneout()[0], stack(x.numpy())[0], TOLERANCE)
    with tf.GradientTape() as tape, pytest.raises(NotImplementedError, match="zoneout takes its expectation"):
        tape.gradient(zoneout()[0], list(weights.values()))
