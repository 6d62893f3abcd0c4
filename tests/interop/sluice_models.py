"""Random models of Sluice, and what they compute of a batch: the tests of writers start from them."""

import pathlib
import shutil
from typing import NamedTuple

import numpy
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
    """A model in `folder`, which reads frames of `features` numbers, or words, those of `words`."""

    folder: pathlib.Path
    kind: str
    features: int
    words: tuple


def numbers(count):
    return tuple(str(number) for number in range(count))


def make_model(source, draw, folder, plain=False):
    """A random model in `folder`. plain: without a pooling and a hard sigmoid."""
    if source.startswith("torch"):
        return make_from_torch(source.split()[1], draw, folder, plain)
    path = folder.with_suffix(".source.onnx")
    chain = onnx_chains.Chain(draw, source, plain)
    onnx.save(chain.model(), path)
    return Model(folder, sluice.convert(path, folder).kind, chain.features, numbers(chain.vocabulary))


def make_from_torch(cell, draw, folder, plain):
    number = lambda least, most: int(draw.integers(least, most + 1))
    hidden, layers, width, both = number(2, 16), number(1, 3), number(1, 16), bool(number(0, 1))
    if cell in ("tanh", "relu"):
        rnn = nn.RNN(width, hidden, layers, nonlinearity=cell, bidirectional=both)
    else:
        rnn = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](width, hidden, layers, bidirectional=both)
    model = nn.ModuleDict({"rnn": rnn})
    answers = {"nonlinearity": cell} if cell in ("tanh", "relu") else {}
    kind = ("features", "tagger", "language_model", "classifier")[number(0, 2 if plain else 3)]
    if kind == "language_model" and both:
        kind = "tagger"
    vocabulary, outputs = number(5, 30), 40 + number(0, 9)
    if kind != "features":
        model["embedding"] = nn.Embedding(vocabulary, width)
        answers["embedding"] = "embedding.weight"  # as wide as other matrices may be
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
    ids = numbers(0 if kind == "features" else vocabulary)
    # The 1 begins texts of a language model, so it stands in none.
    return Model(folder, report.kind, width, ids[2:] if kind == "language_model" else ids)


#: What no other program's file says: models that sluice.train makes. kind, and settings of [model].
TRAINED = {
    "frames that are normalised": ("features", {"hidden": 8, "peepholes": True}),
    "frames and attention": ("features", {"hidden": 6, "layers": 2, "pooling": "attention", "cell": "gru"}),
    "frames and the mean": ("features", {"hidden": 6, "pooling": "mean", "cell": "gru_reset_before",
                                         "bidirectional": True, "normalize": False}),
    "frames without an output": ("features", {"hidden": 3, "output_layer": False, "cell": "rnn_tanh",
                                              "bidirectional": False, "normalize": False}),
    "projections": ("features", {"hidden": 8, "layers": 2, "projections": "4 6", "normalize": False}),
    "a language model": ("language_model", {"hidden": 7, "embedding": 5, "peepholes": True, "layers": 2}),
    "tied embeddings": ("language_model", {"hidden": 7, "embedding": 7, "tie_embeddings": "decoder"}),
    "a tagger": ("tagger", {"hidden": 8, "embedding": 5, "output": "softmax", "widths": "8 6", "layers": 2}),
    "a CRF": ("tagger", {"hidden": 8, "embedding": 5, "hard_sigmoid": True}),
    "a classifier": ("classifier", {"hidden": 8, "embedding": 5, "cell": "gru"}),
    "a classifier of last steps": ("classifier", {"hidden": 8, "embedding": 5, "pooling": "last"}),
}
WORDS = [chr(letter) for letter in range(ord("a"), ord("p"))]


def train_model(name, draw, folder):
    """The model of TRAINED, after one epoch on a few examples."""
    kind, settings = TRAINED[name]
    data = {}
    sentences = [[str(word) for word in draw.choice(WORDS, draw.integers(2, 9))] for _ in range(12)]

    def written(suffix, lines):
        path = folder.with_suffix(suffix)
        path.write_text("".join(lines), encoding="utf-8")
        return path

    if kind == "features":
        pools = settings.get("pooling", "none") != "none"
        frames, path = draw.normal(2, 3, size=(8, 9, 5)).astype("f4"), folder.with_suffix(".x.npy")
        numpy.save(path, frames)
        data["features"], data["targets"] = path, folder.with_suffix(".y.npy")
        numpy.save(data["targets"], frames[:, 0, :3] if pools else frames[:, :, :3])
    elif kind == "language_model":
        data["text"] = written(".txt", [" ".join(words) + "\n" for words in sentences])
    elif kind == "tagger":
        data["conll"] = written(".conll", ["".join(f"{word} {'AB'[word > 'g']}\n" for word in words) + "\n"
                                           for words in sentences])
    else:
        lines = ["text,label\n"] + [f"{' '.join(words)},{'AB'[words[0] > 'g']}\n" for words in sentences]
        data["table"] = written(".csv", lines)
    config = {"data": data, "model": {"kind": kind, **settings}, "output.directory": folder.with_suffix(".run"),
              "training.max_epochs": 1}
    if kind != "features":
        config["tokenizer.kind"] = "words"
    shutil.copytree(sluice.train(config, quiet=True).model, folder)
    return Model(folder, kind, 5 if kind == "features" else 0, WORDS if kind != "features" else ())


def computed(model, draw, rows=3, equal=False):
    """What a model makes of random inputs: what it reads, [time, rows] of ids or [time, rows, features], the lengths of
    the rows, and its outputs."""
    steps = [int(draw.integers(1, 20)) for _ in range(rows)]
    steps = steps[:1] * rows if equal else steps
    if model.kind == "features":
        inputs = [draw.normal(size=(count, model.features)).astype("f4") for count in steps]
    else:
        inputs = [[str(word) for word in draw.choice(model.words, count)] for count in steps]
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
