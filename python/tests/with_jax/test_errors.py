"""Each mistake raises an exception of the fitting type, with one sentence, when the call is traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import random_weights

import sluice
from sluice.jax import gru, init, lstm, rnn

TIME, ROWS, INPUT, HIDDEN = 4, 3, 5, 6
RNG = np.random.default_rng(0)
WEIGHTS = random_weights(RNG, "lstm", INPUT, HIDDEN)
X = RNG.standard_normal((TIME, ROWS, INPUT))
STATE = np.zeros((1, ROWS, HIDDEN))


def without(name):
    return {key: value for key, value in WEIGHTS.items() if key != name}


def changed(**weights):
    return {**WEIGHTS, **weights}


def as_dtype(dtype):
    return {name: jnp.asarray(value, dtype) for name, value in WEIGHTS.items()}


def symbolic(shape):
    return jax.ShapeDtypeStruct(jax.export.symbolic_shape(shape), jnp.float64)


CASES = {
    "features": (ValueError, r"x has shape \(4, 3, 4\).* 5 features", lambda: lstm(X[..., :4], WEIGHTS)),
    "dimensions": (ValueError, "3 dimensions", lambda: lstm(X[None], WEIGHTS)),
    "one_dimension": (ValueError, "3 dimensions", lambda: lstm(X[0, 0], WEIGHTS)),
    "no_time": (ValueError, "at least one time step", lambda: lstm(X[:0], WEIGHTS)),
    "no_rows": (ValueError, "at least one time step", lambda: lstm(X[:, :0], WEIGHTS)),
    "x_integer": (TypeError, "x is int64; the stack computes float64", lambda: lstm(X.astype(np.int64), WEIGHTS)),
    "x_float32": (TypeError, "x is float32; the stack computes float64", lambda: lstm(X.astype(np.float32), WEIGHTS)),
    "x_none": (TypeError, "x is of type NoneType", lambda: lstm(None, WEIGHTS)),
    "x_text": (TypeError, "x is of type str", lambda: lstm("x", WEIGHTS)),
    "x_ragged": (TypeError, "x is no array", lambda: lstm([[1.0], [1.0, 2.0]], WEIGHTS)),
    "weights_list": (TypeError, "weights is of type list; it must be a dict", lambda: lstm(X, list(WEIGHTS.values()))),
    "weights_complex": (TypeError, "weight_ih_l0 is complex128; it must be one of", lambda: lstm(X, as_dtype("complex128"))),
    "weights_mixed": (TypeError, "bias_ih_l0 is float32; here it must be float64",
                      lambda: lstm(X, changed(bias_ih_l0=WEIGHTS["bias_ih_l0"].astype(np.float32)))),
    "weights_dtype": (TypeError, "convert the weights", lambda: lstm(X, WEIGHTS, dtype="float32")),
    "weights_none": (TypeError, "bias_ih_l0 is of type NoneType", lambda: lstm(X, changed(bias_ih_l0=None))),
    "dtype": (TypeError, "dtype is int32; it must be one of", lambda: lstm(X, WEIGHTS, dtype=np.int32)),
    "dtype_name": (TypeError, "dtype is 'float31'; it must be one of", lambda: lstm(X, WEIGHTS, dtype="float31")),
    "weights_missing": (ValueError, "no 'weight_hh_l0'", lambda: lstm(X, without("weight_hh_l0"))),
    "weights_prefixed": (ValueError, "'rnn.weight_ih_l0', which recurrent layers don't have",
                         lambda: lstm(X, {f"rnn.{name}": value for name, value in WEIGHTS.items()})),
    "weights_empty": (ValueError, "weights is empty", lambda: lstm(X, {})),
    "weights_shape": (ValueError, r"weight_ih_l0 has shape \(25, 6\), not \(24, 6\)",
                      lambda: lstm(X, changed(weight_ih_l0=np.zeros((25, 6))))),
    "weights_vector": (ValueError, "must have two dimensions", lambda: lstm(X, changed(weight_ih_l0=np.zeros(24)))),
    "weights_gates": (ValueError, "multiple of 4", lambda: lstm(X, changed(weight_hh_l0=np.zeros((23, 6))))),
    "weights_gap": (ValueError, "no 'weight_hh_l1'", lambda: lstm(X, changed(weight_hh_l2=np.zeros((24, 6))))),
    "weights_half": (ValueError, "no 'weight_ih_l0_reverse'", lambda: lstm(X, changed(weight_hh_l0_reverse=np.zeros((24, 6))))),
    "bidirectional": (ValueError, "bidirectional is True", lambda: lstm(X, WEIGHTS, bidirectional=True)),
    "gru_projection": (ValueError, "only an LSTM has projections",
                       lambda: gru(X, {"weight_ih_l0": np.zeros((18, 5)), "weight_hh_l0": np.zeros((18, 2)),
                                       "weight_hr_l0": np.zeros((2, 6))})),
    "gru_peepholes": ((ValueError, NotImplementedError), "peepholes",
                      lambda: gru(X, {"weight_ih_l0": np.zeros((18, 5)), "weight_hh_l0": np.zeros((18, 6)),
                                      "weight_peephole_l0": np.zeros((3, 6))})),
    "nonlinearity": (ValueError, "'sigmoid', not 'tanh' or 'relu'", lambda: rnn(X, WEIGHTS, nonlinearity="sigmoid")),
    "state_shape": (ValueError, r"h0 has shape \(2, 3, 6\), not \(1, 3, 6\)",
                    lambda: lstm(X, WEIGHTS, (np.zeros((2, ROWS, HIDDEN)), STATE))),
    "state_rank": (ValueError, r"h0 has shape \(3, 6\), not \(1, 3, 6\)", lambda: lstm(X, WEIGHTS, (STATE[0], STATE))),
    "state_dtype": (TypeError, "c0 is float32; here it must be float64",
                    lambda: lstm(X, WEIGHTS, (STATE, STATE.astype(np.float32)))),
    "state_of_c": (TypeError, "c0 is bfloat16; here it must be float32",
                   lambda: lstm(jnp.asarray(X, "bfloat16"), as_dtype("bfloat16"), (None, jnp.asarray(STATE, "bfloat16")))),
    "state_single": (TypeError, "hx must be a pair", lambda: lstm(X, WEIGHTS, STATE)),
    "lengths_real": (TypeError, "lengths is float64; it must be of integers", lambda: lstm(X, WEIGHTS, lengths=[1, np.nan, 2])),
    "lengths_negative": (ValueError, "lengths has -1; with 4 time steps they are 0 to 4",
                         lambda: lstm(X, WEIGHTS, lengths=[1, -1, 2])),
    "lengths_long": (ValueError, "lengths has 5", lambda: lstm(X, WEIGHTS, lengths=np.array([1, 5, 2]))),
    "lengths_wrap": (ValueError, "lengths has 4294967297", lambda: lstm(X, WEIGHTS, lengths=[1, 2**32 + 1, 2])),
    "lengths_count": (ValueError, r"lengths has shape \(2,\), not \(3,\)", lambda: lstm(X, WEIGHTS, lengths=[1, 2])),
    "lengths_rank": (ValueError, r"lengths has shape \(3, 1\)", lambda: lstm(X, WEIGHTS, lengths=jnp.ones((3, 1), int))),
    "resets_shape": (ValueError, "resets has shape", lambda: lstm(X, WEIGHTS, resets=np.zeros((ROWS, TIME), bool))),
    "resets_real": (TypeError, "resets is float64", lambda: lstm(X, WEIGHTS, resets=np.zeros((TIME, ROWS)))),
    "lengths_traced": (TypeError, "lengths is a list with values that JAX traces; make one array of them by jnp.stack",
                       lambda: jax.jit(lambda n: lstm(X, WEIGHTS, lengths=[n, 1, 2]))(3)),
    "symbolic_x": (NotImplementedError, r"x has the shape \(4, rows, 5\); export a function with numbers",
                   lambda: jax.export.export(jax.jit(lambda x: lstm(x, WEIGHTS)))(symbolic("4, rows, 5"))),
    "symbolic_weights": (NotImplementedError, r"weight_ih_l0 has the shape \(24, width\); export a function with numbers",
                         lambda: jax.export.export(jax.jit(lambda w: lstm(X, changed(weight_ih_l0=w))))(symbolic("24, width"))),
    "implementation_none": (TypeError, "implementation is of type NoneType; it must be a name",
                            lambda: lstm(X, WEIGHTS, implementation=None)),
    "implementation": (NotImplementedError, "no_such", lambda: lstm(X, WEIGHTS, implementation="no_such")),
    "declined": (NotImplementedError, "amx|avx", lambda: lstm(X, WEIGHTS, implementation="amx")),  # no float64 there
    "dropout": (ValueError, "dropout is 1.5; a rate is", lambda: lstm(X, WEIGHTS, dropout=1.5)),
    "dropout_none": (TypeError, "dropout is of type NoneType; it must be a number", lambda: lstm(X, WEIGHTS, dropout=None)),
    "dropout_traced": (TypeError, "dropout is of type .*Tracer; it must be a number that is known before tracing",
                       lambda: jax.jit(lambda rate: lstm(X, WEIGHTS, dropout=rate))(0.5)),
    "dropout_text": (TypeError, "dropout is of type str", lambda: lstm(X, WEIGHTS, dropout="0.5")),
    "zoneout": (ValueError, "zoneout_h is -1; a rate is", lambda: lstm(X, WEIGHTS, zoneout_h=-1)),
    "init_cell": (ValueError, "cell is 'qrnn', not one of lstm", lambda: init(jax.random.key(0), "qrnn", 1, 1)),
    "init_width": (ValueError, "hidden is 0; it must be", lambda: init(jax.random.key(0), "lstm", 1, 0)),
    "init_gru": (ValueError, "only an LSTM has", lambda: init(jax.random.key(0), "gru", 1, 1, projection=1)),
}


@pytest.mark.parametrize("traced", (False, True), ids=("called", "traced"))
@pytest.mark.parametrize("case", CASES)
def test_a_mistake_raises(case, traced):
    types, pattern, call = CASES[case]
    with pytest.raises(types, match=pattern) as caught:
        jax.make_jaxpr(call)() if traced else call()
    text = str(caught.value)
    assert "\n" not in text and len(text) < 300, "not one sentence"


def test_lengths_that_jax_has_are_limited():
    lengths = jnp.asarray([-3, 99, 2])
    y, _ = jax.jit(lambda n: lstm(X, WEIGHTS, lengths=n))(lengths)
    np.testing.assert_array_equal(y, lstm(X, WEIGHTS, lengths=[0, TIME, 2])[0])


@pytest.mark.parametrize("dtype", ("int8", "uint8", "int16", "uint32", "int64"))
def test_lengths_of_every_integer_dtype(dtype):
    time = 300  # more than int8 and uint8 hold
    x = RNG.standard_normal((time, ROWS, INPUT))
    y, _ = lstm(x, WEIGHTS, lengths=jnp.asarray([100, 120, 3], dtype))
    np.testing.assert_array_equal(y, lstm(x, WEIGHTS, lengths=[100, 120, 3])[0])


@pytest.mark.skipif(any(device.platform == "gpu" for device in jax.devices()), reason="a GPU has float16")
def test_float16_is_a_gpus():
    with pytest.raises(NotImplementedError, match="float16"):
        lstm(jnp.asarray(X, "float16"), as_dtype("float16"))


def run_pack(change):
    """Packs the weights of a GRU by a call that `change` has changed."""
    from sluice.jax import _calls, _config

    config = _config.Config("gru", 2, (3,), (), 1, (("weight_ih", "weight_hh"),), False, False, "float32", "float32", False,
                            False, 0.0, 0.0, 0.0, 0.0, "auto")
    weights = [jnp.zeros((9, 2), jnp.float32), jnp.zeros((9, 3), jnp.float32)]

    def pack():
        calls = _calls.Calls(config, (4, 1, 2), False, ())
        change(calls)
        return calls.pack(weights)

    jax.block_until_ready(jax.jit(pack)())


def test_a_call_traced_for_another_device_is_refused():
    from sluice.jax import _calls

    message = "Sluice: the call was traced for another device: it has 8 bytes for the packed weights, and this device needs"
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        run_pack(lambda calls: setattr(calls, "packed", _calls.bytes_of(8)))


def test_a_call_of_another_version_is_refused():
    message = f"Sluice: the call was traced with Sluice 0.0.1, and this is Sluice {sluice.__version__}; trace it again"
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        run_pack(lambda calls: calls._attributes.update(version="0.0.1"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="the attributes of the call are not those of this build"):
        run_pack(lambda calls: calls._attributes.update(numbers=calls._attributes["numbers"][:-1]))
    # The version is part of what JAX's compilation cache looks for.
    text = jax.jit(lambda x: lstm(x, WEIGHTS)[0]).lower(jnp.asarray(X)).as_text()
    assert f'version = "{sluice.__version__}"' in text


def test_importing_sluice_imports_no_jax():
    import subprocess
    import sys
    code = "import sluice, sluice.numpy, sys; assert 'jax' not in sys.modules; import sluice.jax; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert sluice.__version__
