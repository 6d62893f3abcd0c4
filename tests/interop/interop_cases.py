"""What tests of conversions share: models of other programs go to Sluice and back, and compute the same."""

import os
import pathlib

import numpy

import sluice

#: Random hyper-parameters of each format; SLUICE_INTEROP_CASES says otherwise.
CASES = int(os.environ.get("SLUICE_INTEROP_CASES", "200"))
#: Outputs of float32 programs agree to this, relative to the largest output of a case.
TOLERANCE = 1e-5
#: The largest difference so far of each file of tests, relative in the same way; conftest.py prints it.
LARGEST = {}


def assert_same(ours, theirs, what="", tolerance=TOLERANCE):
    ours, theirs = numpy.asarray(ours, "f8"), numpy.asarray(theirs, "f8")
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    scale = max(1.0, float(numpy.abs(theirs).max(initial=0)))
    worst = float(numpy.abs(ours - theirs).max(initial=0))
    file = os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0].split("/")[-1]
    LARGEST[file] = max(LARGEST.get(file, 0.0), worst / scale)
    assert worst <= tolerance * scale, f"{what}: {worst} apart, of numbers up to {scale}"


def outputs_of(folder, x):
    """What a converted model on features puts out for frames [time, features]: logits or values."""
    recorded = pathlib.Path(folder).parent / "layers.safetensors"
    sluice.check(folder, [numpy.asarray(x, "f4")], record=recorded)
    return last_layer(recorded)


def token_outputs_of(folder, ids, kind):
    """The same of a model that reads ids, which are written as numbers."""
    recorded = pathlib.Path(folder).parent / "layers.safetensors"
    words = [str(number) for number in ids]
    sluice.check(folder, [words if kind == "tagger" else " ".join(words)], record=recorded)
    return last_layer(recorded)


def last_layer(path):
    """The output of the first row in a file of `sluice check --record`."""
    from safetensors.numpy import load_file

    return output_of(load_file(path))[:, 0]


def output_of(layers):
    """The output layer, or else the last one of the stack."""
    stack = sorted(name for name in layers if name.startswith(("stack.l", "recurrent.l")) and "_n" not in name)
    return layers["output" if "output" in layers else stack[-1]]


def features_and_ids(folder, x, kind):
    """outputs_of frames or token_outputs_of ids, as the kind of model wants."""
    return outputs_of(folder, x) if kind == "features" else token_outputs_of(folder, x, kind)


def softmax(logits):
    powers = numpy.exp(logits - numpy.max(logits, axis=-1, keepdims=True), dtype="f8")
    return powers / powers.sum(axis=-1, keepdims=True)


def words_beside(path):
    """{text: id} of the words that `sluice convert` writes beside a model."""
    lines = pathlib.Path(f"{path}.words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    return {word: number for number, word in enumerate(lines)}


def without_zeros(values, width):
    """The outputs of the source: a model without an output layer also has the zeros of a direction that it lacks."""
    if values.shape[1] == 2 * width:
        halves = values[:, :width], values[:, width:]
        for zeros, rest in (halves, halves[::-1]):
            if not zeros.any():
                return rest
    return values
