"""Models of ONNX: from torch.onnx, by hand and ONNX's own cases to Sluice; models of Sluice to ONNX Runtime."""

import functools
import warnings

import numpy
import onnx
import onnx_chains
import pytest
import torch
from interop_cases import CASES, assert_same, features_and_ids, outputs_of, without_zeros
from onnx import numpy_helper
from sluice_models import SOURCES, TRAINED, assert_same_rows, computed, make_model, train_model
from torch import nn

import sluice

OWN_CASES = [f"{kind}_{case}" for kind, cases in {
    "lstm": ("defaults", "with_initial_bias", "with_peepholes", "batchwise", "bidirectional", "reverse"),
    "gru": ("defaults", "with_initial_bias", "seq_length", "batchwise", "bidirectional", "reverse"),
    "simple_rnn": ("defaults", "with_initial_bias", "batchwise", "bidirectional", "reverse"),
    "rnn": ("seq_length",),
}.items() for case in cases]


class Net(nn.Module):
    """[embedding], a recurrent module, a reading of its steps, [linear], [softmax]."""

    def __init__(self, draw, cell):
        super().__init__()
        number = lambda least, most: int(draw.integers(least, most + 1))
        width, hidden, self.both = number(1, 12), number(2, 16), bool(number(0, 1))
        options = {"bidirectional": self.both, "batch_first": bool(number(0, 1)), "bias": number(1, 4) > 1}
        if cell in ("tanh", "relu"):
            self.rnn = nn.RNN(width, hidden, number(1, 3), nonlinearity=cell, **options)
        else:
            self.rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, hidden, number(1, 3), **options)
        self.vocabulary = number(5, 30) if number(0, 1) else 0
        self.embedding = nn.Embedding(self.vocabulary, width) if self.vocabulary else None
        self.read = ("all", "last", "final", "mean", "max")[number(0, 4)]
        if self.both and self.read == "last":
            self.read = "final"  # both directions at the last step are no pooling of Sluice
        output = hidden * (1 + self.both)
        self.norm = nn.BatchNorm1d(output) if self.read not in ("all", "max") and number(1, 4) == 1 else None
        self.linear = nn.Linear(output, 40 + number(0, 9)) if self.vocabulary or number(0, 1) else None
        self.softmax = self.linear is not None and bool(number(0, 1))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.6, 0.6)
        if self.norm is not None:
            self.norm.running_mean.uniform_(-1, 1)
            self.norm.running_var.uniform_(0.5, 2)
        self.eval()

    def forward(self, x):
        time = 1 if self.rnn.batch_first else 0
        y, states = self.rnn(x if self.embedding is None else self.embedding(x))
        h = states[0] if isinstance(states, tuple) else states
        if self.read == "last":
            y = y.select(time, -1)
        elif self.read == "final":
            y = torch.cat([h[-2], h[-1]], dim=-1) if self.both else h[-1]
        elif self.read == "mean":
            y = y.mean(time)
        elif self.read == "max":
            y = y.max(time)[0]
        y = y if self.norm is None else self.norm(y)
        y = y if self.linear is None else self.linear(y)
        return torch.softmax(y, -1) if self.softmax else y

    def input(self, draw, rows):
        shape = (rows, int(draw.integers(1, 20)))
        shape = shape if self.rnn.batch_first else shape[::-1]
        if self.vocabulary:
            return torch.from_numpy(draw.integers(self.vocabulary, size=shape))
        return torch.from_numpy(draw.normal(size=(*shape, self.rnn.input_size)).astype("f4"))


def export(net, sample, path, is_dynamic):
    first = net.rnn.batch_first
    axes = {"x": {0: "batch", 1: "time"} if first else {0: "time", 1: "batch"}} if is_dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (sample,), path, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
                          dynamic_axes=axes)


@pytest.mark.parametrize("seed", range(CASES))
def test_an_export_of_torch_computes_the_same(seed, tmp_path):
    draw = numpy.random.default_rng(seed)
    torch.manual_seed(seed)
    net = Net(draw, ("lstm", "gru", "tanh", "relu")[seed % 4])
    is_dynamic = seed % 3 > 0
    sample = net.input(draw, 2 if is_dynamic else 1)
    path = tmp_path / "model.onnx"
    export(net, sample, path, is_dynamic)
    report = sluice.convert(path, tmp_path / "model", kind="tagger" if is_tagger(net) else None, verify=True)
    assert report.check.agrees
    x = net.input(draw, 1) if is_dynamic else sample
    batch = 0 if net.rnn.batch_first else 1
    theirs = onnx_chains.run(str(path), {"x": x.numpy()})[0]
    net.softmax = False
    with torch.no_grad():
        logits = net(x).numpy()
    one = numpy.take(logits, [0], 0) if logits.ndim == 2 else numpy.take(logits, 0, batch)
    assert theirs.shape == logits.shape
    assert_same(features_and_ids(tmp_path / "model", numpy.take(x.numpy(), 0, batch), report.kind), one, report.text)


def is_tagger(net):
    return bool(net.vocabulary) and net.read == "all"


@pytest.mark.parametrize("seed", range(CASES))
def test_a_model_by_hand_computes_the_same(seed, tmp_path):
    draw = numpy.random.default_rng(1000 + seed)
    chain = onnx_chains.Chain(draw, onnx_chains.CELLS[seed % len(onnx_chains.CELLS)])
    path = tmp_path / "model.onnx"
    onnx.save(chain.model(), path)
    report = sluice.convert(path, tmp_path / "model", verify=True)
    assert report.check.agrees
    x = chain.input()
    logits = onnx_chains.run(chain.model(["logits"]), {"x": x})[0]
    one = logits if logits.ndim == 2 else logits[:, 0]
    ours = features_and_ids(tmp_path / "model", x[:, 0], report.kind)
    assert_same(without_zeros(ours, one.shape[1]), one, report.text)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_model_of_sluice_runs_in_onnx_runtime(seed, tmp_path):
    draw = numpy.random.default_rng(2000 + seed)
    torch.manual_seed(seed)
    model = make_model(SOURCES[seed % len(SOURCES)], draw, tmp_path / "model")
    path = tmp_path / "back.onnx"
    assert sluice.convert(model.folder, path, to="onnx", verify=True).check.agrees
    assert_runs_in_onnx_runtime(model, path, draw)


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_runs_in_onnx_runtime(name, tmp_path):
    draw = numpy.random.default_rng(1)
    model = train_model(name, draw, tmp_path / "model")
    path = tmp_path / "back.onnx"
    if name == "projections":
        with pytest.raises(NotImplementedError, match="a projection, which ONNX"):
            sluice.convert(model.folder, path, to="onnx", verify=True)
        return
    assert sluice.convert(model.folder, path, to="onnx", verify=True).check.agrees
    assert_runs_in_onnx_runtime(model, path, draw)


def assert_runs_in_onnx_runtime(model, path, draw):
    x, lengths, expected = computed(model, draw)
    feeds = {"input": x.astype("i8") if x.dtype.kind == "i" else x, "lengths": lengths.astype("i4")}
    ours = onnx_chains.run(str(path), feeds, ["output"])[0]
    assert_same_rows(ours, expected[0] if ours.ndim == 2 else expected, lengths)


@pytest.mark.parametrize("name", OWN_CASES)
def test_a_case_of_onnx(name, tmp_path):
    """ONNX's own tests of LSTM, GRU and RNN, from the package of onnx."""
    case = own_cases()[f"test_{name}"]
    path = tmp_path / "model.onnx"
    weights, x = case.data_sets[0][0][1:], case.data_sets[0][0][0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    # The case gives its weights as inputs.
    names = [value.name for value in model.graph.input]
    for weight, values in zip(names[1:], weights, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(values, weight))
    del model.graph.input[1:]
    onnx.save(model, path)
    report = sluice.convert(path, tmp_path / "model", verify=True)
    assert report.check.agrees
    layout = next((a.i for a in model.graph.node[0].attribute if a.name == "layout"), 0)
    first, values = case.model.graph.output[0].name, case.data_sets[0][1][0]
    rows = x.shape[0 if layout else 1]
    for row in range(rows):
        ours = outputs_of(tmp_path / "model", numpy.take(x, row, 0 if layout else 1))
        if first == "Y_h":  # [directions, rows, hidden]
            theirs = values[:, row].reshape(1, -1)
        else:
            theirs = numpy.take(values, row, 0 if layout else 2)
            theirs = theirs.reshape(len(theirs), -1)
        assert_same(without_zeros(ours, theirs.shape[1]), theirs, report.text)


@functools.cache
def own_cases():
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in collect_testcases(None)}
