"""Beam search of a language model from states of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy


class States(NamedTuple):
    """Where sequences of a language model stand; a row is one sequence."""

    h: Any  #: float32 [layers, rows, width]
    c: Any  #: float32 [layers, rows, hidden]; None for cells without
    tokens: Any  #: int32 [rows]: the last token of each, which is yet to be fed


class Finished(NamedTuple):
    """A sequence that ended during a beam search."""

    text: str  #: of the tokens that the search added
    tokens: numpy.ndarray  #: int32: their ids, without the end mark
    score: float  #: log p, the start's score and the end mark counted
    normalised_score: float  #: under the length penalty
    row: int  #: of those given, that it goes on from


class Beam:
    """What LanguageModel.beam chose. It lies on the model's device until it is asked for.

    inputs, beam, steps: sizes; fewer steps were taken than asked for if no sequence could get any better.
    """

    def __init__(self, native: Any, model: Any) -> None:
        self._native = native
        self._model = model
        self.inputs: int = native.inputs
        self.beam: int = native.beam
        self.steps: int = native.steps

    def _call(self, name: str) -> Any:
        with self._model._lock:
            return getattr(self._native, name)()

    @property
    def tokens(self) -> numpy.ndarray:
        """int32 [steps, inputs, beam]: the token that each row took; 0, the pad, where there is no sequence."""
        return self._call("tokens")

    @property
    def parents(self) -> numpy.ndarray:
        """int32 [steps, inputs, beam]: the row of the step before that each goes on from, input * beam + its place.
        At step 0 of a search without n, the row of input i is written i * beam."""
        return self._call("parents")

    @property
    def scores(self) -> numpy.ndarray:
        """float64 [steps, inputs, beam]: log p of each, best first; minus infinity where there is no sequence."""
        return self._call("scores")

    @property
    def finished(self) -> list[list[Finished]]:
        """For each input the sequences that ended, best first."""
        return [[Finished(text, tokens, score, normalised, row) for text, tokens, score, normalised, row in of_input]
                for of_input in self._call("finished")]

    @property
    def states(self) -> States:
        """Where the rows of the last step stand: beam() goes on from them with `n`."""
        return states_of(self._model, self._call("states"), self.inputs * self.beam)

    def on_device(self) -> tuple[Any, Any, Any]:
        """tokens, parents and scores where they are: of a model on a GPU as DeviceArrays, which keep this alive."""
        if self._model.device == "cpu":
            return self.tokens, self.parents, self.scores
        import numpy as np

        from ._device_arrays import DeviceArray
        from ._device_memory import DeviceMemory
        from ._devices import full_name
        from ._memory import shared_memory

        memory = shared_memory(DeviceMemory, full_name(self._model.device))
        shape = (self.steps, self.inputs, self.beam)
        dtypes = (np.dtype(np.int32), np.dtype(np.int32), np.dtype(np.float64))
        return tuple(DeviceArray(shape, dtype, pointer, memory, self)
                     for dtype, pointer in zip(dtypes, self._call("device_choices")))

    def __repr__(self) -> str:
        return f"Beam({self.steps} steps, {self.inputs} inputs, {self.beam} beams)"


def states_of(model: Any, arrays: Any, rows: int) -> States:
    layers, width, hidden = model._native.state_shape
    h, c, tokens = arrays
    return States(h.reshape(layers, rows, width), c.reshape(layers, rows, hidden) if hidden else None, tokens)
