"""sluice.convert."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _models, _verify_with
from ._check import CheckReport, _report_of
from ._options import check_names

_Path = Union[str, os.PathLike[str]]


class ConvertReport(NamedTuple):
    """What a conversion found and did. str() of it is what `sluice convert` prints."""

    format: str  #: of the source: "a PyTorch file with a state dict of PyTorch"
    kind: str  #: of model
    layers: list[str]  #: "lstm_1: LSTM 40 -> 128"
    found: list[str]  #: conventions, and where they stand
    assumed: list[str]  #: what the source does not say
    left_out: list[str]  #: what the model lacks of the source
    check: Optional[CheckReport]  #: with verify
    text: str
    written: Optional[float] = None  #: largest difference of what was written, read back, from the source
    difference: Optional[float] = None  #: the largest one from the program that verify_with names

    def __str__(self) -> str:
        return self.text


def convert(source: _Path, target: Optional[_Path] = None, *, to: str = "sluice", kind: Optional[str] = None,
            words: Optional[_Path] = None, labels: Optional[_Path] = None, target_words: Optional[_Path] = None,
            pad: Optional[int] = None, unknown: Optional[int] = None, begin: Optional[int] = None, end: Optional[int] = None,
            subgraph: Optional[str] = None, map: Optional[_Path] = None,
            answers: Optional[Mapping[str, object]] = None, verify: bool = False, seed: int = 1,
            verify_with: Optional[str] = None, device: str = "cpu") -> ConvertReport:
    """Brings a model from another program, or takes one there, as `sluice convert` does (docs/interchange.md).

    source: a file, a folder, or the prefix of a checkpoint of TensorFlow; its content tells the format.
    target: what to make: a checkpoint folder, or the target's file, folder or prefix. None: the source is described.
    to: "sluice", "torch", "keras", "tf1", "pb", "savedmodel", "onnx" or "cudnn".
    kind: "features", "language_model", "tagger", "classifier" or "seq2seq"; None: told by the layers.
    words, labels: files with the text of each id, or the name of each label, a line each in their order.
    target_words: the same as words of what an encoder-decoder writes.
    pad, unknown, begin, end: ids with a special meaning; an encoder-decoder reads the first two and writes the others.
    subgraph: the recurrent layer, module or node that is taken alone. map: a file that says what plain arrays are.
    answers: what the source does not say, as --set gives it: {"forget_bias": 1}.
    verify: compare all layers with the source's own equations in double precision, on random input drawn from `seed`;
        what was written is read back from the disk and compared, too.
    verify_with: "torch" (TorchScript archives), "keras", "tensorflow" (SavedModels) or "onnxruntime": the program runs the
        source, too, and the outputs are compared. Words and special ids are left aside meanwhile.
    device: "cuda" or "cuda:N": cuDNN on that GPU says how its packed buffer of weights is laid out. "cpu": its documented
        layout.

    Raises ValueError for what the source leaves open (the message asks for it) and for an option without use,
    FileNotFoundError, NotImplementedError, by name, for what Sluice or the target lacks, TypeError for an id that is no
    int, and sluice.Error for a damaged file, and with verify and verify_with if outputs differ. Then nothing is written.
    """
    for name, value in {"pad": pad, "unknown": unknown, "begin": begin, "end": end}.items():
        if value is not None and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise TypeError(f"{name} is {value!r}; an id is an int, such as {name}=0")
    names = {"source": os.fspath(source), "target": os.fspath(target or ""), "to": to, "kind": kind or "",
             "words": os.fspath(words or ""), "labels": os.fspath(labels or ""),
             "target_words": os.fspath(target_words or ""), "subgraph": subgraph or "", "map": os.fspath(map or ""),
             "device": device}
    check_names(**names)
    pairs = [f"{key}={value}" for key, value in (answers or {}).items()]
    given = {"pad": pad, "unknown": unknown, "begin": begin, "end": end, "answers": pairs, "verify": bool(verify),
             "seed": seed}
    difference = None
    if verify_with is not None:
        bare = {**names, "to": "sluice", "words": "", "labels": "", "target_words": "", "pad": None, "unknown": None,
                "begin": None, "end": None, "answers": pairs, "verify": False, "seed": seed}
        difference = _verify_with.verify_with(verify_with, names["source"], lambda target, other: report_of(
            _models.convert(**{**bare, "target": target, "kind": other or names["kind"]})), seed)
    report = report_of(_models.convert(**names, **given))
    if difference is None:
        return report
    verdict = f"The source in {verify_with} computes the same (largest difference {difference:.2g}).\n"
    return report._replace(difference=difference, text=report.text + verdict)


def report_of(found: dict[str, Any]) -> ConvertReport:
    """The report of _models.convert()."""
    check = found.pop("check")
    return ConvertReport(**found, check=None if check is None else _report_of(*check))
