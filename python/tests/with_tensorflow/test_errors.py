"""Bad input: one sentence that says what is wrong."""

import os
import subprocess
import sys

import numpy as np
import pytest
import sluice.tensorflow
import tensorflow as tf
from cases import random_weights
from sluice.tensorflow import _library

TIME, ROWS, INPUT, HIDDEN = 6, 3, 5, 7
X = np.random.default_rng(0).uniform(-1, 1, (TIME, ROWS, INPUT))
WEIGHTS = random_weights(np.random.default_rng(1), "lstm", INPUT, HIDDEN)
STATE = np.zeros((1, ROWS, HIDDEN))


def changed(**weights):
    return {name: value for name, value in {**WEIGHTS, **weights}.items() if value is not None}


CASES = {
    "features of x": (dict(x=X[..., :4]), ValueError, "x has shape .* the last of 5 features"),
    "rank of x": (dict(x=X[0, 0]), ValueError, "x has shape .* must have 3 dimensions"),
    "no steps": (dict(x=X[:0]), ValueError, "at least one time step"),
    "dtype of x": (dict(x=X.astype(np.float32)), TypeError, "x is float32; here it must be float64"),
    "dtype of weights": (dict(x=X.astype(np.float16), weights={k: v.astype(np.float16) for k, v in WEIGHTS.items()}), TypeError,
                         "float16; it must be one of float32, float64, bfloat16"),
    "mixed weights": (dict(weights=changed(bias_hh_l0=np.zeros(28, np.float32))), TypeError, "bias_hh_l0 is float32"),
    "other dtype": (dict(dtype="float32"), TypeError, "the weights are float64 and dtype is float32"),
    "a list of weights": (dict(weights=list(WEIGHTS.values())), TypeError, "weights is of type list; it must be a dict"),
    "unknown name": (dict(weights=changed(kernel=X)), ValueError, "weights has 'kernel'"),
    "missing weight": (dict(weights=changed(weight_hh_l0=None)), ValueError, "weights has no 'weight_hh_l0'"),
    "shape of a weight": (dict(weights=changed(bias_ih_l0=np.zeros(27))), ValueError,
                          r"bias_ih_l0 has shape \(27,\), not \(28,\)"),
    "one of a pair": (dict(hx=STATE), TypeError, "hx must be a pair"),
    "shape of h": (dict(hx=(STATE[..., :3], STATE)), ValueError, "h0 has shape .* not \\(1, 3, 7\\)"),
    "rows of c": (dict(hx=(STATE, STATE[:, :2])), ValueError, "c0 has shape .* not \\(1, 3, 7\\)"),
    "dtype of h": (dict(hx=(STATE.astype(np.float32), None)), TypeError, "h0 is float32; here it must be float64"),
    "shape of lengths": (dict(lengths=[1, 2]), ValueError, r"lengths has shape \(2,\), not \(3,\)"),
    "dtype of lengths": (dict(lengths=[1.0, 2.0, 3.0]), TypeError, "lengths is float32; it must be of integers"),
    "bool lengths": (dict(lengths=[True, False, True]), TypeError, "lengths is bool; it must be of integers"),
    "a length above": (dict(lengths=[1, 7, 3]), tf.errors.InvalidArgumentError,
                       "lengths has 7; with 6 time steps they are 0 to 6"),
    "a length below": (dict(lengths=[1, -1, 3]), tf.errors.InvalidArgumentError, "lengths has -1"),
    "a length above in uint64": (dict(lengths=np.array([1, 2**64 - 1, 3], np.uint64)), tf.errors.InvalidArgumentError,
                                 "lengths has 2147483647"),
    "a length far above": (dict(lengths=[1, 2**32 + 1, 3]), tf.errors.InvalidArgumentError, "lengths has 2147483647"),
    "shape of resets": (dict(resets=np.zeros((ROWS, TIME), bool)), ValueError, r"resets has shape \(3, 6\), not \(6, 3\)"),
    "dtype of resets": (dict(resets=np.zeros((TIME, ROWS))), TypeError, "resets is float64; it must be of integers"),
    "rate": (dict(dropout=1.0), ValueError, "dropout is 1.0; a rate is at least 0 and less than 1"),
    "no rate": (dict(zoneout_h=None), TypeError, "zoneout_h is of type NoneType; it must be a number"),
    "bidirectional": (dict(bidirectional=True), ValueError, "bidirectional is True"),
    "implementation": (dict(implementation="none"), tf.errors.UnimplementedError, 'no implementation "none"'),
    "seed": (dict(seed=0.5, dropout=0.5, training=True), TypeError, "seed is float32; it must be of integers"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong(name):
    arguments, kind, pattern = CASES[name]
    with pytest.raises(kind, match=pattern) as caught:
        sluice.tensorflow.lstm(**{"x": X, "weights": WEIGHTS, **arguments})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", CASES)
def test_the_same_when_a_graph_is_traced(name):
    arguments, kind, pattern = CASES[name]
    run = tf.function(lambda: sluice.tensorflow.lstm(**{"x": X, "weights": WEIGHTS, **arguments}))
    with pytest.raises(kind, match=pattern):
        run()


def untraced(tensor):
    """A tensor whose shape a graph does not know."""
    return tf.compat.v1.placeholder_with_default(tensor, None)


LATE = {
    "rank of x": (dict(x=X[0]), "x has shape .* it must have 3 dimensions"),
    "features of x": (dict(x=X[..., :4]), r"weight_ih has shape \[28,5\], not \[28,4\]"),
    "no steps": (dict(x=X[:0]), "at least one time step"),
    "shape of h": (dict(hx=(STATE[..., :3], None)), r"h0 has shape \[1,3,3\], not \[1,3,7\]"),
    "rows of c": (dict(hx=(None, STATE[:, :2])), r"c0 has shape \[1,2,7\], not \[1,3,7\]"),
    "lengths": (dict(lengths=np.array([1, 2])), r"lengths has shape \[2\], not \[3\]"),
    "resets": (dict(resets=np.zeros((TIME, ROWS - 1), np.int32)), r"resets has shape \[6,2\], not \[6,3\]"),
    "seed": (dict(seed=np.array([1, 2]), dropout=0.5, training=True), r"seed has shape \[2\], not \[\]"),
}


@pytest.mark.parametrize("name", LATE)
def test_what_only_shows_when_a_graph_runs(name):
    arguments, pattern = LATE[name]

    @tf.function
    def run():
        given = tf.nest.map_structure(lambda value: untraced(value) if isinstance(value, np.ndarray) else value,
                                      {"x": X, **arguments})
        return sluice.tensorflow.lstm(weights=WEIGHTS, **given)

    with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
        run()


def test_gru_and_rnn_say_it_too():
    weights = random_weights(np.random.default_rng(0), "gru", INPUT, HIDDEN)
    with pytest.raises(ValueError, match="multiple of 4"):
        sluice.tensorflow.lstm(X, weights)
    with pytest.raises(ValueError, match="only an LSTM has projections"):
        sluice.tensorflow.gru(X, weights | {"weight_hr_l0": np.zeros((3, HIDDEN))})
    with pytest.raises(ValueError, match="nonlinearity is 'sigmoid', not 'tanh' or 'relu'"):
        sluice.tensorflow.rnn(X, weights, nonlinearity="sigmoid")


def test_the_op_itself_reads_no_memory_of_others():
    """Attributes and tensors that only a damaged graph has."""
    ops = _library.ops()
    good = dict(x=X, weights=list(WEIGHTS.values()), h0=[], c0=[], lengths=[], resets=[], seed=np.int64(0), cell="lstm",
                hidden=[HIDDEN], projection=[], directions=1, weight_kinds=["weight_ih", "weight_hh", "bias_ih", "bias_hh"],
                batch_first=False, training=True)
    results = ops.sluice_recurrent(**good)
    for name, value, pattern in (("hidden", [-1], "hidden has -1; a width is 1 to"),
                                 ("hidden", [2**61 + 1], "hidden has 2305843009213693953; a width is 1 to"),
                                 ("projection", [2**62], "projection has 4611686018427387904; a width is 1 to"),
                                 ("hidden", [2**29], r"weight_ih has shape \[28,5\], not \[2147483648,5\]"),
                                 ("directions", 3, "directions is 3"),
                                 ("projection", [1, 2], "as many numbers as hidden"),
                                 ("weight_kinds", ["weight_ih", "weight_hh", "bias", "bias_hh"], "weight_kinds has 'bias'"),
                                 ("weight_kinds", ["weight_hh", "weight_ih", "bias_ih", "bias_hh"], "one 'weight_ih', its first"),
                                 ("weight_kinds", ["weight_ih", "weight_hh"], "weights has 4 tensors"),
                                 ("h0", [STATE, STATE], "h0 has 2 tensors")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            ops.sluice_recurrent(**{**good, name: value})
    gradients = dict(zip(("dy", "dhn", "dcn"), results[:3]))
    outputs = dict(zip(("y", "hn", "cn", "packed", "reserve"), results))
    ops.sluice_recurrent_grad(**good, **outputs, **gradients)
    for name, value, pattern in (("reserve", outputs["reserve"][:64], "must be those of a SluiceRecurrent"),
                                 ("packed", outputs["packed"][:64], "must be those of a SluiceRecurrent"),
                                 ("y", outputs["y"][:1], "must be those of a SluiceRecurrent"),
                                 ("dy", outputs["y"][:1], r"dy has shape \[1,3,7\], not \[6,3,7\]")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=pattern):
            ops.sluice_recurrent_grad(**{**good, **outputs, **gradients, name: value})


def imported_with(library):
    program = "import numpy, sluice.tensorflow as layers; layers.gru(numpy.ones((1, 1, 1)), " \
        "{'weight_ih_l0': numpy.ones((3, 1)), 'weight_hh_l0': numpy.ones((3, 1))})"
    result = subprocess.run([sys.executable, "-c", program], env={**os.environ, _library.VARIABLE: str(library)},
                            capture_output=True, text=True, check=False)
    assert result.returncode == 1
    return result.stderr.splitlines()[-1]


def test_a_library_that_is_missing_or_of_other_versions(ops, tmp_path):
    line = imported_with(tmp_path / "none.so")
    assert line.startswith("ImportError: ") and "none.so is missing; `python -m sluice.tensorflow.build` builds it" in line
    other = tmp_path / "other.so"
    own = f"built for {_library.versions()}\0".encode()
    assert ops.read_bytes().count(own) == 1
    for versions in (f"TensorFlow 1.15.0 and Sluice {sluice.__version__}", f"TensorFlow {tf.__version__} and Sluice 0.0.9"):
        other.write_bytes(ops.read_bytes().replace(own, f"built for {versions}".encode().ljust(len(own), b"\0")))
        line = imported_with(other)
        assert line.startswith("ImportError: ") and f"was built for {versions}, and this is {_library.versions()}" in line
    library = ops.read_bytes().replace(b"sluice_tensorflow built for", b"sluice_tensorflow_built_for")
    other.write_bytes(library)
    assert "was built for unknown versions" in imported_with(other)
