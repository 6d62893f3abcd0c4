"""Runs the source of a conversion in its own program, and compares the outputs: sluice.convert(verify_with=...)."""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy

from . import _models
from ._check import check
from ._native import Error

#: Steps of each sequence that is compared.
_STEPS = (24, 7, 1)
#: The largest difference, relative to the largest output: two float32 programs after rounding grew from step to step.
_TOLERANCE = 1e-4

_Run = Callable[[Any], Any]  # the outputs for an array [steps, features], or for ids [steps]


def verify_with(program: str, source: str, convert: Callable[..., Any], seed: int) -> float:
    """The largest difference between the source in `program` and the model that `convert(target, kind)` makes.

    Raises sluice.Error if it is more than rounding, ImportError if the program is not installed.
    """
    runners = {"torch": _torch, "keras": _keras, "tensorflow": _tensorflow, "onnxruntime": _onnxruntime}
    if program not in runners:
        raise ValueError(f"verify_with is {program!r}; use one of {', '.join(runners)}")
    run = runners[program](source)
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        report = convert(model, None)
        if report.kind == "language_model":  # it would begin each text with an id of its own
            model = os.path.join(folder, "tagger")
            report = convert(model, "tagger")
        config = _configuration(model)
        draw = numpy.random.default_rng(seed)
        worst = 0.0
        for steps in _STEPS:
            x = _input(report.kind, config, steps, draw)
            ours = _outputs(report.kind, model, os.path.join(folder, "layers.safetensors"), x)
            outputs = [numpy.asarray(output, "f8") for output in run(x)]
            worst = max(worst, _difference(report.layers[-1].rpartition(", ")[2], ours, outputs))
    return worst


def _configuration(model: str) -> dict[str, Any]:
    header = _header(os.path.join(model, "model.safetensors"))[0]
    for text in header["__metadata__"].values():
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict) and "architecture" in found:
            inner = found["architecture"]
            return json.loads(inner) if isinstance(inner, str) else inner
    raise Error(f"'{model}' has no configuration")


def _header(path: str) -> tuple[dict[str, Any], int]:
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), 8 + length


def _input(kind: str, config: dict[str, Any], steps: int, draw: Any) -> Any:
    if kind == "features":
        return draw.normal(size=(steps, config["features"])).astype("f4")
    # The four special ids are Sluice's own. The source's id 0 may be padding, which has no text.
    return draw.integers(1, max(2, config["vocabulary"] - 4), size=steps)


def _difference(activation: str, ours: Any, outputs: list[Any]) -> float:
    """From the output of the source that is nearest: a source may put out more than what was converted."""
    fitting = [theirs for theirs in outputs if theirs.size == ours.size or activation == "sigmoid"]
    if not fitting:
        shapes = ", ".join(str(list(output.shape)) for output in outputs)
        raise Error(f"the source puts out numbers of shape {shapes}, the model {list(ours.shape)}")
    worst, scale = min((_apart(activation, ours, theirs) for theirs in fitting), key=lambda found: found[0] / found[1])
    if not worst <= _TOLERANCE * scale:
        raise Error(f"the model differs from its source by up to {worst:.2g}, of numbers up to {scale:.2g}, which is "
                    "more than rounding; please report this with the file")
    return worst


def _apart(activation: str, ours: Any, theirs: Any) -> tuple[float, float]:
    """The largest difference and the largest number. Probabilities are compared by their logarithms, so that small ones
    count."""
    if activation in ("softmax", "log_softmax", "sigmoid"):
        shifted = ours - ours.max(axis=-1, keepdims=True)
        ours = shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))
        if activation == "sigmoid":
            ours = ours[..., 1:]
        if theirs.min() >= 0:
            theirs = numpy.log(numpy.maximum(theirs, 1e-38))
    if ours.size != theirs.size:
        return float("inf"), 1.0
    ours, theirs = ours.ravel(), theirs.ravel()
    return float(numpy.abs(ours - theirs).max()), float(max(numpy.sqrt((theirs**2).mean()), 1e-3))


def _outputs(kind: str, model: str, file: str, x: Any) -> Any:
    words = x if kind == "features" else [str(number) for number in x]
    check(model, [" ".join(words) if kind == "classifier" else words], record=file)
    header, begin = _header(file)
    stack = [name for name in header if name.startswith(("stack.l", "recurrent.l")) and "_n" not in name]
    entry = header["output" if "output" in header else sorted(stack, key=lambda name: int(name.rpartition(".l")[2]))[-1]]
    first, last = entry["data_offsets"]
    with open(file, "rb") as data:
        data.seek(begin + first)
        return numpy.frombuffer(data.read(last - first), "<f4").reshape(entry["shape"]).astype("f8")


def _keras(source: str) -> _Run:
    import keras

    model = keras.models.load_model(source, compile=False)
    return lambda x: [model.predict_on_batch(x[None])]


def _onnxruntime(source: str) -> _Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    inputs = {one.name: one for one in session.get_inputs()}
    lengths = inputs.pop("lengths", None)  # of an export of ours
    if len(inputs) != 1:
        raise Error(f"'{source}' has {len(inputs)} inputs: {', '.join(inputs)}; only models of one input are run")
    ((name, spec),) = inputs.items()
    kinds = {"tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(double)": "f8", "tensor(float)": "f4"}

    def run(x: Any) -> Any:
        feed = {} if lengths is None else {"lengths": numpy.array([len(x)], "i4")}
        return _in_both_layouts(lambda row: session.run(None, {**feed, name: row}), x.astype(kinds.get(spec.type, "f4")))

    return run


def _in_both_layouts(run: _Run, x: Any) -> list[Any]:
    """The outputs for one row with time first, and with the batch first. The right ones are nearer to ours."""
    outputs, errors = [], []
    for row in (x[:, None], x[None]):
        try:
            outputs += run(row)
        except Exception as error:  # a fixed axis may refuse the other layout
            errors.append(error)
    if not outputs:
        raise errors[0]
    return outputs


def _tensorflow(source: str) -> _Run:
    import tensorflow

    if not os.path.isdir(source):
        raise ValueError("tensorflow runs SavedModels (a folder): a checkpoint or a frozen graph does not say what is "
                         "its input")
    signature = tensorflow.saved_model.load(source).signatures["serving_default"]
    ((_, spec),) = signature.structured_input_signature[1].items()
    (name,) = signature.structured_input_signature[1]
    return lambda x: [output.numpy()
                      for output in signature(**{name: tensorflow.constant(x[:, None], spec.dtype)}).values()]


def _torch(source: str) -> _Run:
    import torch

    try:
        script = torch.jit.load(source, map_location="cpu").eval()
    except RuntimeError:
        raise ValueError(f"'{source}' is no TorchScript archive; torch can't run a state dict without its class") from None

    def run_row(row: Any) -> Any:
        with torch.no_grad():
            y = script(torch.from_numpy(row))
        return [one.numpy() for one in (y if isinstance(y, tuple) else (y,)) if isinstance(one, torch.Tensor)]

    return lambda x: _in_both_layouts(run_row, x)


def _main() -> None:
    """What `sluice convert --verify-with PROGRAM` runs: a request as JSON on standard input."""
    from ._convert import report_of

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow tells at length what it lacks
    request = json.load(sys.stdin)
    program, seed = request.pop("program"), request["seed"]

    def convert(target: str, kind: Any) -> Any:
        try:
            found = _models.convert(**{**request, "target": target, "kind": kind or request["kind"]})
        except TypeError:  # other arguments than this package's
            raise RuntimeError("this Python package of Sluice is of another version than the program; install the one "
                               "that came with it") from None
        return report_of(found)

    try:
        difference = verify_with(program, request["source"], convert, seed)
    except Exception as error:  # the program that called this has one sentence for people
        print(str(error) or type(error).__name__)
        sys.exit(3)
    print(f"{difference:.2g}")


if __name__ == "__main__":
    _main()
