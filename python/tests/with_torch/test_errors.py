"""Wrong arguments raise what torch's layers raise, or Sluice's one sentence."""

import subprocess
import sys

import pytest
import sluice.torch
import torch


def both(kind="LSTM", **options):
    return getattr(torch.nn, kind)(4, 6, **options), getattr(sluice.torch, kind)(4, 6, **options)


def raised(call):
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return type(error)
    return None


@pytest.mark.parametrize("arguments", [
    (torch.zeros(5, 3, 7),), (torch.zeros(5, 3, 4, 1),), (torch.zeros(4),), (torch.zeros(5, 3, 4).double(),),
    (torch.zeros(0, 3, 4),), (torch.zeros(5, 3, 4), (torch.zeros(2, 3, 6), torch.zeros(1, 3, 6))),
    (torch.zeros(5, 3, 4), (torch.zeros(1, 3, 6), torch.zeros(1, 2, 6))),
    (torch.zeros(5, 3, 4), (torch.zeros(3, 6), torch.zeros(3, 6))),
    (torch.zeros(5, 4), (torch.zeros(1, 1, 6), torch.zeros(1, 1, 6))),
], ids=lambda arguments: "x".join(str(tuple(arguments[0].shape)) for _ in "x") + (" with hx" if len(arguments) > 1 else ""))
def test_layers_raise_torchs_exceptions(arguments):
    reference, own = both()
    expected = raised(lambda: reference(*arguments))
    assert expected is not None
    assert raised(lambda: own(*arguments)) is expected


@pytest.mark.parametrize("cell, arguments", [
    ("LSTMCell", (torch.zeros(3, 5),)), ("GRUCell", (torch.zeros(3, 5),)), ("RNNCell", (torch.zeros(3, 5),)),
    ("GRUCell", (torch.zeros(3, 4), torch.zeros(2, 6))), ("RNNCell", (torch.zeros(3, 4), torch.zeros(3, 5))),
    ("LSTMCell", (torch.zeros(3, 4), (torch.zeros(2, 6), torch.zeros(3, 6)))), ("GRUCell", (torch.zeros(2, 3, 4),)),
])
def test_cells_raise_torchs_exceptions(cell, arguments):
    reference, own = both(cell)
    expected = raised(lambda: reference(*arguments))
    assert expected is not None
    assert raised(lambda: own(*arguments)) is expected


@pytest.mark.parametrize("options", [{"dropout": 2}, {"proj_size": 6}, {"proj_size": -1}, {"num_layers": 0}, {"bias": 1}])
def test_constructors_raise_torchs_exceptions(options):
    expected = raised(lambda: torch.nn.LSTM(4, 6, **options))
    assert expected is not None
    assert raised(lambda: sluice.torch.LSTM(4, 6, **options)) is expected


@pytest.mark.parametrize("options, sentence", [
    ({"zoneout": 1.5}, "zoneout of h is 1.5; a rate is at least 0 and less than 1"),
    ({"recurrent_dropout": -1}, "recurrent_dropout is -1; a rate is at least 0 and less than 1"),
    ({"layer_norm": True, "peepholes": True}, "layer_norm goes with neither proj_size nor peepholes"),
])
def test_options_are_checked(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        sluice.torch.LSTM(4, 6, **options)


@pytest.mark.parametrize("options, kind, sentence", [
    ({"lengths": torch.tensor([1.0, float("nan"), 2.0])}, TypeError, "lengths is torch.float32; it must be of integers"),
    ({"lengths": torch.tensor([1, 2])}, ValueError, r"lengths has shape \(2,\), not \(3,\)"),
    ({"lengths": torch.tensor([1, 2, 6])}, ValueError, "with 5 time steps they are 0 to 5"),
    ({"resets": torch.zeros(3, 5, dtype=torch.bool)}, ValueError, r"resets has shape \(3, 5\), not \(5, 3\)"),
    ({"resets": torch.zeros(5, 3)}, TypeError, "resets is torch.float32; it must be of integers"),
])
def test_lengths_and_resets_are_checked(options, kind, sentence, device):
    own = sluice.torch.LSTM(4, 6, device=device)
    if device.type == "cuda" and "0 to 5" in sentence:
        own(torch.zeros(5, 3, 4, device=device), lengths=options["lengths"].to(device))  # limited, not read
        return
    with pytest.raises(kind, match=sentence):
        own(torch.zeros(5, 3, 4, device=device), **options)


def test_devices_must_agree(gpu):
    own = sluice.torch.LSTM(4, 6)
    with pytest.raises(RuntimeError, match="x is on cuda:0 and the weights are on cpu; move one of them"):
        own(torch.zeros(5, 3, 4, device=gpu))


def test_what_no_implementation_can_do_is_said():
    own = sluice.torch.LSTM(4, 6, zoneout=0.1).eval()
    with pytest.raises(NotImplementedError, match="call train"):
        own(torch.zeros(5, 3, 4))


def test_integers_are_refused():
    own = sluice.torch.LSTM(4, 6)
    with pytest.raises(ValueError):
        own(torch.zeros(5, 3, 4, dtype=torch.int64))


def test_a_dead_context_raises_one_sentence(gpu):
    program = """if True:
        import numpy, torch, sluice, sluice.torch
        from sluice.numpy import DeviceArray, Stack
        layer = torch.nn.LSTM(16, 16, device="cuda")
        stack = Stack("lstm", {name: value.detach().clone() for name, value in layer.named_parameters()})
        x = torch.randn(4, 8, 16, device="cuda")
        stack(x)
        own = sluice.torch.replace(torch.nn.Sequential(layer), verbose=False)[0].eval()
        try:
            torch.zeros(4, device="cuda")[torch.tensor([99], device="cuda")]
            torch.cuda.synchronize()
        except RuntimeError:
            pass
        for call in (lambda: stack(x), lambda: DeviceArray.from_numpy(numpy.zeros((2, 2), "float32"), "cuda:0")):
            try:
                call()
            except sluice.DeviceLost as error:
                print("lost:", error)
        try:
            own(x)
        except RuntimeError:  # torch's or ours: torch takes the memory
            print("lost: torch")
    """
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    lines = result.stdout.splitlines()
    assert len(lines) == 3 and all(line.startswith("lost:") for line in lines), result.stdout + result.stderr[-2000:]
    assert "must be restarted" in lines[0]
