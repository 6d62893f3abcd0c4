"""sluice.convert."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, Optional, Union

from . import _models
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

    def __str__(self) -> str:
        return self.text


def convert(source: _Path, target: Optional[_Path] = None, *, to: str = "sluice", kind: Optional[str] = None,
            words: Optional[_Path] = None, labels: Optional[_Path] = None, pad: Optional[int] = None,
            unknown: Optional[int] = None, begin: Optional[int] = None, end: Optional[int] = None,
            subgraph: Optional[str] = None, map: Optional[_Path] = None,
            answers: Optional[Mapping[str, object]] = None, verify: bool = False, seed: int = 1) -> ConvertReport:
    """Brings a model from another program, or takes one there, as `sluice convert` does (docs/interchange.md).

    source: a file, a folder, or the prefix of a checkpoint of TensorFlow; its content tells the format.
    target: what to make: a checkpoint folder, or the target's file, folder or prefix. None: the source is described.
    to: "sluice", "torch", "keras", "tf1", "pb", "savedmodel" or "onnx".
    kind: "features", "language_model", "tagger" or "classifier"; None: told by the layers.
    words, labels: files with the text of each id, or the name of each label, a line each in their order.
    pad, unknown, begin, end: ids of the source with a special meaning.
    subgraph: the recurrent layer, module or node that is taken alone. map: a file that says what plain arrays are.
    answers: what the source does not say: {"forget_bias": 1}.
    verify: compare all layers with the source's own equations in double precision, on random input drawn from `seed`.

    Raises sluice.Error: with verify also if a layer differs; then nothing is written.
    """
    names = {"source": os.fspath(source), "target": os.fspath(target or ""), "to": to, "kind": kind or "",
             "words": os.fspath(words or ""), "labels": os.fspath(labels or ""), "subgraph": subgraph or "",
             "map": os.fspath(map or "")}
    check_names(**names)
    pairs = [f"{key}={value}" for key, value in (answers or {}).items()]
    found = _models.convert(**names, pad=pad, unknown=unknown, begin=begin, end=end, answers=pairs, verify=bool(verify),
                            seed=seed)
    check = found.pop("check")
    return ConvertReport(**found, check=None if check is None else _report_of(*check))
