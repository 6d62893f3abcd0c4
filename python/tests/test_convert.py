"""sluice.convert: a state dict goes to a model and back."""

import numpy
import pytest

import sluice

UNITS, INPUTS, OUTPUTS = 6, 4, 3


@pytest.fixture
def arrays(tmp_path):
    draw = numpy.random.default_rng(1)
    shapes = {"lstm.weight_ih_l0": (4 * UNITS, INPUTS), "lstm.weight_hh_l0": (4 * UNITS, UNITS),
              "lstm.bias_ih_l0": (4 * UNITS,), "lstm.bias_hh_l0": (4 * UNITS,),
              "fc.weight": (OUTPUTS, UNITS), "fc.bias": (OUTPUTS,)}
    tensors = {name: draw.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    path = tmp_path / "model.npz"
    numpy.savez(path, **tensors)
    return path, tensors


def test_a_state_dict_becomes_a_model(arrays, tmp_path):
    path, tensors = arrays
    report = sluice.convert(path, tmp_path / "model", verify=True)
    assert report.kind == "features"
    assert report.layers == ["lstm.l0: LSTM 4 -> 6", "fc: linear 6 -> 3"]
    assert report.check.agrees and report.written is None
    assert report.check.layer("output").largest < 1e-5
    assert any("--set target=classes" in line for line in report.assumed)
    model = sluice.load(tmp_path / "model")
    x = numpy.zeros((1, INPUTS), "f4")
    sigmoid = lambda a: 1 / (1 + numpy.exp(-a))
    i, _, g, o = numpy.split(tensors["lstm.bias_ih_l0"] + tensors["lstm.bias_hh_l0"], 4)
    h = sigmoid(o) * numpy.tanh(sigmoid(i) * numpy.tanh(g))
    numpy.testing.assert_allclose(model.run(x)[0], tensors["fc.weight"] @ h + tensors["fc.bias"], rtol=1e-5, atol=1e-6)


def test_a_model_becomes_a_state_dict(arrays, tmp_path):
    path, tensors = arrays
    sluice.convert(path, tmp_path / "model")
    exported = sluice.convert(tmp_path / "model", tmp_path / "back.safetensors", to="torch", verify=True)
    assert exported.written == 0 and "Read back from the disk" in exported.text
    report = sluice.convert(tmp_path / "back.safetensors", tmp_path / "again", verify=True)
    assert report.layers == ["stack.l0: LSTM 4 -> 6", "output: linear 6 -> 3"]
    x = numpy.random.default_rng(2).normal(size=(5, INPUTS)).astype("f4")
    first, second = (sluice.load(tmp_path / name).run(x) for name in ("model", "again"))
    assert numpy.array_equal(first, second)


def test_a_model_becomes_a_packed_buffer(arrays, tmp_path):
    path, tensors = arrays
    sluice.convert(path, tmp_path / "x.npz", to="cudnn")
    packed = numpy.load(tmp_path / "x.npz")["weights"]
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    assert numpy.array_equal(packed, numpy.concatenate([tensors[f"lstm.{name}"].ravel() for name in names]))
    sluice.convert(path, tmp_path / "model")
    sluice.convert(tmp_path / "x.npz", tmp_path / "again", map=tmp_path / "x.npz.toml", verify=True)
    x = numpy.random.default_rng(2).normal(size=(5, INPUTS)).astype("f4")
    first, second = (sluice.load(tmp_path / name).run(x) for name in ("model", "again"))
    assert numpy.array_equal(first, second)
    with pytest.raises(ValueError, match="gpu"):
        sluice.convert(path, device="gpu")


def test_answers_and_refusals(arrays, tmp_path):
    path, _ = arrays
    assert sluice.convert(path, answers={"target": "classes"}).layers[-1] == "fc: linear 6 -> 3, softmax"
    with pytest.raises(ValueError, match="does not ask for 'forget'"):
        sluice.convert(path, answers={"forget": 1})
    with pytest.raises(ValueError, match="no recurrent module 'gru'; it has: lstm"):
        sluice.convert(path, subgraph="gru")
    with pytest.raises(TypeError, match="pad is '0'; an id is an int"):
        sluice.convert(path, pad="0")
    assert not (tmp_path / "model").exists()
