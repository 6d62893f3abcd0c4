"""sluice.torch.replace, and that nothing of ours runs torch's recurrent layers."""

import random

import pytest
import sluice.torch
import torch
from pairs import Case, flat, to


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.LSTM(4, 8, 2, batch_first=True, bidirectional=True)
        self.decoder = torch.nn.ModuleList([torch.nn.GRUCell(16, 4), torch.nn.RNNCell(16, 4, nonlinearity="relu")])
        self.tied = self.encoder
        self.normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.GRU(4, 4), "weight_hh_l0")
        self.out = torch.nn.Linear(4, 2)

    def forward(self, x):
        y, _ = self.encoder(x)
        h = self.decoder[0](y[:, -1])
        h = h + self.decoder[1](y[:, 0]) + self.normed(h[None])[0][0]
        return self.out(h)


def test_swaps_what_it_can_and_says_what_not(capsys):
    model = Model().double()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    expected, names = model(x), list(model.state_dict())
    calls = []
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    assert sluice.torch.replace(model) is model
    text = capsys.readouterr().out
    assert "swapped encoder: LSTM(4, 8)" in text and "swapped decoder.0: GRUCell(16, 4)" in text
    assert "left normed: ParametrizedGRU(4, 4): " in text
    assert isinstance(model.encoder, sluice.torch.LSTM) and model.tied is model.encoder
    assert isinstance(model.decoder[1], sluice.torch.RNNCell) and model.decoder[1].nonlinearity == "relu"
    assert list(model.state_dict()) == names
    found = model(x)
    assert torch.allclose(found, expected, atol=1e-12) and calls
    found.sum().backward()
    before = model.encoder.weight_ih_l0.detach().clone()
    optimizer.step()
    assert not torch.equal(model.encoder.weight_ih_l0, before)


def test_a_model_that_is_a_layer():
    layer = torch.nn.GRU(4, 8, dropout=0.0)
    own = sluice.torch.replace(layer, verbose=False)
    assert isinstance(own, sluice.torch.GRU) and own.weight_ih_l0 is layer.weight_ih_l0
    assert sluice.torch.replace(own, verbose=False) is own


def test_leaves_what_others_changed(capsys):
    class Own(torch.nn.LSTM):
        def forward(self, x):
            return super().forward(x * 2)

    model = torch.nn.Sequential(Own(4, 8))
    sluice.torch.replace(model)
    assert type(model[0]) is Own
    assert "changes LSTM" in capsys.readouterr().out


RECURRENT = ("rnn", "lstm", "gru")


@pytest.mark.parametrize("part", range(4))
def test_no_path_runs_torchs_or_cudnns_layers(part, device):
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    modules = []
    for seed in range(50 * part, 50 * part + 50):
        case = Case(seed, most=40)
        x, state = case.inputs()
        modules.append((case, case.modules(device, dtype)[1].train(random.Random(seed).random() < 0.5), to(x, device, dtype),
                        to(state, device, dtype)))
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _, own, x, state in modules:
            outputs = [output for output in flat(own(x, state))]
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    names = {event.key for event in profile.key_averages()}
    assert any("_Run" in name for name in names)  # the profiler saw the runs
    assert not {name for name in names if any(word in name.lower() for word in RECURRENT) and
                ("aten::" in name or "cudnn" in name.lower())}
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        torch.nn.LSTM(4, 4, device=device)(torch.zeros(2, 2, 4, device=device))
    assert any("lstm" in event.key.lower() for event in profile.key_averages())  # and would see torch's
