"""A trained model rebuilt in torch from its checkpoint: sluice.check agrees with the outputs of torch's layers, and names
the layer whose weights were changed in torch."""

import json
import struct

import numpy as np
import pytest
import torch

import sluice


def tensors_of(path):
    """The float32 tensors of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], "<f4")
        found[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return found


@pytest.fixture(scope="module", params=["lstm", "gru"])
def case(request, tmp_path_factory):
    """A model of three layers in both directions on frames, and frames of several lengths."""
    folder = tmp_path_factory.mktemp("features")
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    rng = np.random.default_rng(seed)
    hidden = 2 * int(rng.integers(2, 12))  # both directions together
    np.save(folder / "x.npy", rng.uniform(-1, 1, (8, 10, 5)).astype(np.float32))
    np.save(folder / "y.npy", rng.uniform(-1, 1, (8, 10, 2)).astype(np.float32))
    report = sluice.train({"data": {"features": folder / "x.npy", "targets": folder / "y.npy"},
                           "model": {"kind": "features", "cell": request.param, "hidden": hidden, "layers": 3,
                                     "normalize": False},
                           "training": {"max_steps": 20}, "output.directory": folder / "run"}, quiet=True)
    frames = [rng.uniform(-1, 1, (time, 5)).astype(np.float32) for time in (12, 3, 7)]
    return report.model, request.param, frames


def in_torch(folder, cell, frames, changed=None):
    """Outputs [steps, rows, units] of every layer in torch, in float64, one layer after the other."""
    import pathlib

    weights = tensors_of(pathlib.Path(folder) / "model.safetensors")
    if changed is not None:
        weights[changed] += 0.01
    lengths = [len(one) for one in frames]
    x = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(one).double() for one in frames])
    layers = {}
    for number in range(3):
        own = {name.removeprefix("stack."): value for name, value in weights.items() if f"_l{number}" in name}
        hidden = own[f"weight_hh_l{number}"].shape[1]
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](x.shape[2], hidden, bidirectional=True).double()
        layer.load_state_dict({name.replace(f"_l{number}", "_l0"): value.double() for name, value in own.items()})
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        with torch.no_grad():
            out, state = layer(packed)
        x, _ = torch.nn.utils.rnn.pad_packed_sequence(out)
        states = {"h_n": state[0], "c_n": state[1]} if cell == "lstm" else {"h_n": state}
        layers[f"stack.l{number}"] = x
        for name, both in states.items():
            layers[f"stack.l{number}.{name}"] = both[0]
            layers[f"stack.l{number}.{name}_reverse"] = both[1]
    layers["output"] = x @ weights["output.weight"].double().T + weights["output.bias"].double()
    return {name: value.numpy() for name, value in layers.items()}


def test_agrees_with_torch(case):
    folder, cell, frames = case
    report = sluice.check(folder, frames, against=in_torch(folder, cell, frames))
    assert report.agrees, str(report)
    # All that the model has, but for the frames themselves.
    assert set(report.not_compared) <= {"input"}
    assert max(layer.largest for layer in report.layers) < 1e-5


@pytest.mark.parametrize("dtype, unit", [(torch.float16, 2**-11), (torch.bfloat16, 2**-8)])
def test_takes_tensors_of_16_bits(case, dtype, unit):
    folder, cell, frames = case
    rounded = torch.from_numpy(in_torch(folder, cell, frames)["stack.l0"]).to(dtype)
    layer = sluice.check(folder, frames, against={"stack.l0": rounded}).layer("stack.l0")
    assert layer.verdict == "agrees" and layer.tolerance == pytest.approx(8 * (2**-19 + unit))
    step, row, unit = layer.largest_at[:3]
    assert layer.largest_at.reference == rounded[step, row, unit].item()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_names_the_layer_that_is_another_in_torch(case, number):
    folder, cell, frames = case
    reference = in_torch(folder, cell, frames, changed=f"stack.weight_hh_l{number}")
    report = sluice.check(folder, frames, against=reference)
    assert report.first_to_differ == f"stack.l{number}", str(report)
    first = report.layer(f"stack.l{number}").first
    # The first step has no state yet, so weights of states change the second.
    assert first.step == 1
    assert reference[f"stack.l{number}"][first.step, first.row, first.unit] == pytest.approx(first.reference, abs=1e-6)
