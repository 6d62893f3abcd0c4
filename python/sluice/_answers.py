"""What models answer, and checks of the texts that they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    import numpy


class Hypothesis(NamedTuple):
    """A text that a model wrote."""

    text: str
    score: float  #: log p of the text and its end
    normalised_score: float  #: score under the length penalty; of a drawn text the score
    pieces: list[str]  #: tokens as the vocabulary writes them
    attention: Optional[numpy.ndarray]  #: float32 [pieces, source pieces] if asked for; else None
    ended: bool  #: else it was cut, and its score counts no end


class Decoded(NamedTuple):
    """The answers to an input."""

    source_pieces: list[str]  #: the input's tokens
    hypotheses: list[Hypothesis]  #: best first; drawn ones in the order of their numbers

    @property
    def text(self) -> str:
        """The text of the first hypothesis; empty if what was asked for allows none."""
        return self.hypotheses[0].text if self.hypotheses else ""


class Scored(NamedTuple):
    """How probable a text is."""

    log_probability: float  #: natural logarithm; the text's end counts
    tokens: int  #: of the text, the end counted


class Entity(NamedTuple):
    """Neighbouring tokens that are one entity."""

    type: str
    begin: int  #: first token
    end: int  #: behind the last token


class TaggedSentence(NamedTuple):
    """A sentence with a label for each token."""

    tokens: list[str]
    labels: list[str]
    entities: list[Entity]  #: what labels such as B-person, I-person and O spell


class Classified(NamedTuple):
    """The class of a text."""

    label: str  #: the likeliest
    probability: float  #: of that label
    probabilities: dict[str, float]  #: of each label


def hypotheses_of(found: list[tuple], attended: Optional[int] = None) -> list[Hypothesis]:
    """`attended`: source pieces, if there is attention to them."""
    return [Hypothesis(text, score, normalised, pieces, _matrix(attention, attended), ended)
            for text, score, normalised, pieces, attention, ended in found]


def _matrix(rows: Optional[list[list[float]]], columns: Optional[int]) -> Any:
    if columns is None:
        return None
    import numpy

    rows = rows or []
    return numpy.array(rows, numpy.float32).reshape(len(rows), columns)


def sentence_of(tagged: tuple) -> TaggedSentence:
    tokens, labels, entities = tagged
    return TaggedSentence(tokens, labels, [Entity(*entity) for entity in entities])


def classified_of(labels: list[str], answer: tuple[int, list[float]]) -> Classified:
    best, probabilities = answer
    return Classified(labels[best], probabilities[best], dict(zip(labels, probabilities)))


def checked_text(text: Any, name: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{name} is of type {type(text).__name__}; it must be a str")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} can't be UTF-8: character {error.start + 1} is half of a surrogate pair") from None
    return text


def checked_texts(texts: Any, name: str) -> tuple[list[str], bool]:
    """A list of texts, and whether a single text was given."""
    if isinstance(texts, str):
        return [checked_text(texts, name)], True
    return [checked_text(text, f"{name}[{i}]") for i, text in enumerate(items_of(texts, name))], False


def items_of(values: Any, name: str) -> list:
    if isinstance(values, (bytes, bytearray)):
        raise TypeError(f"{name} is of type {type(values).__name__}; decode it to a str")
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} is of type {type(values).__name__}; it must be a str or a list") from None
