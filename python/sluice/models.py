"""Trained models: sluice.load opens one, sluice.train makes one, sluice.convert brings one from another program,
sluice.check compares two runs of one layer by layer, sluice.profile says where their time goes.

    import sluice

    model = sluice.load("runs/de")             # or sluice.load("runs/de", device="cuda")
    model.decode("a text").text
    [answer.text for answer in model.decode(["one", "two"], beam=5)]

A str is one input and has one answer. A list is many inputs, which run in one call, and has a list of answers.

Threads may share a model: calls wait for each other, and the GIL is free meanwhile. Ctrl-C ends a call with
KeyboardInterrupt, and the model stays usable. Warnings of the library are Python's warnings (UserWarning).
"""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any, Optional, Union

try:
    from . import _open_models  # noqa: F401 - comes before all that imports _models
except ModuleNotFoundError as error:
    if error.name != f"{__package__}._models":
        raise
    raise ImportError("this build of sluice has layers only and no models: build it with SLUICE_MODELS=ON or take a "
                      "wheel (docs/python.md, Installing)") from None

from . import _models, _profile
from ._answers import (Classified, Decoded, Entity, Hypothesis, Scored, TaggedSentence, checked_text, checked_texts,
                       classified_of, hypotheses_of, items_of, sentence_of)
from ._beam import Beam, Finished, States, states_of
from ._check import CheckReport, LayerCheck, LayerPlace, check
from ._convert import ConvertReport, convert
from ._options import check_names, check_numbers
from ._profile import profile
from ._streams import ClassifierStream, FeatureStream, TaggerStream, TextStream
from ._training import TrainReport, train

if TYPE_CHECKING:
    import numpy

__all__ = ["Beam", "CheckReport", "Classified", "Classifier", "ClassifierStream",
           "ConvertReport", "Decoded", "Entity", "FeatureModel",
           "FeatureStream", "Finished", "Hypothesis", "LanguageModel", "LayerCheck", "LayerPlace", "Model", "Scored",
           "SequenceModel", "States", "TaggedSentence", "Tagger", "TaggerStream", "TextStream", "TrainReport", "check",
           "convert", "load", "profile", "train"]

Frames = Any  #: a NumPy array [time, features] of float32 or float64


class Model:
    """The base of all kinds of models. load() makes them."""

    kind: str  #: "seq2seq", "language_model", "tagger", "classifier" or "features"

    def __init__(self, native: Any, kind: str, device: str) -> None:
        self._native = native
        self._models = _models
        self._lock = threading.Lock()
        self._stream: Any = None  # a weak reference to the stream that the model holds
        self._opened: Any = None  # path, device and precision
        self.kind = kind
        self.device = device

    def _profile(self) -> None:
        """Records the call that follows, if a profile is active. The caller holds the lock."""
        profile = _profile.active()
        if profile is not None:
            profile.add(self)

    def info(self) -> dict[str, Any]:
        """What the checkpoint holds: "path", "kind", "configuration" (a dict), "parameters" (their number), "stored"
        (what matrices are stored in), "vocabularies", "tensors" (name to shape) and "explanation" (which implementation
        runs each part, and why)."""
        with self._lock:
            info = self._native.info()
        info["configuration"] = json.loads(info["configuration"])
        return info

    def plan_cache(self) -> dict[str, int]:
        """Counts what the model keeps between calls: "plans", their "bytes" of the device's memory, "plans_made" and
        "weights_packed"."""
        with self._lock:
            return self._native.plan_cache()

    def clear_plan_cache(self) -> None:
        """Frees what the model keeps between calls."""
        with self._lock:
            self._native.clear_plan_cache()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kind {self.kind!r}, on {self.device})"


class SequenceModel(Model):
    """Writes a text for a text."""

    def decode(self, inputs: Union[str, list[str]], *, beam: int = 5, nbest: int = 1, length_penalty: float = 1.0,
               min_length: int = 0, max_length: int = 256, prefixes: Union[str, list[str], None] = None,
               banned: Union[str, list[str], None] = None, no_repeat: int = 0,
               forced: Union[str, list[str], list[list[str]], None] = None, coverage_penalty: float = 0.0, groups: int = 1,
               diversity: float = 0.5, attention: bool = False, batch: int = 0, sample: bool = False, samples: int = 1,
               temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0, seed: int = 1,
               without_replacement: bool = False) -> Any:
        """Answers: a Decoded for a str, a list of them for a list.

        beam: of the search; 1 is greedy. nbest: hypotheses for each input, at most `beam`.
        length_penalty: hypotheses compete by score / ((5 + length) / 6)^length_penalty.
        min_length, max_length: tokens of an answer, which also has at most twice as many as its input, plus 20.
        prefixes: what each answer begins with. attention: whether hypotheses carry their attention.
        banned: words and phrases that no answer holds. no_repeat: tokens in a row that no answer holds twice; 0: any.
        forced: words and phrases that all answers of a search hold, or a list of them for each input; up to 64 of each.
        coverage_penalty: answers of a search compete by score / length penalty + this * sum over the input's tokens of
            log min(sum of attention, 1).
        groups, diversity: the beams are split into so many searches; a group's candidates lose `diversity` for each beam
            of the groups before it that has just gone on with the same token.
        batch: most inputs decoded together; 0: 32.
        sample: draw instead of searching: `samples` answers for each input, by temperature (0: the most probable token),
            top_k (only of so many most probable tokens; 0: of all), top_p (only of the fewest most probable tokens that
            have this probability together) and seed.
        without_replacement: draw no answer of an input twice (stochastic beam search), without top_k and top_p; their
            normalised_score is the perturbed log-probability that ranks them.
        """
        texts, single = checked_texts(inputs, "inputs")
        check_numbers(beam=beam, nbest=nbest, length_penalty=length_penalty, min_length=min_length,
                      max_length=max_length, no_repeat=no_repeat, coverage_penalty=coverage_penalty, groups=groups,
                      diversity=diversity, batch=batch)
        before = [] if prefixes is None else checked_texts(prefixes, "prefixes")[0]
        not_held = [] if banned is None else checked_texts(banned, "banned")[0]
        held = _forced_of(forced, len(texts))
        options = _sample_options(sample, "sample=True", samples, temperature, top_k, top_p, seed, without_replacement)
        with self._lock:
            self._profile()
            found = self._native.decode(texts, beam, nbest, length_penalty, min_length, max_length, before, not_held,
                                        no_repeat, held, coverage_penalty, groups, diversity, bool(attention), batch,
                                        options)
        answers = [Decoded(pieces, hypotheses_of(hypotheses, len(pieces) if attention else None))
                   for pieces, hypotheses in found]
        return answers[0] if single else answers

    def score(self, pairs: Any) -> Any:
        """How probable each target is given its source: a Scored for a tuple (source, target), a list of them for a list
        of pairs."""
        single = isinstance(pairs, tuple)
        checked = []
        for i, pair in enumerate([pairs] if single else items_of(pairs, "pairs")):
            if isinstance(pair, str) or len(pair) != 2:
                raise ValueError(f"pairs[{i}] is not a pair (source, target)")
            checked.append(tuple(checked_text(text, f"pairs[{i}][{j}]") for j, text in enumerate(pair)))
        with self._lock:
            self._profile()
            scores = [Scored(*score) for score in self._native.score(checked)]
        return scores[0] if single else scores


class LanguageModel(Model):
    """Writes texts, from nothing, from a prefix or about vectors of features."""

    _vocabulary: Optional[list[str]] = None

    @property
    def features(self) -> int:
        """Numbers of the vectors that texts are written about; 0: none."""
        return self._native.features

    def generate(self, prefix: str = "", *, features: Any = None, samples: int = 1, temperature: float = 1.0,
                 top_k: int = 0, top_p: float = 1.0, seed: int = 1, without_replacement: bool = False,
                 beam: Optional[int] = None, nbest: int = 1, length_penalty: float = 1.0, groups: int = 1,
                 diversity: float = 0.5, forced: Union[str, list[str], None] = None,
                 banned: Union[str, list[str], None] = None, no_repeat: int = 0, min_length: int = 0,
                 max_length: int = 256, batch: int = 0) -> list[Hypothesis]:
        """Texts, drawn unless `beam` is given, which searches for the likeliest `nbest`.

        prefix: what they begin with; scores count it.
        features: of a model on features, [vectors, features]: `samples` or `nbest` texts for each vector, in order.
        samples, temperature, top_k, top_p, seed, without_replacement: how many to draw, and how, as SequenceModel.decode
            says.
        beam, nbest, length_penalty, groups, diversity: how to search, as SequenceModel.decode says. forced: words and
            phrases that each text of a search holds.
        banned: words and phrases that no text holds. no_repeat: tokens in a row that no text holds twice; 0: any.
        min_length, max_length: tokens of a text.
        batch: texts drawn together; 0: 256.
        """
        prefix = checked_text(prefix, "prefix")
        check_numbers(beam=5 if beam is None else beam, nbest=nbest, length_penalty=length_penalty, groups=groups,
                      diversity=diversity, no_repeat=no_repeat, min_length=min_length, max_length=max_length, batch=batch)
        vectors = self._vectors(features)
        not_held = [] if banned is None else checked_texts(banned, "banned")[0]
        held = [] if forced is None else checked_texts(forced, "forced")[0]
        sample = _sample_options(beam is None, "beam=None", samples, temperature, top_k, top_p, seed, without_replacement)
        if beam is None and (held or groups != 1):
            raise ValueError("forced and groups say how to search, which takes a beam")
        with self._lock:
            self._profile()
            if beam is None:
                found = self._native.generate(prefix, vectors, min_length, max_length, batch, not_held, no_repeat, sample)
            else:
                found = self._native.search(prefix, vectors, min_length, max_length, batch, not_held, no_repeat, beam,
                                            nbest, length_penalty, groups, diversity, held)
        return hypotheses_of(found)

    def score(self, texts: Union[str, list[str]], features: Any = None) -> Any:
        """How probable each text is: a Scored for a str, a list of them for a list. A model on features takes a vector
        for each text, [texts, features]."""
        checked, single = checked_texts(texts, "texts")
        vectors = self._vectors(features)
        with self._lock:
            self._profile()
            scores = [Scored(*score) for score in self._native.score(checked, vectors)]
        return scores[0] if single else scores

    @property
    def vocabulary(self) -> list[str]:
        """How each token is written, by its id. 0 to 3 are the pad, the unknown token, the start and the end mark."""
        if self._vocabulary is None:
            self._vocabulary = self._native.vocabulary()
        return self._vocabulary

    def read(self, texts: Union[str, list[str]], features: Any = None) -> States:
        """Where the model stands after each text, for beam() to go on from; after "" at the beginning. A model on
        features takes a vector for each text, [texts, features]."""
        checked, _ = checked_texts(texts, "texts")
        vectors = self._vectors(features)
        with self._lock:
            self._profile()
            arrays = self._native.read(checked, vectors)
        return states_of(self, arrays, len(checked))

    def beam(self, states: Any = None, scores: Any = None, tokens: Any = None, steps: int = 1, k: int = 5, *,
             n: Optional[int] = None, mask: Any = None, nbest: int = 0, min_length: int = 0, length_penalty: float = 0.0,
             allow_unknown: bool = False) -> Beam:
        """Beam search from states, scores and tokens of the caller's, `steps` tokens further, with `k` sequences for each
        of n inputs. It keeps what each step chose; no sequence is made to end.

        states: what read() or Beam.states gives, or (h, c), or h alone for cells without c: float32 [layers, rows, width] and [layers, rows,
            hidden], on the host or on the model's GPU. None: the beginning.
        scores: [rows]: log p of each so far, minus infinity where there is no sequence. None: 0.
        tokens: [rows]: ids that are fed first. None: those of `states`, else the start mark.
        n: inputs. None: as many as rows. Else there may be n * k rows: row i * k + b is sequence b of input i. To go on from
            a search, give the k of that search.
        mask: bool [vocabulary], [n, vocabulary] or [steps, n, vocabulary]: true where a token may be chosen. The pad and the
            start mark never are, nor is the unknown token without `allow_unknown`.
        nbest: finished sequences kept of each input; 0: k. They compete by score / ((5 + length) / 6)^length_penalty.
        min_length: no sequence ends before it has got so many tokens.
        """
        from ._beam_search import search

        return search(self, states, scores, tokens, steps, k, n, mask, nbest, min_length, length_penalty, allow_unknown)

    def stream(self, prefix: str = "", *, features: Any = None, samples: int = 1, seed: int = 1,
               state: Optional[bytes] = None) -> TextStream:
        """Texts that are drawn part by part. With `state`, the number of texts and the seed are the state's."""
        return TextStream(self, state, prefix, features, samples, seed)

    def _vectors(self, features: Any) -> Any:
        if features is None:
            return None
        from ._frames import as_frames

        return as_frames(features, "features", self.features, rows="texts")


class Tagger(Model):
    """Gives a label to each token."""

    @property
    def labels(self) -> list[str]:
        """The labels that it gives."""
        return self._native.labels

    def tag(self, sentences: Any, *, batch: int = 0) -> Any:
        """Labels: a TaggedSentence for a str, a list of them for a list. A sentence is a str with white space between
        tokens; in a list it may also be a list of tokens. batch: most sentences tagged together; 0: 64."""
        single = isinstance(sentences, str)
        check_numbers(batch=batch)
        tokens = []
        for i, sentence in enumerate([sentences] if single else items_of(sentences, "sentences")):
            words = sentence.split() if isinstance(sentence, str) else items_of(sentence, f"sentences[{i}]")
            tokens.append([checked_text(word, f"sentences[{i}][{j}]") for j, word in enumerate(words)])
        with self._lock:
            self._profile()
            tagged = [sentence_of(sentence) for sentence in self._native.tag(tokens, batch)]
        return tagged[0] if single else tagged

    def stream(self, state: Optional[bytes] = None) -> TaggerStream:
        """A sentence in parts. Raises ValueError with the reason if the model can't: it must have one direction and a
        softmax."""
        return TaggerStream(self, state)


class Classifier(Model):
    """Gives a label to a text."""

    def __init__(self, native: Any, kind: str, device: str) -> None:
        super().__init__(native, kind, device)
        self.labels: list[str] = native.labels

    def classify(self, texts: Union[str, list[str]]) -> Any:
        """Classifies texts: returns a Classified for a str, a list of them for a list."""
        checked, single = checked_texts(texts, "texts")
        with self._lock:
            self._profile()
            answers = [classified_of(self.labels, answer) for answer in self._native.classify(checked)]
        return answers[0] if single else answers

    def stream(self, state: Optional[bytes] = None) -> ClassifierStream:
        """A text in parts. Raises ValueError with the reason if the model can't: it must have one direction and pool by
        the last token."""
        return ClassifierStream(self, state)


class FeatureModel(Model):
    """Answers sequences of frames, each frame or the whole."""

    def __init__(self, native: Any, kind: str, device: str) -> None:
        import numpy

        from . import _frames

        super().__init__(native, kind, device)
        self._numpy = numpy
        self._frames = _frames
        self.features: int = native.features  #: numbers of a frame
        self.outputs: int = native.outputs  #: numbers of an answer
        self.answers_each_frame: bool = native.answers_each_frame  #: else one answer to a whole sequence
        self.labels: list[str] = native.labels  #: names of the classes; empty if answers are values

    def run(self, sequences: Any, resets: Any = None) -> Any:
        """Answers in float32: values, or probabilities of classes.

        sequences: an array [time, features] of float32 or float64; or many, as a list of these or an array
            [sequences, time, features].
        resets: [time], not 0 where an episode begins; for many sequences a list of these, with None for those without,
            or [sequences, time].
        Returns [time, outputs], or [outputs] if the model answers whole sequences; for a list, a list of these; for an
        array of sequences, one with a first axis for them.
        """
        frames = self._frames
        single = not isinstance(sequences, (list, tuple)) and frames.dimensions(sequences) == 2
        given = [sequences] if single else list(sequences)
        arrays = [frames.as_frames(one, f"sequences[{i}]", self.features) for i, one in enumerate(given)]
        marks = frames.as_many_resets([resets] if single else resets, arrays)
        answers = [self._numpy.empty((len(one) if self.answers_each_frame else 1, self.outputs), self._numpy.float32)
                   for one in arrays]
        with self._lock:
            self._profile()
            self._native.run(arrays, marks, answers)
        if not self.answers_each_frame:
            answers = [answer[0] for answer in answers]
        if single:
            return answers[0]
        return answers if isinstance(sequences, (list, tuple)) else self._numpy.stack(answers)

    def stream(self, state: Optional[bytes] = None) -> FeatureStream:
        """A sequence in parts. Raises ValueError with the reason if the model can't: it must have one direction and
        answer each frame."""
        return FeatureStream(self, state)

    def _part(self, frames: Frames) -> tuple[Any, bool]:
        single = self._frames.dimensions(frames) == 1
        if single:
            frames = self._numpy.asarray(frames)[None]
        return self._frames.as_frames(frames, "frames", self.features), single

    def _resets(self, resets: Any, name: str, frames: Any) -> Any:
        return self._frames.as_resets(resets, name, len(frames))


_KINDS = {"seq2seq": SequenceModel, "language_model": LanguageModel, "tagger": Tagger, "classifier": Classifier,
          "features": FeatureModel}


def load(path: Union[str, os.PathLike[str]], device: str = "cpu", precision: str = "auto", *,
         plan_cache_bytes: int = -1, trust_segmenter: bool = False, source_segmenter: Optional[str] = None,
         target_segmenter: Optional[str] = None) -> Any:
    """Opens a trained model: a SequenceModel, LanguageModel, Tagger, Classifier or FeatureModel.

    path: a checkpoint folder, its model.safetensors or the folder of a training run (best/, or last/ if there is no
        best/).
    device: "cpu", "cuda" or "cuda:N".
    precision: "float32"; on a GPU also "tf32", "bfloat16" or "float16"; on the CPU also "int8" and, with AMX or
        AVX512_BF16, "bfloat16" (not for seq2seq). "auto" is float32, or what the model was quantized for.
    plan_cache_bytes: what the model keeps between calls at most; -1: 1 GiB, or twice its parameters.
    trust_segmenter: run the command that the checkpoint names to segment texts. source_segmenter, target_segmenter:
        commands to run instead; "": texts are segmented already.

    Raises FileNotFoundError if there is nothing at `path`, sluice.Error if it is damaged, ValueError for a precision that
    the device lacks, sluice.DeviceError without the device.
    """
    path = os.fspath(path)
    check_names(path=path, device=device, precision=precision, source_segmenter=source_segmenter or "",
                target_segmenter=target_segmenter or "")
    check_numbers(plan_cache_bytes=plan_cache_bytes)
    kind = _models.kind_of_model(path)
    if kind not in _KINDS:
        raise NotImplementedError(f"{path} holds a model of the kind {kind}, which Python can't run")
    place = _models.Place(device, precision, plan_cache_bytes)
    type_ = _KINDS[kind]
    native = getattr(_models, type_.__name__)
    if kind in ("tagger", "features"):  # their input is not segmented
        loaded = native.load(path, place)
    else:
        loaded = native.load(path, place, _models.SegmenterChoice(bool(trust_segmenter), source_segmenter, target_segmenter))
    made = type_(loaded, kind, device)
    made._opened = path, device, precision
    return made


def _sample_options(drawn: bool, wanted: str, samples: int, temperature: float, top_k: int, top_p: float,
                    seed: int, without_replacement: bool) -> Any:
    check_numbers(samples=samples, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    if drawn:
        return _models.SampleOptions(samples, temperature, top_k, top_p, seed, bool(without_replacement))
    if (samples, temperature, top_k, top_p, seed, bool(without_replacement)) != (1, 1, 0, 1, 1, False):
        raise ValueError("samples, temperature, top_k, top_p, seed and without_replacement say how to draw, which takes "
                         f"{wanted}")
    return None


def _forced_of(forced: Any, inputs: int) -> list[list[str]]:
    """For each input what its answers hold; the same for all if that is one list of texts."""
    if forced is None:
        return []
    items = [forced] if isinstance(forced, str) else items_of(forced, "forced")
    if items and isinstance(items[0], str):
        return [checked_texts(items, "forced")[0]] * inputs
    return [checked_texts(words, f"forced[{i}]")[0] for i, words in enumerate(items)]
