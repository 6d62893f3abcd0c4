"""sluice.check."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _models
from ._answers import checked_text, checked_texts, items_of
from ._native import Error
from ._options import check_names, check_numbers

_SIDE = ("device", "precision", "implementation")
_STORED = {"float32": ("F32", "<f4"), "float64": ("F64", "<f8"), "float16": ("F16", "<f2")}


class LayerPlace(NamedTuple):
    """A number of a layer's output; all three count from 0."""

    step: int
    row: int  #: the input
    unit: int
    value: float
    reference: float


class LayerCheck(NamedTuple):
    """How the outputs of one layer compare, over all steps of all inputs."""

    name: str
    verdict: str  #: "identical", "agrees" or "differs"
    numbers: int  #: that were compared: padding is not
    beyond: int  #: of them, those that differ by more than the bound
    largest: float  #: difference; inf if a number is not finite on one side alone
    mean: float  #: difference
    scale: float  #: root mean square of the reference
    tolerance: float  #: numbers agree if |value - reference| <= tolerance * (scale + |reference|)
    largest_at: Optional[LayerPlace]  #: None if all are equal
    first: Optional[LayerPlace]  #: the first beyond the bound


class CheckReport(NamedTuple):
    """What a comparison found. str() of it is a table and a sentence."""

    agrees: bool
    first_to_differ: Optional[str]  #: in the order in which data flow
    side: str  #: "float32 on cpu, stack=avx512"
    reference: str
    inputs: int
    layers: list[LayerCheck]  #: in the order in which data flow
    not_compared: list[str]  #: layers that one side alone has
    text: str

    def __str__(self) -> str:
        return self.text

    def layer(self, name: str) -> LayerCheck:
        """The layer of this name; KeyError if there is none."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise KeyError(name)


def check(model: Any, inputs: Any, *, against: Any = None, record: Union[str, os.PathLike[str], None] = None,
          targets: Optional[list[str]] = None, features: Any = None, resets: Any = None, tolerance: float = 0.0,
          device: Optional[str] = None, precision: Optional[str] = None, implementation: str = "auto",
          trust_segmenter: bool = False, source_segmenter: Optional[str] = None,
          target_segmenter: Optional[str] = None) -> Optional[CheckReport]:
    """Runs a model on the same inputs in two ways and compares what each layer puts out, as `sluice check` does.

    model: what load() takes, or what it returned, which is opened anew.
    inputs: what the model's kind takes: texts (seq2seq, language models, classifiers), sentences (taggers: texts or lists
        of tokens) or arrays [time, features].
    against: "precision=bfloat16", "device=cuda" or "implementation=portable", or several as "device=cuda,precision=tf32";
        the path of a safetensors file with the layers' outputs; or these outputs, a dict of arrays [steps, inputs, units]
        by the layers' names. None: nothing is compared.
    record: a safetensors file to write the outputs of all layers to.
    targets: of a seq2seq model, what the decoder is fed for each text; None: the model's greedy answers.
    features: of a language model on features, [texts, features]. resets: of a model on features, as FeatureModel.run.
    tolerance: of all layers; 0: one that follows from the precisions.
    device, precision: of this side; None: those of an opened model, else "cpu" and "auto". implementation: of this side.
    trust_segmenter, source_segmenter, target_segmenter: as load.

    Returns None without `against`. Raises what load raises, sluice.Error for a file that doesn't fit the model, and
    ValueError for such arrays.
    """
    if against is None and record is None:
        raise ValueError("nothing to do: give against, or record")
    path, opened_on, opened_in = getattr(model, "_opened", None) or (os.fspath(model), "cpu", "auto")
    device = opened_on if device is None else device
    precision = opened_in if precision is None else precision
    check_names(path=path, device=device, precision=precision, implementation=implementation,
                source_segmenter=source_segmenter or "", target_segmenter=target_segmenter or "")
    check_numbers(tolerance=tolerance)
    kind = _models.kind_of_model(path)
    given = _inputs_of(kind, inputs, targets, features, resets)
    if not isinstance(against, (type(None), str, os.PathLike, Mapping)):
        raise TypeError(f"against is of type {type(against).__name__}; it must be a str, a path or a dict of arrays")
    place = _models.Place(device, precision, -1)
    segmenters = _models.SegmenterChoice(bool(trust_segmenter), source_segmenter, target_segmenter)
    side = None if against is None or isinstance(against, Mapping) else _side_of(os.fspath(against))
    checker = _models.Checker.load(path, place, implementation, segmenters)
    if record is not None:
        checker.record(os.fspath(record), given)
    if against is None:
        return None
    if side is not None:
        other = _models.Place(side.get("device", device), side.get("precision", precision), -1)
        found = checker.compare(other, side.get("implementation", implementation), given, tolerance)
    elif isinstance(against, Mapping):
        return _compare_arrays(checker, against, given, tolerance)
    else:
        found = checker.compare_file(os.fspath(against), given, tolerance)
    return _report_of(*found)


def _side_of(words: str) -> Optional[dict[str, str]]:
    """{"device": "cuda"}; None for the name of a file."""
    if "=" not in words or os.path.exists(words):
        return None
    side = {}
    for word in words.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if name not in _SIDE or not value:
            raise ValueError(f"against is {words!r}; it must be a file, or device=, precision= or implementation= with a "
                             "value, several with commas between them")
        if name in side:
            raise ValueError(f"against is {words!r}, where {name}= stands twice; leave one out")
        side[name] = value
    return side


def _compare_arrays(checker: Any, arrays: Mapping[str, Any], inputs: Any, tolerance: float) -> CheckReport:
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "reference.safetensors")
        _write_arrays(file, arrays)
        try:
            report, text = checker.compare_file(file, inputs, tolerance)
        except Error as error:
            if f"'{file}'" not in str(error):
                raise
            raise ValueError(str(error).replace(f"'{file}'", "against")) from None
    name = "the arrays given"
    return _report_of(report, text.replace(file, name, 1))._replace(reference=name)


def _inputs_of(kind: str, inputs: Any, targets: Any, features: Any, resets: Any) -> Any:
    if targets is not None and kind != "seq2seq":
        raise ValueError(f"a model of kind {kind} is checked without targets")
    if features is not None and kind != "language_model":
        raise ValueError(f"a model of kind {kind} is checked without features")
    if resets is not None and kind != "features":
        raise ValueError(f"a model of kind {kind} is checked without resets")
    texts: list[str] = []
    sentences: list[list[str]] = []
    arrays: list[Any] = []
    marks: list[Any] = []
    vectors = None
    if kind == "tagger":
        for i, sentence in enumerate(items_of([inputs] if isinstance(inputs, str) else inputs, "inputs")):
            words = sentence.split() if isinstance(sentence, str) else items_of(sentence, f"inputs[{i}]")
            sentences.append([checked_text(word, f"inputs[{i}][{j}]") for j, word in enumerate(words)])
    elif kind == "features":
        from . import _frames

        single = not isinstance(inputs, (list, tuple)) and _frames.dimensions(inputs) == 2
        many = list(inputs) if hasattr(inputs, "__iter__") and not single else [inputs]
        arrays = [_frames.as_frames(one, f"inputs[{i}]", None) for i, one in enumerate(many)]
        marks = _frames.as_many_resets([resets] if single else resets, arrays)
    else:
        texts = checked_texts(inputs, "inputs")[0]
        if features is not None:
            from ._frames import as_frames

            vectors = as_frames(features, "features", None, rows="texts")
    wanted = [] if targets is None else checked_texts(targets, "targets")[0]
    return _models.CheckInputs(texts, wanted, sentences, arrays, marks, vectors)


def _write_arrays(file: str, arrays: Mapping[str, Any]) -> None:
    """A safetensors file, whose dtypes are those of the arrays: the tolerance allows for their rounding."""
    header: dict[str, Any] = {}
    parts = []
    end = 0
    for name, values in arrays.items():
        check_names(name=name)
        dtype, shape, content = _stored(name, values)
        parts.append(content)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(content)]}
        end += len(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text + b"".join(parts))


def _stored(name: str, values: Any) -> tuple[str, tuple[int, ...], bytes]:
    """dtype, shape and bytes in a safetensors file."""
    import numpy as np

    from ._arrays import as_array

    argument = f"against[{name!r}]"
    if "bfloat16" in str(getattr(values, "dtype", "")):
        # NumPy has no such dtype. Its numbers are the upper halves of float32's.
        wide = as_array(values.float() if hasattr(values, "float") else np.asarray(values).astype(np.float32), argument)
        return "BF16", wide.shape, (np.ascontiguousarray(wide).view("<u4") >> 16).astype("<u2").tobytes()
    array = as_array(values, argument)
    if name.startswith("input.") and array.dtype.kind in "iu":
        return "I64", array.shape, array.astype("<i8").tobytes()
    if array.dtype.name not in _STORED:
        raise TypeError(f"{argument} is {array.dtype}; it must be float32, float64, float16 or bfloat16")
    dtype, layout = _STORED[array.dtype.name]
    return dtype, array.shape, array.astype(layout).tobytes()


def _place_of(place: Optional[dict[str, Any]]) -> Optional[LayerPlace]:
    if place is None:
        return None
    return LayerPlace(place["step"], place["row"], place["unit"], float(place["value"]), float(place["reference"]))


def _report_of(report: str, text: str) -> CheckReport:
    found = json.loads(report)
    layers = []
    for layer in found["layers"]:
        numbers = {name: float(layer[name]) for name in ("largest", "mean", "scale")}
        places = {name: _place_of(layer[name]) for name in ("largest_at", "first")}
        layers.append(LayerCheck(**{**layer, **numbers, **places}))
    return CheckReport(**{**found, "layers": layers, "text": text})
