"""sluice.check: what the program says, planted differences, and what is refused."""

import json

import numpy as np
import pytest
from model_cases import program

import sluice
from sluice import models

INPUTS = {"seq2seq": ["a b c", "h g", "d"], "language_model": ["16 is a square", "9"],
          "classifier": ["the cat", "old dog", ""], "tagger": ["mr na", ["in", "nb", "the"]]}


@pytest.fixture
def frames():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, (time, 2)).astype(np.float32) for time in (4, 9, 1)]


def widths(report):
    return {layer.name: layer.numbers for layer in report.layers}


@pytest.mark.parametrize("kind", INPUTS)
def test_implementations_agree(trained, kind):
    report = sluice.check(trained(kind).model, INPUTS[kind], against="implementation=portable")
    assert report.agrees and report.first_to_differ is None and report.inputs == len(INPUTS[kind])
    assert report.layers[-1].name == "output" and all(layer.numbers > 0 for layer in report.layers)
    assert str(report).endswith(("agree within their tolerance.\n", "are equal.\n"))


def test_is_the_programs(trained, tmp_path):
    folder = trained("classifier").model
    (tmp_path / "in.txt").write_text("\n".join(INPUTS["classifier"]) + "\n")
    report = sluice.check(sluice.load(folder), INPUTS["classifier"], against="precision=int8", tolerance=1.0)
    printed = json.loads(program("check", folder, tmp_path / "in.txt", "--against=precision=int8", "--tolerance=1",
                                 "--format=json"))
    assert [layer.name for layer in report.layers] == [layer["name"] for layer in printed["layers"]]
    assert [layer.largest for layer in report.layers] == [layer["largest"] for layer in printed["layers"]]
    assert report.reference == printed["reference"]


def test_a_recording_is_a_reference_and_so_are_arrays(trained, frames, tmp_path):
    folder, file = trained("features").model, tmp_path / "layers.safetensors"
    assert sluice.check(folder, frames, record=file) is None
    same = sluice.check(folder, frames, against=file)
    assert same.agrees and all(layer.verdict == "identical" for layer in same.layers)
    answers = sluice.load(folder).run(frames)
    output = np.zeros((9, 3, answers[0].shape[1]), np.float32)
    for row, answer in enumerate(answers):
        output[:len(answer), row] = answer
    assert sluice.check(folder, frames, against={"output": output}).agrees
    output[5, 1, 0] += 0.25
    report = sluice.check(folder, frames, against={"output": output})
    assert report.reference == "the arrays given" and "\nreference  the arrays given\n" in str(report)
    first = report.layer("output").first
    assert report.first_to_differ == "output" and (first.step, first.row, first.unit) == (5, 1, 0)
    assert first.reference - first.value == pytest.approx(0.25, abs=1e-5)
    assert report.layer("output").beyond == 1 and "stack.l0" in report.not_compared
    output[5, 1, 0] = np.nan
    assert sluice.check(folder, frames, against={"output": output}).layer("output").largest == np.inf


@pytest.mark.parametrize("dtype, unit", [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_the_tolerance_allows_for_the_rounding_of_16_bits(trained, frames, tmp_path, dtype, unit):
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    folder, file = trained("features").model, tmp_path / "layers.safetensors"
    sluice.check(folder, frames, record=file)
    exact = recorded(file, "stack.l0")
    whole = sluice.check(folder, frames, against={"stack.l0": exact}).layer("stack.l0")
    assert whole.verdict == "identical"
    double = sluice.check(folder, frames, against={"stack.l0": exact.astype(np.float64)}).layer("stack.l0")
    assert double.verdict == "identical" and double.tolerance == whole.tolerance
    layer = sluice.check(folder, frames, against={"stack.l0": exact.astype(dtype)}).layer("stack.l0")
    assert layer.verdict == "agrees" and layer.tolerance == pytest.approx(8 * (2**-19 + unit))


def recorded(file, layer):
    """A float32 tensor of a safetensors file."""
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    entry = json.loads(content[8:8 + size])[layer]
    begin, end = entry["data_offsets"]
    return np.frombuffer(content[8 + size:][begin:end], "<f4").reshape(entry["shape"])


def test_arrays_may_hold_the_inputs(trained, tmp_path):
    folder, file, texts = trained("classifier").model, tmp_path / "layers.safetensors", INPUTS["classifier"]
    sluice.check(folder, texts, record=file)
    arrays = {"output": recorded(file, "output"), "input.source_lengths": np.array([2, 2, 0])}
    with pytest.raises(ValueError, match="^against was recorded with other inputs: 'input.source_lengths' is "):
        sluice.check(folder, ["the", *texts[1:]], against=arrays)
    with pytest.raises(ValueError, match="^against was recorded with 3 inputs, but this run has 2 inputs"):
        sluice.check(folder, texts[:2], against=arrays)


def test_refuses_in_one_sentence(trained, frames, tmp_path):
    folder = trained("features").model
    with pytest.raises(ValueError, match="nothing to do"):
        sluice.check(folder, frames)
    with pytest.raises(ValueError, match="it must be a file, or device="):
        sluice.check(folder, frames, against="precison=int8")
    with pytest.raises(ValueError, match="where precision= stands twice; leave one out"):
        sluice.check(folder, frames, against="precision=int8, precision=float32")
    with pytest.raises(TypeError, match="against is of type list; it must be a str, a path or a dict of arrays"):
        sluice.check(folder, frames, against=frames)
    for number in (3.0, [3.0]):
        with pytest.raises(ValueError, match=r"inputs\[0\] has shape \(\); it must be \[time, features\]"):
            sluice.check(folder, number, against="precision=int8")
    with pytest.raises(ValueError, match="precision tf32 is a GPU's, not a CPU's"):
        sluice.check(folder, frames, against="precision=tf32")
    with pytest.raises(ValueError, match="without targets"):
        sluice.check(folder, frames, against="precision=int8", targets=["a"])
    with pytest.raises(FileNotFoundError):
        sluice.check(folder, frames, against=tmp_path / "none.safetensors")
    with pytest.raises(ValueError, match=r"^against: tensor 'output' is \[1, 2, 3\], but \[steps, inputs, units\] of this"):
        sluice.check(folder, frames, against={"output": np.zeros((1, 2, 3))})
    with pytest.raises(ValueError, match="^against: tensor 'outputs' is no layer of this model"):
        sluice.check(folder, frames, against={"outputs": np.zeros((9, 3, 1))})
    with pytest.raises(TypeError, match=r"against\['output'\] is int64; it must be float32, float64, float16 or bfloat16"):
        sluice.check(folder, frames, against={"output": np.zeros((9, 3, 1), np.int64)})
    with pytest.raises(ValueError, match="nothing to check on"):
        sluice.check(folder, [], against="precision=int8")
    with pytest.raises(ValueError, match="but .* was trained on frames of 2"):
        sluice.check(folder, [np.zeros((3, 5), np.float32)], against="precision=int8")


def test_names(trained):
    assert sluice.check is models.check
    report = sluice.check(trained("seq2seq").model, "a b", against="implementation=portable", targets=["b a"])
    assert isinstance(report, models.CheckReport) and isinstance(report.layers[0], models.LayerCheck)
    assert [name for name in widths(report) if not name.startswith(("encoder", "decoder"))] == [
        "source_embedding", "target_embedding", "output"]
