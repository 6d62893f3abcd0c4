"""Models of Sluice in TensorFlow, as graphs and as checkpoints; checkpoints of TensorFlow's own cells in Sluice."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
import pytest
import tensorflow as tf
import torch
from interop_cases import CASES, assert_same, outputs_of, softmax
from sluice_models import SOURCES, TRAINED, assert_same_rows, computed, make_model, train_model
from tensorflow_programs import dense, make_cell, program_of, recurrent, recurrent_both_ways

import sluice

v1 = tf.compat.v1


def run_frozen(path, x):
    graph = v1.GraphDef()
    graph.ParseFromString(path.read_bytes())
    with tf.Graph().as_default(), v1.Session() as session:
        v1.import_graph_def(graph, name="")
        return session.run("output:0", {"input:0": x})


def run_saved(path, x):
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    return serve(input=tf.constant(x))["output"].numpy()


def run_checkpoint(path, x, activation):
    """The output of TensorFlow's own cells with the variables of a checkpoint."""
    shapes = dict(tf.train.list_variables(str(path)))
    with tf.Graph().as_default(), v1.Session() as session:
        y = program_of(shapes, activation)(tf.constant(x))
        variables = v1.global_variables()
        assert {variable.op.name for variable in variables} == set(shapes)
        v1.train.Saver(variables).restore(session, str(path))
        return session.run(y)


def assert_runs(model, to, draw, tmp_path, activation="tanh"):
    path = tmp_path / f"back.{to}"
    report = sluice.convert(model.folder, path, to=to, verify=True)
    assert report.check.agrees
    x, lengths, expected = computed(model, draw, equal=True)
    if to == "tf1":
        ours = run_checkpoint(path, x, activation)
    else:
        ours = (run_frozen if to == "pb" else run_saved)(path, x)
        if report.layers[-1].endswith("softmax"):  # which a graph holds, and a checkpoint does not
            expected = softmax(expected)
    assert_same_rows(ours, expected[0] if ours.ndim == 2 else expected, lengths, to)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_model_of_sluice_runs_in_tensorflow(seed, tmp_path):
    draw = numpy.random.default_rng(seed)
    torch.manual_seed(seed)
    source, to = SOURCES[seed % len(SOURCES)], ("pb", "savedmodel", "tf1")[seed % 3]
    model = make_model(source, draw, tmp_path / "model", plain=to == "tf1")
    assert_runs(model, to, draw, tmp_path, "relu" if "relu" in source.lower() else "tanh")


@pytest.mark.parametrize("to", ["pb", "savedmodel"])
@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_runs_in_tensorflow(name, to, tmp_path):
    draw = numpy.random.default_rng(1)
    assert_runs(train_model(name, draw, tmp_path / "model"), to, draw, tmp_path)


@pytest.mark.parametrize("name", ["frames without an output", "projections", "a tagger"])
def test_a_checkpoint_of_a_trained_model_restores_in_tensorflow(name, tmp_path):
    draw = numpy.random.default_rng(1)
    assert_runs(train_model(name, draw, tmp_path / "model"), "tf1", draw, tmp_path)


CELLS = ("basic_lstm_cell", "lstm_cell", "gru_cell", "basic_rnn_cell", "cudnn_compatible_lstm_cell",
         "cudnn_compatible_gru_cell")


@pytest.mark.parametrize("seed", range(CASES))
def test_a_checkpoint_of_tensorflow_computes_the_same(seed, tmp_path):
    draw = numpy.random.default_rng(3000 + seed)
    number = lambda least, most: int(draw.integers(least, most + 1))
    kind = CELLS[seed % len(CELLS)]
    features, layers, both = number(1, 12), number(1, 3), bool(number(0, 1))
    answers, options = {}, {}
    if kind in ("basic_lstm_cell", "lstm_cell"):
        options["forget_bias"] = answers["forget_bias"] = (0.0, 1.0, 0.5)[number(0, 2)]
    if kind == "lstm_cell":
        options["use_peepholes"] = bool(number(0, 1))
        options["num_proj"] = number(1, 6) if number(0, 1) else None
    if kind == "basic_rnn_cell":
        options["activation"] = ("tanh", "relu")[number(0, 1)]
        answers["activation"] = options["activation"]
    units = [number(7, 14) for _ in range(layers)]
    cells = lambda: [make_cell(kind, count, **options) for count in units]
    x = draw.normal(size=(number(1, 20), 1, features)).astype("f4")
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.float32, [None, None, features])
        with v1.variable_scope("model"):
            y = recurrent_both_ways(given, cells(), cells()) if both else recurrent(given, cells())
            y = dense(y, 40, "output") if number(0, 1) else y
        for variable in v1.global_variables():
            variable.load(draw.uniform(-0.6, 0.6, variable.shape).astype("f4"), session)
        v1.train.Saver().save(session, str(tmp_path / "source"), write_meta_graph=False)
        theirs = session.run(y, {given: x})
    report = sluice.convert(tmp_path / "source", tmp_path / "model", answers=answers, verify=True)
    assert report.check.agrees
    assert_same(outputs_of(tmp_path / "model", x[:, 0]), theirs[:, 0], report.text)
