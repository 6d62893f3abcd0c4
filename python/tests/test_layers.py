"""Results and gradients against the reference."""

import numpy as np
import pytest
import reference
from cases import random_states, random_weights

from sluice.numpy import Stack, gru, lstm, rnn

CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")
TIME, ROWS, INPUT, HIDDEN = 7, 5, 6, 9

# Values are of order 1 and the sums at most 2 * 9 + 2 terms, over 7 steps and 2 layers: some hundred roundings, each
# damped by weights below 1/2.
TOLERANCE = {np.float64: 1e-13, np.float32: 1e-5}

SHAPES = [
    {},
    {"layers": 2},
    {"directions": 2},
    {"layers": 3, "directions": 2},
    {"bias": False},
]
LSTM_SHAPES = [
    {"projection": 4},
    {"projection": 4, "layers": 2, "directions": 2},
    {"peepholes": True, "directions": 2},
    {"layer_norm": True, "layers": 2},
]


def name_of(value):
    if isinstance(value, dict):
        return "_".join(f"{key}{number}" for key, number in value.items()) or "plain"
    return getattr(value, "__name__", str(value))


def lengths_of(rng):
    lengths = rng.integers(1, TIME + 1, ROWS)
    lengths[1], lengths[2] = 0, TIME
    return lengths


def inputs_of(rng, shape, dtype, hidden=HIDDEN):
    x = rng.uniform(-1, 1, (TIME, ROWS, INPUT)).astype(dtype)
    states = random_states(rng, shape.get("layers", 1), shape.get("directions", 1), ROWS, hidden,
                           shape.get("projection", hidden), dtype)
    return x, states


def call(stack, cell, x, states, **options):
    """y, hn, cn; cn is None unless it is an LSTM."""
    if cell == "lstm":
        y, (hn, cn) = stack(x, states, **options)
        return y, hn, cn
    return (*stack(x, None if states is None else states[0], **options), None)


@pytest.mark.parametrize("dtype", (np.float64, np.float32), ids=name_of)
@pytest.mark.parametrize("cell, shape", [(cell, shape) for cell in CELLS for shape in SHAPES] +
                         [("lstm", shape) for shape in LSTM_SHAPES], ids=name_of)
def test_agrees_with_the_reference(cell, shape, dtype):
    rng = np.random.default_rng(sum(map(ord, cell + name_of(shape))))
    weights = random_weights(rng, cell, INPUT, HIDDEN, dtype=dtype, **shape)
    x, states = inputs_of(rng, shape, dtype)
    stack = Stack(cell, weights)
    lengths, resets = lengths_of(rng), rng.random((TIME, ROWS)) < 0.25
    for options in ({}, {"lengths": lengths}, {"resets": resets}, {"lengths": lengths, "resets": resets}):
        for given in (None, states):
            got = call(stack, cell, x, given, **options)
            expected = reference.stack(cell, weights, x.astype(np.float64), *(given or (None, None)), **options)
            for name, actual, right in zip(("y", "hn", "cn"), got, expected):
                if actual is not None:
                    assert actual.dtype == dtype
                    np.testing.assert_allclose(actual, right, rtol=0, atol=TOLERANCE[dtype],
                                               err_msg=f"{name} with {list(options)}, states {given is not None}")


@pytest.mark.parametrize("cell", ("lstm", "gru", "gru_reset_before"))
def test_hard_sigmoids_agree_with_the_reference(cell):
    rng = np.random.default_rng(8)
    weights = random_weights(rng, cell, INPUT, HIDDEN, layers=2, directions=2)
    x, states = inputs_of(rng, {"layers": 2, "directions": 2}, np.float64)
    x *= 3  # so that some gates are at their ends
    got = call(Stack(cell, weights, hard_sigmoid=True), cell, x, states)
    expected = reference.stack(cell, weights, x, *states, gate=reference.hard_sigmoid)
    for actual, right in zip(got, expected):
        if actual is not None:
            np.testing.assert_allclose(actual, right, rtol=0, atol=1e-13)


def test_a_plain_rnn_has_no_hard_sigmoid():
    weights = random_weights(np.random.default_rng(8), "rnn_tanh", INPUT, HIDDEN)
    with pytest.raises(ValueError, match="a plain RNN has no gates for a hard sigmoid"):
        Stack("rnn_tanh", weights, hard_sigmoid=True)(np.zeros((2, 1, INPUT)))


def test_functions_agree_with_the_reference():
    rng = np.random.default_rng(1)
    x, (h0, c0) = inputs_of(rng, {}, np.float64)
    for function, cell, options in ((lstm, "lstm", {}), (gru, "gru", {}), (gru, "gru_reset_before", {"reset_after": False}),
                                    (rnn, "rnn_tanh", {}), (rnn, "rnn_relu", {"nonlinearity": "relu"})):
        for _ in range(2):  # other weights in the same, kept, stack
            weights = random_weights(rng, cell, INPUT, HIDDEN)
            y, state = function(x, weights, (h0, c0) if cell == "lstm" else h0, **options)
            expected = reference.stack(cell, weights, x, h0, c0)
            np.testing.assert_allclose(y, expected[0], atol=1e-13)
            np.testing.assert_allclose(state[0] if cell == "lstm" else state, expected[1], atol=1e-13)


@pytest.mark.parametrize("cell", CELLS)
def test_batch_first_is_transposed(cell):
    rng = np.random.default_rng(2)
    shape = {"layers": 2, "directions": 2}
    weights = random_weights(rng, cell, INPUT, HIDDEN, **shape)
    x, states = inputs_of(rng, shape, np.float64)
    lengths, resets = lengths_of(rng), rng.random((TIME, ROWS)) < 0.25
    time_major = Stack(cell, weights, training=True)
    row_major = Stack(cell, weights, training=True, batch_first=True)
    dy = rng.standard_normal((TIME, ROWS, 2 * HIDDEN))
    expected = call(time_major, cell, x, states, lengths=lengths, resets=resets)
    got = call(row_major, cell, x.swapaxes(0, 1), states, lengths=lengths, resets=resets.T)
    np.testing.assert_array_equal(got[0].swapaxes(0, 1), expected[0])
    np.testing.assert_array_equal(got[1], expected[1])
    from_time_major = time_major.backward(dy)
    from_row_major = row_major.backward(dy.swapaxes(0, 1))
    np.testing.assert_array_equal(from_row_major.x.swapaxes(0, 1), from_time_major.x)
    for name in weights:
        np.testing.assert_array_equal(from_row_major.weights[name], from_time_major.weights[name])


def flat(arrays):
    return np.concatenate([np.ravel(array) for array in arrays])


@pytest.mark.parametrize("cell, shape", [("lstm", {"layers": 2, "directions": 2}), ("lstm", {"projection": 4, "layers": 2}),
                                         ("lstm", {"peepholes": True}), ("lstm", {"layer_norm": True}), ("lstm", {"bias": False}),
                                         ("gru", {"layers": 2, "directions": 2}), ("gru_reset_before", {"layers": 2}),
                                         ("rnn_tanh", {"layers": 2, "directions": 2}), ("rnn_relu", {})], ids=name_of)
@pytest.mark.parametrize("resets", (False, True), ids=("", "resets"))
def test_gradients_are_central_differences(cell, shape, resets):
    rng = np.random.default_rng(3)
    weights = random_weights(rng, cell, INPUT, HIDDEN, **shape)
    x, states = inputs_of(rng, shape, np.float64)
    options = {"lengths": lengths_of(rng)}
    if resets:
        options["resets"] = rng.random((TIME, ROWS)) < 0.25
    stack = Stack(cell, weights, training=True)
    results = [result for result in call(stack, cell, x, states, **options) if result is not None]
    slopes = [rng.standard_normal(result.shape) for result in results]
    gradients = stack.backward(slopes[0], tuple(slopes[1:]) if cell == "lstm" else slopes[1])
    dstate = gradients.state if cell == "lstm" else (gradients.state,)
    analytic = flat([gradients.x, *dstate, *gradients.weights.values()])

    inputs = [x, *states[:len(dstate)], *weights.values()]
    directions = [rng.standard_normal(array.shape) for array in inputs]
    # Past a row's end x has no effect, and gradients there are zero.
    probe = Stack(cell, weights)

    def loss(scale):
        moved = [array + scale * direction for array, direction in zip(inputs, directions)]
        probe.load(dict(zip(weights, moved[1 + len(dstate):])))
        moved_states = (moved[1], moved[2]) if cell == "lstm" else (moved[1], None)
        outputs = call(probe, cell, moved[0], moved_states, **options)
        return sum(np.vdot(slope, output) for slope, output in zip(slopes, outputs))

    # The error of a central difference is O(h^2) and O(1e-16 / h).
    step = 1e-5
    numeric = (loss(step) - loss(-step)) / (2 * step)
    np.testing.assert_allclose(np.vdot(analytic, flat(directions)), numeric, rtol=1e-6)

    # Each input has a share of its own.
    for i, name in enumerate(["x", "h0", "c0"][:1 + len(dstate)] + list(weights)):
        kept, directions = directions, [d if i == j else np.zeros_like(d) for j, d in enumerate(directions)]
        numeric = (loss(step) - loss(-step)) / (2 * step)
        part = [gradients.x, *dstate, *gradients.weights.values()][i]
        np.testing.assert_allclose(np.vdot(part, directions[i]), numeric, rtol=1e-6, atol=1e-7, err_msg=name)
        directions = kept


def test_gradients_that_are_not_asked_for_are_none():
    rng = np.random.default_rng(4)
    stack = Stack("lstm", random_weights(rng, "lstm", INPUT, HIDDEN), training=True)
    x, _ = inputs_of(rng, {}, np.float64)
    y, _ = stack(x)
    gradients = stack.backward(np.ones_like(y), x=False, state=False, weights=False)
    assert gradients == (None, None, None)
    y, _ = stack(x)
    gradients = stack.backward(np.ones_like(y), (None, None), weights=False)
    assert gradients.weights is None and gradients.x.shape == x.shape and gradients.state[1].shape == (1, ROWS, HIDDEN)


@pytest.mark.parametrize("batch_first", (False, True))
def test_a_single_row_needs_no_dimension(batch_first):
    rng = np.random.default_rng(5)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN, directions=2)
    x, (h0, c0) = inputs_of(rng, {"directions": 2}, np.float64)
    stack = Stack("lstm", weights, batch_first=batch_first, training=True)
    y, (hn, cn) = stack(x[:, 0], (h0[:, 0], c0[:, 0]))
    gradients = stack.backward(np.ones_like(y))
    expected = reference.stack("lstm", weights, x[:, :1], h0[:, :1], c0[:, :1])
    np.testing.assert_allclose(y, expected[0][:, 0], atol=1e-13)
    np.testing.assert_allclose(hn, expected[1][:, 0], atol=1e-13)
    np.testing.assert_allclose(cn, expected[2][:, 0], atol=1e-13)
    assert gradients.x.shape == (TIME, INPUT) and gradients.state[0].shape == (2, HIDDEN)


def test_layers_may_differ_in_width():
    rng = np.random.default_rng(6)
    first, second = random_weights(rng, "gru", INPUT, 8), random_weights(rng, "gru", 8, 5)
    weights = {**first, **{name.replace("l0", "l1"): value for name, value in second.items()}}
    x, _ = inputs_of(rng, {}, np.float64)
    states = [rng.standard_normal((1, ROWS, width)) for width in (8, 5)]
    stack = Stack("gru", weights, training=True)
    y, hn = stack(x, states)
    between, h1, _ = reference.stack("gru", first, x, states[0])
    expected, h2, _ = reference.stack("gru", second, between, states[1])
    np.testing.assert_allclose(y, expected, atol=1e-13)
    np.testing.assert_allclose(hn[0], h1, atol=1e-13)
    np.testing.assert_allclose(hn[1], h2, atol=1e-13)
    assert [part.shape for part in stack.backward(y).state] == [(1, ROWS, 8), (1, ROWS, 5)]


@pytest.mark.parametrize("weight_dtype", ("bfloat16", "float32"))
def test_bfloat16(weight_dtype):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(7)
    dtype = bfloat16 if weight_dtype == "bfloat16" else np.float32
    weights = {name: value.astype(bfloat16).astype(dtype) for name, value in random_weights(rng, "lstm", 32, 32).items()}
    x = rng.uniform(-1, 1, (TIME, ROWS, 32)).astype(bfloat16)
    stack = Stack("lstm", weights, dtype=bfloat16, training=True)
    y, (hn, cn) = stack(x)
    assert (y.dtype, hn.dtype, cn.dtype) == (bfloat16, bfloat16, np.float32)
    expected = reference.stack("lstm", weights, x.astype(np.float64))
    # h has 8 bits, so each of 7 steps adds half of 2^-8 of values up to 1, damped.
    np.testing.assert_allclose(y.astype(np.float64), expected[0], atol=0.02)
    gradients = stack.backward(np.ones_like(y), (None, np.ones_like(cn)))
    assert gradients.x.dtype == bfloat16 and gradients.weights["weight_ih_l0"].dtype == dtype


def test_dropout_follows_its_seed():
    rng = np.random.default_rng(8)
    stack = Stack("gru", random_weights(rng, "gru", INPUT, HIDDEN, layers=2), training=True, dropout=0.5)
    x, _ = inputs_of(rng, {}, np.float64)
    one, again, other = stack(x, seed=1)[0], stack(x, seed=1)[0], stack(x, seed=2)[0]
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.01


def test_dlpack_on_the_cpu():
    rng = np.random.default_rng(9)
    weights = random_weights(rng, "gru", INPUT, HIDDEN)
    x, _ = inputs_of(rng, {}, np.float64)

    class Foreign:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    y, _ = gru(Foreign(x), {name: Foreign(value) for name, value in weights.items()})
    np.testing.assert_array_equal(y, gru(x, weights)[0])


def test_arrays_may_have_any_strides():
    rng = np.random.default_rng(10)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN)
    x, (h0, c0) = inputs_of(rng, {}, np.float64)
    expected, _ = lstm(x, weights, (h0, c0))
    fortran = {name: np.asfortranarray(value) for name, value in weights.items()}
    y, _ = lstm(np.asfortranarray(x), fortran, (np.asfortranarray(h0), c0[:, ::-1][:, ::-1]))
    np.testing.assert_array_equal(y, expected)
    bytes = np.zeros(x.nbytes + 1, np.uint8)
    unaligned = bytes[1:].view(np.float64).reshape(x.shape)
    unaligned[...] = x
    np.testing.assert_array_equal(lstm(unaligned, weights, (h0, c0))[0], expected)
