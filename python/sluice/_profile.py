"""with sluice.profile(path): where the time of models and training goes."""

from __future__ import annotations

import os
import pathlib
from contextvars import ContextVar

from ._options import check_numbers

_active: ContextVar[profile | None] = ContextVar("sluice_profile", default=None)


def active() -> profile | None:
    """The profile that this thread's code is in."""
    return _active.get()


class profile:
    """Records what models do and what train() does in a block of code.

        with sluice.profile("trace.json"):
            model.decode(texts)

    path: a file for a trace, at most 16 MiB, that ui.perfetto.dev and chrome://tracing open. Each further model or
        training run in the block gets a file of its own: trace-2.json, trace-3.json. None: no trace.
    breakdown: print a table of the time by module to standard error at the end of the block, for each of them.
    first_step, last_step: what to record, counted from 1: batches of each call, or steps of training. 0: all batches;
        of training, the 11th to 15th step of the call.

    `paths` has the traces that were asked for. An exception in the block leaves those of what came before it.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, breakdown: bool = False, first_step: int = 0,
                 last_step: int = 0) -> None:
        if path is None and not breakdown:
            raise ValueError("a profile needs a path for its trace, or breakdown=True")
        check_numbers(first_step=first_step, last_step=last_step)
        self.paths: list[str] = []
        self._path = None if path is None else pathlib.Path(path)
        self._options = (bool(breakdown), first_step, last_step)
        self._models: list = []

    def __enter__(self) -> profile:
        if _active.get() is not None:
            raise ValueError("a profile is being recorded already; end it first")
        _active.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _active.set(None)
        failure = None
        models, self._models = self._models, []
        for model in models:
            try:
                with model._lock:
                    model._native.end_profile()
            except Exception as error:  # the others are to be ended first
                failure = failure or error
        if failure is not None:
            raise failure

    def request(self) -> tuple[str, bool, int, int]:
        """Returns the path of the trace of one more model or run, and the options."""
        if self._path is None:
            return ("", *self._options)
        number = len(self.paths) + 1
        path = self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")
        self.paths.append(str(path))
        return (str(path), *self._options)

    def add(self, model) -> None:
        """Records the model, whose lock is held, until the end of the block."""
        if not any(other is model for other in self._models):
            model._native.begin_profile(*self.request())
            self._models.append(model)
