"""Wrong input to models is refused with the right exception, in one sentence, and leaves the model usable."""

import os
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import pytest

import sluice

X = np.zeros((4, 2), np.float32)


@pytest.mark.parametrize("kind, call, error, said", [
    ("seq2seq", lambda m: m.decode(b"a"), TypeError, "bytes"),
    ("seq2seq", lambda m: m.decode(3), TypeError, "int"),
    ("seq2seq", lambda m: m.decode(["a", None]), TypeError, r"inputs\[1\]"),
    ("seq2seq", lambda m: m.decode("a\ud800"), ValueError, "surrogate"),
    ("seq2seq", lambda m: m.decode("a", beam=0), ValueError, "beam is 0"),
    ("seq2seq", lambda m: m.decode("a", beam=1.5), TypeError, "beam is of type float"),
    ("seq2seq", lambda m: m.decode("a", nbest=9), ValueError, "nbest"),
    ("seq2seq", lambda m: m.decode("a", temperature=2), ValueError, "sample=True"),
    ("seq2seq", lambda m: m.decode("a", sample=True, top_p=2), ValueError, "top_p"),
    ("seq2seq", lambda m: m.decode(["a", "b"], prefixes=["a"]), ValueError, "prefix"),
    ("seq2seq", lambda m: m.decode("a", sample=True, seed=-1), ValueError, "seed is -1"),
    ("seq2seq", lambda m: m.decode("a", length_penalty="1"), TypeError, "length_penalty"),
    ("seq2seq", lambda m: m.decode(["a", "b"], forced=[["a"]]), ValueError, "forced words are given for 1 input"),
    ("seq2seq", lambda m: m.decode(["a", "b"], forced=[["a"], ["unheard"]]), ValueError, "'unheard' of input 2"),
    ("seq2seq", lambda m: m.decode("a", forced=["a"], sample=True), ValueError, "can't be forced"),
    ("seq2seq", lambda m: m.decode("a", forced=[["a", 3]]), TypeError, r"forced\[0\]\[1\]"),
    ("seq2seq", lambda m: m.decode("a", banned=3), TypeError, "banned"),
    ("seq2seq", lambda m: m.decode("a", groups=2), ValueError, "2 groups"),
    ("seq2seq", lambda m: m.decode("a", coverage_penalty="1"), TypeError, "coverage_penalty"),
    ("seq2seq", lambda m: m.decode("a", without_replacement=True), ValueError, "sample=True"),
    ("seq2seq", lambda m: m.decode("a", sample=True, top_k=2, without_replacement=True), ValueError, "top_k"),
    ("language_model", lambda m: m.generate(forced=["4"]), ValueError, "takes a beam"),
    ("language_model", lambda m: m.generate(beam=4, groups=3), ValueError, "3 groups"),
    ("seq2seq", lambda m: m.score(["ab"]), ValueError, "pair"),
    ("seq2seq", lambda m: m.score([("a", 1)]), TypeError, r"pairs\[0\]\[1\]"),
    ("language_model", lambda m: m.generate(samples=0), ValueError, "samples is 0"),
    ("language_model", lambda m: m.generate(beam=2, seed=3), ValueError, "beam=None"),
    ("language_model", lambda m: m.generate(features=X), ValueError, "shape"),
    ("language_model", lambda m: m.generate(7), TypeError, "prefix"),
    ("tagger", lambda m: m.tag([["a b"]]), sluice.Error, "white space"),
    ("tagger", lambda m: m.tag([3]), TypeError, r"sentences\[0\]"),
    ("tagger", lambda m: m.tag("a", batch=-1), ValueError, "batch"),
    ("classifier", lambda m: m.classify([b"a"]), TypeError, r"texts\[0\]"),
    ("features", lambda m: m.run(X[:, :1]), ValueError, r"shape \(4, 1\)"),
    ("features", lambda m: m.run([X, X[0]]), ValueError, r"sequences\[1\]"),
    ("features", lambda m: m.run(X.astype(int)), TypeError, "int64"),
    ("features", lambda m: m.run("text"), TypeError, "sequences"),
    ("features", lambda m: m.run(X * np.nan), ValueError, "nan"),
    ("features", lambda m: m.run(X, np.zeros(3, bool)), ValueError, "resets"),
    ("features", lambda m: m.run(X, np.zeros(4)), TypeError, "float64"),
    ("features", lambda m: m.run([X, X], [None]), ValueError, "1 resets for 2"),
    ("features", lambda m: m.stream().run(X[0, :1]), ValueError, "shape"),
    ("features", lambda m: m.stream().run(X + np.inf), ValueError, "inf"),
])
def test_wrong_input(model, kind, call, error, said):
    with pytest.raises(error, match=said) as raised:
        call(model(kind))
    assert type(raised.value) is error
    assert len(str(raised.value).splitlines()) == 1
    model(kind).info()


def test_loading(trained, tmp_path):
    folder = trained("features").model
    with pytest.raises(FileNotFoundError, match="there is no"):
        sluice.load(tmp_path / "none")
    with pytest.raises(ValueError, match="unknown precision 'float8'"):
        sluice.load(folder, precision="float8")
    with pytest.raises(ValueError, match="unknown device"):
        sluice.load(folder, device="tpu")
    with pytest.raises(ValueError, match="plan_cache_bytes"):
        sluice.load(folder, plan_cache_bytes=-2)
    with pytest.raises(TypeError):
        sluice.load(3)
    with pytest.raises(TypeError, match="device is of type int"):
        sluice.load(folder, device=0)
    damaged = tmp_path / "model.safetensors"
    damaged.write_bytes(b"no model")
    with pytest.raises(sluice.Error) as raised:
        sluice.load(damaged)
    assert type(raised.value) is sluice.Error
    with pytest.raises(sluice.DeviceError):
        sluice.load(folder, device="cuda:77")


def test_training(tmp_path):
    with pytest.raises(ValueError, match="did you mean"):
        sluice.train({"training.max_epoch": 3})
    with pytest.raises(ValueError, match="integer"):
        sluice.train({"training": {"max_epochs": "many"}})
    with pytest.raises(TypeError, match="training.seed"):
        sluice.train({"training.seed": None})
    with pytest.raises(TypeError, match="name of a setting"):
        sluice.train({3: 4})
    with pytest.raises(TypeError, match="metrics"):
        sluice.train({}, metrics=3)
    with pytest.raises(FileNotFoundError):
        sluice.train(tmp_path / "none.toml")
    with pytest.raises(FileNotFoundError):
        sluice.train({"data.tsv": tmp_path / "none.tsv", "output.directory": tmp_path / "run"}, quiet=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        sluice.train({"data.tsv": tmp_path / "file", "output.directory": tmp_path / "file" / "run"}, quiet=True)


def test_a_file_that_cannot_be_written(model, tmp_path):
    stream = model("features").stream()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        stream.save(tmp_path / "file" / "state")
    with pytest.raises(OSError):
        with sluice.profile(tmp_path):
            model("features").run(X)
    assert model("features").run(X).shape == (4, 1)


def test_warnings_are_pythons(model):
    with pytest.warns(UserWarning, match="1 of 2 tokens in the input is not in") as caught:
        model("seq2seq").decode("a unheard")
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning) as caught:
        model("classifier").stream().classify("unheard")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="not in"):
            model("tagger").tag("mr unheard")
        model("tagger").tag("mr na")


def test_a_build_without_models_says_so(tmp_path):
    (tmp_path / "sluice").mkdir()
    for path in pathlib.Path(sluice.__file__).parent.iterdir():
        if not path.name.startswith("_models"):
            (tmp_path / "sluice" / path.name).symlink_to(path)
    program = ("import sluice, sluice.numpy\n"
               "try: sluice.load\n"
               "except ImportError as error: print(error)\n"
               "try: sluice.nothing\n"
               "except AttributeError as error: print(error)\n")
    said = subprocess.check_output([sys.executable, "-c", program], text=True,
                                   env={**os.environ, "PYTHONPATH": str(tmp_path)}).splitlines()
    assert len(said) == 2 and "has layers only and no models" in said[0] and "nothing" in said[1]


def test_layers_load_no_models():
    program = "import sluice, sluice.numpy, sys; print('sluice._models' in sys.modules, 'libsluice_core' in open('/proc/self/maps').read())"
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["False", "False"]


def test_libraries_of_models_stay_local():
    program = ("import ctypes, sluice.models\n"
               "assert 'sluice/lib/libsluice_core.so' in open('/proc/self/maps').read()\n"
               "for name in ('sluice_model_load', 'sluice_version'):\n"
               "    assert not hasattr(ctypes.CDLL(None), name), name\n")
    subprocess.run([sys.executable, "-c", program], check=True)
