"""sluice.train."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Optional, Union

from . import _models, _profile

Settings = Mapping[str, Any]


class TrainReport(NamedTuple):
    """What came of a training run."""

    directory: str  #: of the run: output.directory
    steps: int  #: done in all, over every resumption
    epochs: int  #: completed
    seconds: float  #: of this call
    best_metric: Optional[float]  #: of the validation that `best` was kept for; None without validation
    best_metric_name: str  #: "loss", "perplexity", "exact match", ...; empty without validation
    best_metric_text: str  #: best_metric for people: "0.1234", "98.20%"
    best_step: int  #: after which it was measured
    rank: int  #: of this process, where mpirun or srun started several

    @property
    def best(self) -> Optional[str]:
        """The folder of the best model; None without validation."""
        return os.path.join(self.directory, "best") if self.best_metric_name else None

    @property
    def last(self) -> str:
        """The folder of the last model, from which a run resumes."""
        return os.path.join(self.directory, "last")

    @property
    def model(self) -> str:
        """The folder to give to load: that of the best model, or of the last."""
        return self.best or self.last


def train(config: Union[str, os.PathLike[str], Settings, None] = None, *, settings: Optional[Settings] = None,
          resume: bool = True, quiet: bool = False,
          metrics: Optional[Callable[[dict[str, Any]], Any]] = None) -> TrainReport:
    """Trains a model as `sluice train` does, to the configuration's end or early stopping.

    config: a TOML file, or a dict of settings: {"data.tsv": "train.tsv", "model": {"hidden": 64}}. docs/training.md and
        `sluice train --example` have the keys.
    settings: a dict of more settings, which replace those of the file (`--set`).
    resume: go on from <output>/last if it is there. If False and it is there, ValueError.
    quiet: no progress on standard error.
    metrics: called with a dict for every step, in order and up to 32 steps late, and for every validation. "kind" is
        "step" or "validation"; both have "step", "epoch", "fraction" (of the run that is done; negative: not known) and
        "loss". Steps have "learning_rate", "gradient_norm", "source_tokens" and "target_tokens"; validations have
        "improved" and their metrics, by the names that training.keep_best takes.

    Ctrl-C, and an exception in `metrics`, stop the run: it saves itself to <output>/last, and the exception is raised
    then. The same call resumes it.
    """
    path, overrides = "", []
    if isinstance(config, Mapping):
        overrides += _assignments(config)
    elif config is not None:
        path = os.fspath(config)
        if not isinstance(path, str):
            raise TypeError("config is bytes; give a str, a path or a dict of settings")
    if settings is not None:
        overrides += _assignments(settings)
    if metrics is not None and not callable(metrics):
        raise TypeError(f"metrics is of type {type(metrics).__name__}, which can't be called")
    profile = _profile.active()
    request = profile.request() if profile is not None else ("", False, 0, 0)
    report = _models.train(path, overrides, bool(resume), bool(quiet), metrics, *request)
    del report["stopped"]  # else the exception had been raised
    if not report["best_metric_name"]:
        report["best_metric"] = None
    return TrainReport(**report)


def _assignments(settings: Settings) -> list[str]:
    return [f"{name}={_text(name, value)}" for name, value in _flat(settings, "")]


def _flat(settings: Settings, before: str) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a setting is {name!r}; it must be a str such as 'training.seed'")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):  # the configuration has lists as text: "a,b"
        return ",".join(_text(name, item) for item in value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if hasattr(value, "item"):  # NumPy's numbers
        value = value.item()
    if isinstance(value, (int, float)):
        return repr(value)
    raise TypeError(f"{name} is of type {type(value).__name__}; a setting is a str, a number, a bool or a list of these")
