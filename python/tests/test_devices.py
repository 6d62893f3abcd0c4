"""Layers on DeviceArrays, on each device, against the reference and the CPU."""

import gc
import threading

import numpy as np
import pytest
import reference
from cases import random_states, random_weights
from devices import back, on
from resident import resident_bytes

from sluice.numpy import DeviceArray, Stack, gru, lstm, rnn

TIME, ROWS, INPUT, HIDDEN = 7, 5, 6, 9
CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")
SHAPES = [(cell, shape) for cell in CELLS for shape in ({}, {"layers": 2, "directions": 2})]
SHAPES += [("lstm", {"projection": 4, "layers": 2}), ("lstm", {"peepholes": True}), ("lstm", {"layer_norm": True})]

# h is rounded to the bits of its dtype in each of 7 steps, of 2 layers; values are up to 1, more in rnn_relu.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 0.03, "float16": 0.004}


def name_of(value):
    return "_".join(f"{key}{number}" for key, number in value.items()) or "plain" if isinstance(value, dict) else None


def dtype_on(device, name):
    if device == "cpu" and name == "float16":
        pytest.skip("float16 is for GPUs")
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name)


def run(device, dtype, call):
    """call(), which float64 may skip on a GPU: it is for gradient checks, and not all kernels have it."""
    try:
        return call()
    except NotImplementedError as error:
        if device == "cpu" or dtype != "float64":
            raise
        pytest.skip(f"no float64 here: {error}")


class Case:
    """Random arguments of a stack: on the host, whose numbers the dtype has, and there."""

    def __init__(self, device, cell, dtype, seed, **shape):
        rng = np.random.default_rng(seed)
        self.cell, self.device = cell, device
        self.directions = shape.get("directions", 1)
        self.weights = self._rounded(random_weights(rng, cell, INPUT, HIDDEN, **shape), dtype)
        self.x = rng.uniform(-1, 1, (TIME, ROWS, INPUT)).astype(dtype)
        h0, c0 = random_states(rng, shape.get("layers", 1), self.directions, ROWS, HIDDEN, shape.get("projection", HIDDEN))
        self.h0, self.c0 = h0.astype(dtype), c0.astype(np.float64 if dtype == np.float64 else np.float32)
        self.lengths = rng.integers(0, TIME + 1, ROWS).astype(np.int32)
        self.lengths[1], self.lengths[2] = 0, TIME
        self.resets = (rng.random((TIME, ROWS)) < 0.25).astype(np.int32)
        self.rng = rng

    @staticmethod
    def _rounded(weights, dtype):
        return {name: value.astype(dtype) for name, value in weights.items()}

    def state(self, place=lambda array: array):
        return (place(self.h0), place(self.c0)) if self.cell == "lstm" else place(self.h0)

    def there(self, array):
        return on(self.device, array)

    def expected(self, states, **options):
        given = (self.h0.astype(np.float64), self.c0.astype(np.float64)) if states else (None, None)
        return reference.stack(self.cell, self.weights, self.x.astype(np.float64), *given, **options)


def results(cell, got):
    """y, hn and cn, if there is one."""
    y, state = got
    return (y, *state) if cell == "lstm" else (y, state)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("cell, shape", SHAPES, ids=name_of)
def test_agrees_with_the_reference(device, cell, shape, dtype):
    if "layer_norm" in shape and "16" in dtype:
        pytest.skip("layer norm divides by deviations that are as small as what 16 bits round off")
    case = Case(device, cell, dtype_on(device, dtype), seed=len(cell) + len(shape), **shape)
    stack = run(device, dtype, lambda: Stack(cell, case.there(case.weights)))
    for options in ((), ("lengths",), ("resets",), ("lengths", "resets")):
        chosen = {name: getattr(case, name) for name in options}
        for states in (False, True):
            expected = case.expected(states, **chosen)
            for place in (case.there, lambda array: array):  # where lengths and resets are
                got = run(device, dtype, lambda: stack(case.there(case.x), case.state(case.there) if states else None,
                                                       **{name: place(array) for name, array in chosen.items()}))
                for name, actual, right in zip(("y", "hn", "cn"), results(cell, got), expected):
                    assert isinstance(actual, DeviceArray) and actual.device == device
                    assert actual.dtype == (case.c0.dtype if name == "cn" else case.x.dtype)
                    np.testing.assert_allclose(back(actual), right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype],
                                               err_msg=f"{name} with {options}, states {states}")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("cell, shape", SHAPES, ids=name_of)
def test_gradients_agree_with_the_cpu(device, cell, shape, dtype):
    if "layer_norm" in shape and "16" in dtype:
        pytest.skip("layer norm divides by deviations that are as small as what 16 bits round off")
    case = Case(device, cell, dtype_on(device, dtype), seed=11, **shape)
    options = {"lengths": case.lengths, "resets": case.resets}
    exact = Stack(cell, {name: value.astype(np.float64) for name, value in case.weights.items()}, training=True)
    stack = run(device, dtype, lambda: Stack(cell, case.there(case.weights), training=True))

    def double(array):
        return array.astype(np.float64)

    right = results(cell, exact(double(case.x), case.state(double), **options))
    # Their numbers are those of the host and of the device: rounded.
    slopes = [case.rng.standard_normal(array.shape).astype(case.x.dtype if i < 2 else case.c0.dtype)
              for i, array in enumerate(right)]

    def gradients(stack, place):
        return stack.backward(place(slopes[0]), tuple(map(place, slopes[1:])) if cell == "lstm" else place(slopes[1]))

    expected = gradients(exact, double)
    run(device, dtype, lambda: stack(case.there(case.x), case.state(case.there), **options))
    got = run(device, dtype, lambda: gradients(stack, case.there))
    pairs = [("x", got.x, expected.x)] + [(name, got.weights[name], expected.weights[name]) for name in case.weights]
    states = zip(got.state, expected.state) if cell == "lstm" else [(got.state, expected.state)]
    pairs += [(f"state {i}", *pair) for i, pair in enumerate(states)]
    for name, actual, expectation in pairs:
        assert isinstance(actual, DeviceArray)
        # Sums of up to 35 products, of values that are as wrong as those of the forward.
        np.testing.assert_allclose(back(actual), expectation, rtol=0, err_msg=name,
                                   atol=5 * TOLERANCE[dtype] * max(1, np.abs(expectation).max()))


def test_device_arrays_of_the_cpu_give_numpys_results():
    case = Case("cpu", "lstm", np.dtype(np.float32), seed=3, layers=2, directions=2)
    on_host, there = (Stack("lstm", weights, training=True) for weights in (case.weights, case.there(case.weights)))
    expected = results("lstm", on_host(case.x, case.state(), lengths=case.lengths))
    got = results("lstm", there(case.there(case.x), case.state(case.there), lengths=case.lengths))
    for actual, right in zip(got, expected):
        np.testing.assert_array_equal(actual.numpy(), right)
    right, actual = on_host.backward(expected[0]), there.backward(got[0])
    np.testing.assert_array_equal(actual.x.numpy(), right.x)
    for name in case.weights:
        np.testing.assert_array_equal(actual.weights[name].numpy(), right.weights[name])
    # DeviceArrays of the CPU are arrays as others are, where the weights are NumPy's.
    np.testing.assert_array_equal(on_host(case.there(case.x), case.state(case.there), lengths=case.lengths)[0], expected[0])


@pytest.mark.parametrize("weight_dtype", ("float32", "same"))
@pytest.mark.parametrize("dtype", ("bfloat16", "float16"))
def test_16_bits_take_weights_of_32(device, dtype, weight_dtype):
    case = Case(device, "lstm", dtype_on(device, dtype), seed=4)
    weights = case.weights if weight_dtype == "same" else {
        name: value.astype(np.float32) for name, value in case.weights.items()}
    stack = Stack("lstm", case.there(weights), dtype=dtype, training=True)
    y, (hn, cn) = stack(case.there(case.x))
    assert (y.dtype, hn.dtype, cn.dtype) == (case.x.dtype, case.x.dtype, np.float32)
    np.testing.assert_allclose(back(y), case.expected(False)[0], atol=TOLERANCE[dtype])
    gradient = stack.backward(y).weights["weight_ih_l0"]
    assert gradient.dtype == weights["weight_ih_l0"].dtype


def test_functions(device):
    case = Case(device, "lstm", np.dtype(np.float32), seed=5)
    for function, cell, options in ((lstm, "lstm", {}), (gru, "gru", {}), (gru, "gru_reset_before", {"reset_after": False}),
                                    (rnn, "rnn_tanh", {}), (rnn, "rnn_relu", {"nonlinearity": "relu"})):
        for seed in (6, 7):  # other weights in the same, kept, stack
            case = Case(device, cell, np.dtype(np.float32), seed)
            got = function(case.there(case.x), case.there(case.weights), case.state(case.there), lengths=case.lengths,
                           **options)
            for actual, right in zip(results(cell, got), case.expected(True, lengths=case.lengths)):
                np.testing.assert_allclose(actual.numpy(), right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("where", ("host", "device"))
@pytest.mark.parametrize("cell", ("lstm", "gru"))
def test_batch_first_is_transposed(device, cell, where):
    case = Case(device, cell, np.dtype(np.float32), seed=8, layers=2, directions=2)
    place = case.there if where == "device" else lambda array: array
    stacks = [Stack(cell, case.there(case.weights), training=True, batch_first=batch_first) for batch_first in (False, True)]
    dy = case.rng.standard_normal((TIME, ROWS, 2 * HIDDEN)).astype(np.float32)
    found = []
    for stack, turn in zip(stacks, (lambda array: array, lambda array: array.swapaxes(0, 1))):
        y, state = stack(case.there(turn(case.x)), case.state(case.there), lengths=place(case.lengths),
                         resets=place(turn(case.resets)))
        gradients = stack.backward(case.there(turn(dy)))
        found.append([turn(y.numpy()), turn(gradients.x.numpy()), *back(gradients.weights).values()])
    for time_major, row_major in zip(*found):
        np.testing.assert_allclose(row_major, time_major, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("batch_first", (False, True))
def test_a_single_row_needs_no_dimension(device, batch_first):
    case = Case(device, "lstm", np.dtype(np.float32), seed=9, directions=2)
    stack = Stack("lstm", case.there(case.weights), batch_first=batch_first, training=True)
    x, h0, c0 = (case.there(array[:, 0]) for array in (case.x, case.h0, case.c0))
    y, (hn, cn) = stack(x, (h0, c0))
    expected = reference.stack("lstm", case.weights, *(array[:, :1].astype(np.float64) for array in (case.x, case.h0, case.c0)))
    for actual, right in zip((y, hn, cn), expected):
        np.testing.assert_allclose(actual.numpy(), right[:, 0], rtol=2e-5, atol=2e-5)
    gradients = stack.backward(y)
    assert gradients.x.shape == (TIME, INPUT) and gradients.state[0].shape == (2, HIDDEN)


def test_layers_may_differ_in_width(device):
    rng = np.random.default_rng(10)
    first, second = random_weights(rng, "gru", INPUT, 8), random_weights(rng, "gru", 8, 5)
    weights = {**first, **{name.replace("l0", "l1"): value for name, value in second.items()}}
    weights = {name: value.astype(np.float32) for name, value in weights.items()}
    x = rng.uniform(-1, 1, (TIME, ROWS, INPUT)).astype(np.float32)
    stack = Stack("gru", on(device, weights), training=True)
    exact = Stack("gru", {name: value.astype(np.float64) for name, value in weights.items()}, training=True)
    states = [rng.standard_normal((1, ROWS, width)).astype(np.float32) for width in (8, 5)]
    given, right = on(device, states), [state.astype(np.float64) for state in states]
    for _ in range(3):  # the states of the first run, and those of each run in the next
        y, given = stack(on(device, x), given)
        expected, right = exact(x.astype(np.float64), right)
        np.testing.assert_allclose(y.numpy(), expected, rtol=2e-5, atol=2e-5)
        for part, expectation in zip(given, right):
            np.testing.assert_allclose(part.numpy(), expectation, rtol=2e-5, atol=2e-5)
    assert [part.shape for part in stack.backward(y).state] == [(1, ROWS, 8), (1, ROWS, 5)]


def test_dropout_follows_its_seed(device):
    case = Case(device, "gru", np.dtype(np.float32), seed=12, layers=2)
    stack = Stack("gru", case.there(case.weights), training=True, dropout=0.5)
    one, again, other = (stack(case.there(case.x), seed=seed)[0].numpy() for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.01


def test_loaded_weights_count_from_the_next_call_on(device):
    first, second = (Case(device, "lstm", np.dtype(np.float32), seed) for seed in (13, 14))
    stack = Stack("lstm", first.there(first.weights))
    one = stack(first.there(first.x))[0].numpy()
    stack.load(second.there(second.weights))
    other = stack(first.there(first.x))[0].numpy()
    np.testing.assert_array_equal(other, lstm(first.there(first.x), second.there(second.weights))[0].numpy())
    stack.load(first.there(first.weights))
    np.testing.assert_array_equal(stack(first.there(first.x))[0].numpy(), one)


def test_results_stay_when_others_come(device):
    """Memory of arrays that went is used again, but no other."""
    case = Case(device, "lstm", np.dtype(np.float32), seed=15)
    stack = Stack("lstm", case.there(case.weights))
    x = case.there(case.x)
    y, (hn, cn) = stack(x)
    kept = back([y, hn, cn])
    part = stack(x)[0][3:5]
    for _ in range(40):
        stack(case.there(case.rng.standard_normal(case.x.shape).astype(np.float32)), (hn, cn))
    gc.collect()
    for array, right in zip((y, hn, cn), kept):
        np.testing.assert_array_equal(array.numpy(), right)
    np.testing.assert_array_equal(part.numpy(), kept[0][3:5])


def test_two_threads_at_once_are_right(device):
    case = Case(device, "lstm", np.dtype(np.float32), seed=16, layers=2)
    x, failures = case.there(case.x), []
    shared = Stack("lstm", case.there(case.weights))
    expected = shared(x)[0].numpy()

    def repeat(stack):
        try:
            for _ in range(50):
                np.testing.assert_array_equal(stack(x)[0].numpy(), expected)
        except BaseException as error:
            failures.append(error)

    own = Stack("lstm", case.there(case.weights))
    threads = [threading.Thread(target=repeat, args=(stack,)) for stack in (shared, shared, own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_nothing_leaks(device):
    case = Case(device, "lstm", np.dtype(np.float32), seed=22)
    stack, x = Stack("lstm", case.there(case.weights), training=True), case.there(case.x)

    def rounds(count):
        state = None
        for _ in range(count):
            y, state = stack(x, state, lengths=case.lengths)
            stack.backward(y, state)
            y.__dlpack__()
        gc.collect()

    rounds(300)
    before = resident_bytes()
    rounds(2000)
    # CUDA takes memory of the host now and then.
    assert resident_bytes() - before < (2 << 20 if device == "cpu" else 16 << 20)


# --- mistakes -----------------------------------------------------------------------------------------------------------


class Interface:
    """A part of a DeviceArray of a GPU, by __cuda_array_interface__ alone."""

    def __init__(self, array, **changed):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **changed}


def test_the_cuda_interface_is_read_on_a_gpu(gpu):
    case = Case(gpu, "gru", np.dtype(np.float32), seed=17)
    weights = {name: Interface(value) for name, value in case.there(case.weights).items()}
    expected = gru(case.there(case.x), case.there(case.weights))[0].numpy()
    x = case.there(case.x)
    for given in (Interface(x), Interface(x, stream=1), Interface(x, strides=(ROWS * INPUT * 4, INPUT * 4, 4))):
        np.testing.assert_array_equal(gru(given, weights)[0].numpy(), expected)
    with pytest.raises(ValueError, match="x is not contiguous; arrays on a GPU must be"):
        gru(Interface(x, strides=(4, 4 * TIME, 4 * TIME * ROWS)), weights)
    with pytest.raises(TypeError, match="x has a mask"):
        gru(Interface(x, mask=Interface(x)), weights)
    with pytest.raises(TypeError, match="x is int32"):
        gru(Interface(x, typestr="<i4"), weights)


MISTAKES = {
    "features": (ValueError, "5 features|6 features", lambda c, s: s(c.there(c.x[..., :4]))),
    "x_dtype": (TypeError, "x is float64; the stack computes float32", lambda c, s: s(c.there(c.x.astype(np.float64)))),
    "no_time": (ValueError, "at least one time step", lambda c, s: s(c.there(c.x[:0]))),
    "state_shape": (ValueError, "h0 has shape", lambda c, s: s(c.there(c.x), (c.there(c.h0[:, :2]), None))),
    "state_dtype": (TypeError, "c0 is float64", lambda c, s: s(c.there(c.x), (None, c.there(c.c0.astype(np.float64))))),
    "lengths_int64": (TypeError, "lengths is int64; here it must be int32",
                      lambda c, s: s(c.there(c.x), lengths=c.there(c.lengths.astype(np.int64)))),
    "lengths_shape": (ValueError, "lengths has shape", lambda c, s: s(c.there(c.x), lengths=c.there(c.lengths[:2]))),
    "lengths_on_the_host": (ValueError, "lengths has 8", lambda c, s: s(c.there(c.x), lengths=[1, 2, 8, 1, 1])),
    "resets_bool": (TypeError, "resets is bool", lambda c, s: s(c.there(c.x), resets=c.there(c.resets.astype(bool)))),
    "dy": (ValueError, "dy has shape", lambda c, s: (s(c.there(c.x)), s.backward(c.there(c.x)))),
    "load": (TypeError, "is float64", lambda c, s: s.load(c.there({k: v.astype(np.float64) for k, v in c.weights.items()}))),
    "misaligned": (ValueError, "x begins at an address that is no multiple of 16 bytes",
                   lambda c, s: s(c.there(np.zeros(c.x.size + 1, np.float32))[1:].reshape(c.x.shape))),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_raises(device, mistake):
    error, pattern, call = MISTAKES[mistake]
    case = Case(device, "lstm", np.dtype(np.float32), seed=18)
    stack = Stack("lstm", case.there(case.weights), training=True)
    with pytest.raises(error, match=pattern) as caught:
        call(case, stack)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 300, "not one sentence"
    np.testing.assert_allclose(stack(case.there(case.x))[0].numpy(), case.expected(False)[0], rtol=2e-5, atol=2e-5)


def test_arrays_must_be_contiguous():
    """As on a GPU: another framework's array, which is not copied."""
    case = Case("cpu", "lstm", np.dtype(np.float32), seed=19)
    stack = Stack("lstm", case.there(case.weights))
    np.testing.assert_allclose(stack(case.x)[0].numpy(), case.expected(False)[0], atol=1e-5)
    with pytest.raises(ValueError, match="x is not contiguous; arrays on a GPU must be"):
        stack(np.asfortranarray(case.x))
    with pytest.raises(ValueError, match=r"h0 is not contiguous"):
        stack(case.x, (np.repeat(case.h0, 2, axis=1)[:, ::2], None))


def test_weights_of_an_unknown_dtype(device):
    case = Case(device, "lstm", np.dtype(np.float32), seed=20)
    weights = {name: value.astype(np.int16) for name, value in case.weights.items()}
    known = "float32, float64, bfloat16" + (", float16" if device != "cpu" else "")
    with pytest.raises(TypeError, match=f"weight_ih_l0 is int16; it must be one of {known}$"):
        Stack("lstm", case.there(weights))


def test_streams_must_be_streams(gpu):
    case = Case(gpu, "lstm", np.dtype(np.float32), seed=21)
    with pytest.raises(ValueError, match="stream is -1"):
        Stack("lstm", case.there(case.weights), stream=-1)
    with pytest.raises(TypeError):
        Stack("lstm", case.there(case.weights), stream="0")
    for stream in (0, 1, 2):  # CUDA's default stream, twice, and a thread's
        y, _ = Stack("lstm", case.there(case.weights), stream=stream)(case.there(case.x))
        np.testing.assert_allclose(y.numpy(), case.expected(False)[0], atol=2e-5)
        assert y.__cuda_array_interface__["stream"] == max(stream, 1)
