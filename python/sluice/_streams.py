"""Sequences that come in parts."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Optional, Union

from ._answers import (Classified, Hypothesis, TaggedSentence, checked_text, classified_of, hypotheses_of, items_of,
                       sentence_of)
from ._options import check_numbers

if TYPE_CHECKING:
    import numpy

    from .models import Classifier, FeatureModel, LanguageModel, Tagger

Path = Union[str, os.PathLike[str]]


class Stream:
    """One sequence that a model is given in parts.

    A model has any number of streams and takes turns with them; going on with the one that came last costs nothing.
    An interrupted part of more than 4096 tokens or frames may leave the stream within that part.
    """

    def __init__(self, model: Any, state: Optional[bytes]) -> None:
        self._model = model
        self._native = model._native
        self._bytes: Optional[bytes] = None  # where it stands while the model is with another; None: at the beginning
        self._self = weakref.ref(self)
        reason = self._native.refuse_parts()
        if reason:
            raise ValueError(f"the model can't take a sequence in parts: {reason}")
        if state is not None:
            self.set_state(state)

    def _resume(self) -> None:
        """Has the model go on with this sequence. Its lock must be held."""
        model = self._model
        if model._stream is self._self:
            model._profile()
            return
        other = model._stream and model._stream()
        if other is not None:
            other._bytes = self._native.state()
        model._stream = None
        if self._bytes is None:
            self._native.begin()
        else:
            self._native.set_state(self._bytes)
        model._stream = self._self
        model._profile()

    def reset(self) -> None:
        """Back to the beginning of a sequence."""
        with self._model._lock:
            self._bytes = None
            if self._model._stream is self._self:
                self._model._stream = None

    def state(self) -> bytes:
        """Where the sequence stands, for this model on any device to go on from: the content of the file that save()
        writes."""
        with self._model._lock:
            self._resume()
            return self._native.state()

    def set_state(self, state: bytes) -> None:
        """Goes on from there. Raises sluice.Error for a state that is damaged or of another model; then the stream stays
        as it was."""
        if not isinstance(state, bytes):
            raise TypeError(f"state is of type {type(state).__name__}; it must be bytes")
        with self._model._lock:
            self._resume()
            self._native.set_state(state)

    def save(self, path: Path) -> None:
        """Writes where the sequence stands to a file, whole or not at all."""
        with self._model._lock:
            self._resume()
            self._native.save_state(os.fspath(path))

    def load(self, path: Path) -> None:
        """Goes on from a file that save() or the program wrote. Raises as set_state, and FileNotFoundError."""
        with self._model._lock:
            self._resume()
            self._native.load_state(os.fspath(path))

    def to(self, model: Any) -> Any:
        """A stream of `model`, the same model opened on another device, that goes on from where this one stands."""
        return model.stream(state=self.state())


class FeatureStream(Stream):
    """A sequence of frames in parts."""

    _model: FeatureModel

    def run(self, frames: Any, resets: Any = None) -> numpy.ndarray:
        """Answers to the next frames, [time, outputs] in float32: all parts together give what the whole sequence does.

        frames: [time, features], float32 or float64. A single frame may be [features], and its answer is [outputs].
        resets: [time], not 0 where an episode begins.
        """
        model = self._model
        frames, single = model._part(frames)
        answers = model._numpy.empty((frames.shape[0], model.outputs), model._numpy.float32)
        if resets is not None:
            resets = model._resets(resets, "resets", frames)
        with model._lock:
            self._resume()
            if resets is None:
                self._native.part(frames, answers)
            else:
                self._native.part_with_resets(frames, resets, answers)
        return answers[0] if single else answers


class TaggerStream(Stream):
    """A sentence in parts."""

    _model: Tagger

    def tag(self, tokens: Any) -> TaggedSentence:
        """Labels of the next tokens: a list of str, or a str with white space between tokens. Entities are those that
        this part's labels spell."""
        tokens = tokens.split() if isinstance(tokens, str) else items_of(tokens, "tokens")
        tokens = [checked_text(token, f"tokens[{i}]") for i, token in enumerate(tokens)]
        with self._model._lock:
            self._resume()
            tagged = self._native.part(tokens)
        return sentence_of(tagged)


class ClassifierStream(Stream):
    """A text in parts."""

    _model: Classifier

    def classify(self, text: str) -> Classified:
        """What the text is taken for so far; `text` is its next part. Cut parts between words."""
        text = checked_text(text, "text")
        with self._model._lock:
            self._resume()
            answer = self._native.part(text)
        return classified_of(self._model.labels, answer)


class TextStream:
    """Texts of a language model that are continued part by part, as if each had been drawn in one go."""

    def __init__(self, model: LanguageModel, state: Optional[bytes], prefix: str, features: Any, samples: int,
                 seed: int) -> None:
        check_numbers(samples=samples, seed=seed)
        self._model = model
        self._begin = (checked_text(prefix, "prefix"), model._vectors(features), samples, seed)
        self._state = b""
        if state is not None:
            self.set_state(state)

    def generate(self, *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, min_length: int = 0,
                 max_length: int = 256) -> list[Hypothesis]:
        """The next max_length tokens, at most, of each text; nothing of texts that have ended. Scores count all tokens
        since the first."""
        check_numbers(temperature=temperature, top_k=top_k, top_p=top_p, min_length=min_length, max_length=max_length)
        prefix, features, samples, seed = self._begin if not self._state else ("", None, *self._begin[2:])
        sample = self._model._models.SampleOptions(samples, temperature, top_k, top_p, seed, False)
        with self._model._lock:
            self._model._profile()
            found, self._state = self._model._native.generate_part(prefix, features, min_length, max_length, 0, sample,
                                                                   self._state)
        return hypotheses_of(found)

    def reset(self) -> None:
        """Back to the beginning of the texts."""
        self._state = b""

    def state(self) -> bytes:
        """Where the texts stand, for this model on any device to go on from; empty at their beginning."""
        return self._state

    def set_state(self, state: bytes) -> None:
        """Goes on from there: generate() raises sluice.Error if the state is damaged or of another model."""
        if not isinstance(state, bytes):
            raise TypeError(f"state is of type {type(state).__name__}; it must be bytes")
        self._state = state

    def save(self, path: Path) -> None:
        """Writes state() to a file, which `sluice generate --state` takes too, whole or not at all."""
        if not self._state:
            raise ValueError("the texts have not begun, so there is no state to save")
        path = os.fspath(path)
        beside = f"{path}.{os.getpid()}.part"
        try:
            with open(beside, "wb") as file:
                file.write(self._state)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            if os.path.exists(beside):
                os.unlink(beside)
            raise

    def load(self, path: Path) -> None:
        """Goes on from a file that save() or `sluice generate --save-state` wrote."""
        with open(path, "rb") as file:
            self._state = file.read()

    def to(self, model: LanguageModel) -> TextStream:
        """A stream of `model`, the same model opened on another device, that goes on from where this one stands."""
        prefix, features, samples, seed = self._begin
        return TextStream(model, self._state, prefix, features, samples, seed)
