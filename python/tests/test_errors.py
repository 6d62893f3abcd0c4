"""Each mistake raises an exception of the fitting type, with one sentence."""

import numpy as np
import pytest
from cases import random_weights

import sluice
from sluice import _native
from sluice.numpy import Stack, gru, lstm, rnn

TIME, ROWS, INPUT, HIDDEN = 4, 3, 5, 6
RNG = np.random.default_rng(0)
WEIGHTS = random_weights(RNG, "lstm", INPUT, HIDDEN)
X = RNG.standard_normal((TIME, ROWS, INPUT))
STATE = np.zeros((1, ROWS, HIDDEN))


def without(name):
    return {key: value for key, value in WEIGHTS.items() if key != name}


def changed(**weights):
    return {**WEIGHTS, **weights}


CASES = {
    "features": (ValueError, r"x has shape \(4, 3, 4\).* 5 features", lambda: lstm(X[..., :4], WEIGHTS)),
    "dimensions": (ValueError, "3 dimensions", lambda: lstm(X[None], WEIGHTS)),
    "no_time": (ValueError, "at least one time step", lambda: lstm(X[:0], WEIGHTS)),
    "no_rows": (ValueError, "at least one time step", lambda: lstm(X[:, :0], WEIGHTS)),
    "x_integer": (TypeError, "x is int64", lambda: lstm(X.astype(np.int64), WEIGHTS)),
    "x_float32": (TypeError, "x is float32; the stack computes float64", lambda: lstm(X.astype(np.float32), WEIGHTS)),
    "x_big_endian": (TypeError, "x is >f8", lambda: lstm(X.astype(">f8"), WEIGHTS)),
    "x_none": (TypeError, "x is of type NoneType", lambda: lstm(None, WEIGHTS)),
    "plans": (ValueError, "plans is 0; at least 1", lambda: Stack("lstm", WEIGHTS, plans=0)),
    "seed": (TypeError, "integer", lambda: Stack("lstm", WEIGHTS)(X, seed="")),
    "weights_float16": (TypeError, "weight_ih_l0 is float16; float16 runs on a GPU only",
                        lambda: lstm(X, {name: value.astype(np.float16) for name, value in WEIGHTS.items()})),
    "weights_mixed": (TypeError, "bias_ih_l0 is float32; here it must be float64",
                      lambda: lstm(X, changed(bias_ih_l0=WEIGHTS["bias_ih_l0"].astype(np.float32)))),
    "weights_dtype": (TypeError, "convert the weights", lambda: lstm(X, WEIGHTS, dtype="float32")),
    "dtype": (TypeError, "dtype is int32", lambda: lstm(X, WEIGHTS, dtype=np.int32)),
    "weights_missing": (ValueError, "no 'weight_hh_l0'", lambda: lstm(X, without("weight_hh_l0"))),
    "weights_prefixed": (ValueError, "'rnn.weight_ih_l0', which recurrent layers don't have",
                         lambda: lstm(X, {f"rnn.{name}": value for name, value in WEIGHTS.items()})),
    "weights_empty": (ValueError, "weights is empty", lambda: lstm(X, {})),
    "weights_shape": (ValueError, r"weight_ih_l0 has shape \(25, 6\), not \(24, 6\)",
                      lambda: lstm(X, changed(weight_ih_l0=np.zeros((25, 6))))),
    "weights_vector": (ValueError, "must have two dimensions", lambda: lstm(X, changed(weight_ih_l0=np.zeros(24)))),
    "weights_gates": (ValueError, "multiple of 4", lambda: lstm(X, changed(weight_hh_l0=np.zeros((23, 6))))),
    "weights_gap": (ValueError, "no 'weight_hh_l1'", lambda: lstm(X, changed(weight_hh_l2=np.zeros((24, 6))))),
    "weights_half": (ValueError, "no 'weight_ih_l0_reverse'",
                     lambda: lstm(X, changed(weight_hh_l0_reverse=np.zeros((24, 6))))),
    "bidirectional": (ValueError, "bidirectional is True", lambda: lstm(X, WEIGHTS, bidirectional=True)),
    "gru_projection": (ValueError, "only an LSTM has projections",
                       lambda: gru(X, {"weight_ih_l0": np.zeros((18, 5)), "weight_hh_l0": np.zeros((18, 2)),
                                       "weight_hr_l0": np.zeros((2, 6))})),
    "gru_peepholes": ((ValueError, NotImplementedError), "peepholes",
                      lambda: gru(X, {"weight_ih_l0": np.zeros((18, 5)), "weight_hh_l0": np.zeros((18, 6)),
                                      "weight_peephole_l0": np.zeros((3, 6))})),
    "cell": (ValueError, "cell is 'qrnn', not one of lstm", lambda: Stack("qrnn", WEIGHTS)),
    "nonlinearity": (ValueError, "'sigmoid', not 'tanh' or 'relu'", lambda: rnn(X, WEIGHTS, nonlinearity="sigmoid")),
    "state_shape": (ValueError, r"h0 has shape \(2, 3, 6\), not \(1, 3, 6\)",
                    lambda: lstm(X, WEIGHTS, (np.zeros((2, ROWS, HIDDEN)), STATE))),
    "state_dtype": (TypeError, "c0 is float32", lambda: lstm(X, WEIGHTS, (STATE, STATE.astype(np.float32)))),
    "state_single": (TypeError, "hx must be a pair", lambda: lstm(X, WEIGHTS, STATE)),
    "lengths_nan": (TypeError, "lengths is float64; it must be of integers",
                    lambda: lstm(X, WEIGHTS, lengths=[1, np.nan, 2])),
    "lengths_negative": (ValueError, "lengths has -1; with 4 time steps they are 0 to 4",
                         lambda: lstm(X, WEIGHTS, lengths=[1, -1, 2])),
    "lengths_long": (ValueError, "lengths has 5", lambda: lstm(X, WEIGHTS, lengths=[1, 5, 2])),
    "lengths_wrap": (ValueError, "lengths has 4294967297", lambda: lstm(X, WEIGHTS, lengths=[1, 2**32 + 1, 2])),
    "lengths_count": (ValueError, r"lengths has shape \(2,\), not \(3,\)", lambda: lstm(X, WEIGHTS, lengths=[1, 2])),
    "resets_shape": (ValueError, "resets has shape", lambda: lstm(X, WEIGHTS, resets=np.zeros((ROWS, TIME), bool))),
    "resets_float": (TypeError, "resets is float64", lambda: lstm(X, WEIGHTS, resets=np.zeros((TIME, ROWS)))),
    "implementation": (NotImplementedError, "no_such", lambda: lstm(X, WEIGHTS, implementation="no_such")),
    "declined": (NotImplementedError, "amx|avx", lambda: lstm(X, WEIGHTS, implementation="amx")),
    "dropout": (ValueError, "dropout", lambda: Stack("lstm", WEIGHTS, training=True, dropout=1.5).forward(X)),
    "backward_first": (RuntimeError, "once after each forward", lambda: Stack("lstm", WEIGHTS, training=True).backward(X)),
    "backward_inference": (RuntimeError, "training=True", lambda: Stack("lstm", WEIGHTS).backward(X)),
    "load_names": (ValueError, "has no 'bias_hh_l0'", lambda: Stack("lstm", WEIGHTS).load(without("bias_hh_l0"))),
    "device": (sluice.DeviceError, "cuda:99|CUDA|GPU|driver", lambda: _native.Device("cuda:99")),
    "device_name": ((ValueError, sluice.DeviceError), "tpu", lambda: _native.Device("tpu")),
    "memory": (MemoryError, "bytes", lambda: _native.Buffer(_native.Device("cpu"), 2**60)),
    "stream": (TypeError, "constructor", lambda: _native.Stream()),
    "wrap_half": (ValueError, "both allocate and release",
                  lambda: _native.Stream.wrap(_native.Device("cpu"), 0, allocate=lambda size: None)),
    "seed": (ValueError, "seed is -1", lambda: Stack("lstm", WEIGHTS)(X, seed=-1)),
    "seed_real": (TypeError, "integer", lambda: Stack("lstm", WEIGHTS)(X, seed=1.5)),
    "member": (AttributeError, "xs", lambda: _native.ForwardArgs(xs=1)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_raises(case):
    types, pattern, call = CASES[case]
    with pytest.raises(types, match=pattern) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 300, "not one sentence"


def test_backward_runs_once_and_checks_shapes():
    stack = Stack("lstm", WEIGHTS, training=True)
    y, _ = stack(X)
    with pytest.raises(ValueError, match=r"dy has shape \(4, 3, 5\), not \(4, 3, 6\)"):
        stack.backward(y[..., :5].copy())
    stack.backward(y)
    with pytest.raises(RuntimeError):
        stack.backward(y)


def test_a_stack_works_after_an_error():
    stack = Stack("lstm", WEIGHTS)
    expected = stack(X)[0]
    with pytest.raises(ValueError):
        stack(X[..., :3])
    np.testing.assert_array_equal(stack(X)[0], expected)


def test_exceptions_are_runtime_errors():
    assert issubclass(sluice.Error, RuntimeError)
    assert issubclass(sluice.DeviceError, sluice.Error)
    assert issubclass(sluice.DeviceLost, sluice.DeviceError)


def test_a_cpu_has_no_stream_to_wrap():
    with pytest.raises((ValueError, NotImplementedError)):
        _native.Stream.wrap(_native.Device("cpu"), 0)


def native_plan(**options):
    stream = _native.Stream.create(_native.Device("cpu"))
    return _native.Plan(stream, "lstm", **{"input": 4, "hidden": [8], "time": 3, "rows": 2, **options})


@pytest.mark.parametrize("options, pattern", [({"hidden": []}, "layers is 0"), ({"directions": 3}, "directions"),
                                              ({"dtype": "int8"}, "dtype is 'int8', not one of float64"),
                                              ({"projection": [2, 3]}, "projection must have as many"),
                                              ({"time": 0}, "time"), ({"hidden": [-1]}, "-1")])
def test_plans_check_their_options(options, pattern):
    with pytest.raises(ValueError, match=pattern):
        native_plan(**options)


def test_plans_check_pointers():
    plan = native_plan()
    with pytest.raises(ValueError, match="packed is NULL"):
        plan.pack([_native.Weights(weight_ih=64, weight_hh=64)], _native.Memory())
    with pytest.raises(ValueError, match="weights has 2 items, not 1"):
        plan.pack([_native.Weights()] * 2, _native.Memory())
    memory = _native.Memory(packed=64, workspace=64)
    with pytest.raises(ValueError, match="9 time steps"):
        plan.forward(_native.ForwardArgs(time=9, rows=2), memory)
