"""State dicts of torch: random stacks, in each file format."""

import numpy
import pytest
import torch
from interop_cases import CASES, assert_same, outputs_of, token_outputs_of
from safetensors.torch import load_file, save_file
from torch import nn

import sluice

MODULES = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
SUFFIXES = ("pt", "bin", "safetensors", "npz", "old.pt")


class Chain(nn.Module):
    """[embedding], a recurrent module, [linear]: what a state dict can say."""

    def __init__(self, draw, kind):
        super().__init__()
        self.kind = kind
        number = lambda least, most: int(draw.integers(least, most + 1))
        hidden, layers = number(2, 24), number(1, 3)
        options = {"bidirectional": bool(draw.integers(2)), "bias": bool(draw.integers(4))}
        if kind == "rnn":
            options["nonlinearity"] = ("tanh", "relu")[number(0, 1)]
        width = number(1, 20)
        self.vocabulary = number(5, 40)
        self.embedding = nn.Embedding(self.vocabulary, width) if draw.integers(2) else None
        if kind == "lstm" and hidden > 2 and self.embedding is None and draw.integers(2):
            options["proj_size"] = number(1, hidden - 1)  # which taggers of Sluice lack
        self.options = options
        self.rnn = MODULES[kind](width, hidden, layers, **options)
        output = (options.get("proj_size", 0) or hidden) * (1 + options["bidirectional"])
        # Not as wide as another matrix, so that the state dict says which is which.
        self.outputs = 50 + number(0, 10)
        self.linear = nn.Linear(output, self.outputs) if self.embedding is not None or draw.integers(2) else None
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.6, 0.6)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        x, _ = self.rnn(x)
        return x if self.linear is None else self.linear(x)

    def input(self, draw):
        steps = int(draw.integers(1, 30))
        if self.embedding is not None:
            return draw.integers(self.vocabulary, size=steps)
        return draw.normal(size=(steps, self.rnn.input_size)).astype("f4")


def save(model, path):
    state = model.state_dict()
    if path.suffix == ".safetensors":
        save_file(state, path)
    elif path.suffix == ".npz":
        numpy.savez(path, **{name: tensor.numpy() for name, tensor in state.items()})
    else:
        torch.save(state, path, _use_new_zipfile_serialization="old" not in path.name)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_state_dict_goes_there_and_back(seed, tmp_path):
    draw = numpy.random.default_rng(seed)
    torch.manual_seed(seed)
    model = Chain(draw, list(MODULES)[seed % 3])
    path = tmp_path / f"model.{SUFFIXES[seed % len(SUFFIXES)]}"
    save(model, path)
    answers = {"nonlinearity": model.options["nonlinearity"]} if model.kind == "rnn" else {}
    if model.embedding is None:
        answers["embedding"] = "none"
    report = sluice.convert(path, tmp_path / "model", answers=answers, verify=True)
    assert report.check.agrees
    x = model.input(draw)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)[:, None])[:, 0].numpy()
    if model.embedding is None:
        assert report.kind == "features"
        assert_same(outputs_of(tmp_path / "model", x), expected, report.text)
    elif report.kind == "tagger":
        assert_same(token_outputs_of(tmp_path / "model", x, "tagger"), expected, report.text)

    back = tmp_path / ("back.safetensors" if seed % 2 else "back.pt")
    sluice.convert(tmp_path / "model", back, to="torch", verify=True)
    state = torch.load(back, weights_only=True) if back.suffix == ".pt" else load_file(back)
    prefix = "recurrent." if model.embedding is not None else "stack."
    ours = {name[len(prefix):]: tensor for name, tensor in state.items() if name.startswith(prefix)}
    fresh = MODULES[model.kind](model.rnn.input_size, model.rnn.hidden_size, model.rnn.num_layers,
                                **{**model.options, "bias": True})
    fresh.load_state_dict(ours)
    frames = torch.randn(5, 1, model.rnn.input_size)
    with torch.no_grad():
        assert_same(fresh(frames)[0], model.rnn(frames)[0])
