"""sluice.convert(verify_with=...) and `sluice convert --verify-with`: the source's own program agrees, or a change shows."""

import os
import pathlib
import subprocess
import sys

import numpy
import pytest

import sluice


def keras_model(path):
    keras = pytest.importorskip("keras")
    layers = keras.layers
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((None,)), layers.Embedding(20, 6),
                              layers.Bidirectional(layers.LSTM(5, return_sequences=True)), layers.LSTM(4),
                              layers.Dense(3, activation="softmax")])
    model.save(path)
    return path


def script(path):
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = torch.nn.GRU(4, 5, 2)
            self.fc = torch.nn.Linear(5, 2)

        def forward(self, x):
            return self.fc(self.rnn(x)[0])

    torch.manual_seed(1)
    torch.jit.script(Model()).save(path)
    return path


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_keras(name, tmp_path):
    report = sluice.convert(keras_model(tmp_path / name), tmp_path / "model", verify=True, verify_with="keras")
    assert report.kind == "classifier"
    assert report.difference < 1e-5


def test_torch_onnxruntime_and_tensorflow(tmp_path):
    source = script(str(tmp_path / "model.pt"))
    assert sluice.convert(source, tmp_path / "model", verify_with="torch").difference < 1e-5
    saved = tmp_path / "saved"
    sluice.convert(tmp_path / "model", saved, to="savedmodel")
    assert sluice.convert(saved, verify_with="tensorflow").difference < 1e-5


def test_another_model_shows(tmp_path):
    """A source that changes between reading and running is what a wrong conversion would be."""
    from sluice import _verify_with

    first, second = script(str(tmp_path / "first.pt")), script(str(tmp_path / "second.pt"))
    import torch

    module = torch.jit.load(second)
    module.fc.bias.data += 0.01
    module.save(second)
    convert = lambda target, kind: sluice.convert(first, target, kind=kind)
    assert _verify_with.verify_with("torch", first, convert, 1) < 1e-5
    with pytest.raises(sluice.Error, match="differs from its source by up to 0.01"):
        _verify_with.verify_with("torch", second, convert, 1)


def test_what_is_not_known(tmp_path):
    numpy.savez(tmp_path / "x.npz", a=numpy.zeros(3))
    with pytest.raises(ValueError, match="use one of torch, keras, tensorflow, onnxruntime"):
        sluice.convert(tmp_path / "x.npz", verify_with="paddle")


def test_the_modules_main(tmp_path):
    source = keras_model(str(tmp_path / "model.keras"))
    request = ('{"program": "keras", "source": "%s", "to": "sluice", "kind": "", "words": "", "labels": "", '
               '"target_words": "", "device": "cpu", "pad": null, '
               '"unknown": null, "begin": null, "end": null, "subgraph": "", "map": "", "answers": [], "verify": false, '
               '"seed": 1}' % source)
    done = subprocess.run([sys.executable, "-m", "sluice._verify_with"], input=request, text=True, capture_output=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(done.stdout) < 1e-5
    other = subprocess.run([sys.executable, "-m", "sluice._verify_with"], input=request.replace("target_words", "words_of"),
                           text=True, capture_output=True, timeout=300)
    assert other.returncode == 3
    assert "of another version than the program" in other.stdout


def test_the_program(tmp_path):
    """The program starts the module of this package."""
    program = pathlib.Path(os.environ.get("SLUICE_PROGRAM", "build/sluice"))
    if not program.exists():
        pytest.skip("there is no program at build/sluice, or at SLUICE_PROGRAM")
    done = subprocess.run([program, "convert", keras_model(str(tmp_path / "model.keras")), "--verify-with", "keras"],
                          env={**os.environ, "SLUICE_PYTHON": sys.executable}, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "own program computes the same" in done.stdout
