"""Random models of Sluice, and what they compute of a batch: the tests of writers start from them."""

import pathlib
from typing import NamedTuple

import onnx
import onnx_chains
import torch
from interop_cases import assert_same, output_of
from safetensors.numpy import load_file
from torch import nn

import sluice

#: What makes_model() goes through: state dicts of torch, and models of ONNX for what torch lacks.
SOURCES = ("torch lstm", "torch gru", "torch tanh", "torch relu", *onnx_chains.CELLS)


class Model(NamedTuple):
    """A model in `folder`, which reads frames of `features` numbers, or words, which are the numbers below `words`."""

    folder: pathlib.Path
    kind: str
    features: int
    words: int


def make_model(source, draw, folder):
    """A random model in `folder`."""
    if source.startswith("torch"):
        return make_from_torch(source.split()[1], draw, folder)
    path = folder.with_suffix(".source.onnx")
    chain = onnx_chains.Chain(draw, source)
    onnx.save(chain.model(), path)
    return Model(folder, sluice.convert(path, folder).kind, chain.features, chain.vocabulary)


def make_from_torch(cell, draw, folder):
    number = lambda least, most: int(draw.integers(least, most + 1))
    hidden, layers, width, both = number(2, 16), number(1, 3), number(1, 16), bool(number(0, 1))
    if cell in ("tanh", "relu"):
        rnn = nn.RNN(width, hidden, layers, nonlinearity=cell, bidirectional=both)
    else:
        rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, hidden, layers, bidirectional=both)
    model = nn.ModuleDict({"rnn": rnn})
    answers = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    kind = ("features", "tagger", "classifier", "language_model")[number(0, 3)]
    if kind == "language_model" and both:
        kind = "tagger"
    vocabulary, outputs = number(5, 30), 40 + number(0, 9)
    if kind != "features":
        model["embedding"] = nn.Embedding(vocabulary, width)
    else:
        answers["embedding"] = "none"
    if kind != "features" or number(0, 1):
        model["linear"] = nn.Linear(hidden * (1 + both), vocabulary if kind == "language_model" else outputs)
        answers["pooling"] = ("last", "mean", "max")[number(0, 2)] if kind == "classifier" else "none"
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.6, 0.6)
    path = folder.with_suffix(".pt")
    torch.save(model.state_dict(), path)
    more = {"begin": 1} if kind == "language_model" else {}
    report = sluice.convert(path, folder, kind=kind, answers=answers, **more)
    return Model(folder, report.kind, width, 0 if kind == "features" else vocabulary)


def computed(model, draw, rows=3, equal=False):
    """What a model makes of random inputs: what it reads, [time, rows] of ids or [time, rows, features], the lengths of
    the rows, and its outputs."""
    steps = [int(draw.integers(1, 20)) for _ in range(rows)]
    steps = steps[:1] * rows if equal else steps
    if model.kind == "features":
        inputs = [draw.normal(size=(count, model.features)).astype("f4") for count in steps]
    else:
        least = 2 if model.kind == "language_model" else 0  # behind the begin of a text
        inputs = [[str(draw.integers(least, model.words)) for _ in range(count)] for count in steps]
        if model.kind != "tagger":
            inputs = [" ".join(words) for words in inputs]
    path = model.folder.parent / "layers.safetensors"
    sluice.check(model.folder, inputs, record=path)
    layers = load_file(path)
    side = "target" if model.kind == "language_model" else "source"
    return layers[f"input.{side}"], layers[f"input.{side}_lengths"], output_of(layers)


def assert_same_rows(ours, theirs, lengths, what=""):
    """The steps of each row, without those behind its end; or vectors of rows."""
    if ours.ndim == 2:
        return assert_same(ours, theirs, what)
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    for row, length in enumerate(lengths):
        assert_same(ours[:length, row], theirs[:length, row], what)
