"""LanguageModel.beam: a search from states, scores and tokens of the caller's."""

import numpy as np
import pytest
from devices import open_or_skip

from sluice import models


@pytest.fixture
def writer(model):
    return model("language_model")


def test_finds_what_generate_finds(writer):
    found = writer.beam(steps=40, k=4, nbest=2).finished
    expected = writer.generate(beam=4, nbest=2, length_penalty=0, max_length=40)
    assert [[one.text for one in of_input] for of_input in found] == [[one.text for one in expected]]
    assert [one.score for one in found[0]] == [one.score for one in expected]
    ids = found[0][0].tokens
    assert "".join(writer.vocabulary[i] for i in ids).replace("▁", " ").strip() == expected[0].text.strip()


def test_scores_count_what_follows(writer):
    """Every sequence's score is what score() says of the text that it makes, the start's counted."""
    beam = writer.beam(writer.read(["1", "36"]), [-3.0, -4.0], steps=30, k=6)
    of_start = [-3.0, -4.0]
    for text, given, found in zip(["1", "36"], of_start, beam.finished):
        assert len(found) > 1
        rest = [writer.score(text + one.text).log_probability - (one.score - given) for one in found]
        np.testing.assert_allclose(rest, rest[0], atol=1e-3)  # log p of `text`, which all begin with


def test_steps_follow_from_each_other(writer):
    whole = writer.beam(writer.read(["1", "36"]), steps=6, k=3, min_length=6)
    assert whole.tokens.shape == whole.parents.shape == whole.scores.shape == (6, 2, 3)
    assert (whole.tokens.dtype, whole.parents.dtype, whole.scores.dtype) == (np.int32, np.int32, np.float64)
    first = writer.beam(writer.read(["1", "36"]), steps=2, k=3, min_length=2)
    second = writer.beam(first.states, first.scores[-1], steps=4, k=3, n=2, min_length=4)
    np.testing.assert_array_equal(np.concatenate([first.tokens, second.tokens]), whole.tokens)
    np.testing.assert_array_equal(np.concatenate([first.parents, second.parents]), whole.parents)
    np.testing.assert_allclose(np.concatenate([first.scores, second.scores]), whole.scores, atol=1e-4)
    # A row goes on from a row of its own input, and its score only falls; best ones come first.
    assert (whole.parents // 3 == np.arange(2)[:, None]).all()
    before = whole.scores[:-1].reshape(5, 6)
    assert (np.take_along_axis(before, whole.parents[1:].reshape(5, 6), 1) >= whole.scores[1:].reshape(5, 6)).all()
    assert (np.diff(whole.scores, axis=2) <= 0).all()


def test_states_of_ones_own(writer):
    layers, rows, width = writer.read("").h.shape
    assert rows == 1
    rng = np.random.default_rng()
    h = rng.uniform(-1, 1, (layers, 3, width)).astype(np.float32)
    c = rng.uniform(-1, 1, (layers, 3, width)).astype(np.float32)
    together = writer.beam((h, c), steps=5, k=2, min_length=5)
    for i in range(3):
        alone = writer.beam((h[:, i:i + 1], c[:, i:i + 1]), steps=5, k=2, min_length=5)
        np.testing.assert_array_equal(alone.tokens[:, 0], together.tokens[:, i])
        np.testing.assert_allclose(alone.scores[:, 0], together.scores[:, i], atol=1e-5)
    np.testing.assert_array_equal(writer.beam(models.States(h, c, np.full(3, 2)), steps=5, k=2, min_length=5).tokens,
                                  together.tokens)


def test_masks_broadcast(writer):
    size = len(writer.vocabulary)
    digits = np.array([piece.isdigit() for piece in writer.vocabulary])
    chosen = writer.beam(steps=4, k=3, n=2, mask=digits).tokens
    assert digits[chosen].all()
    per_input = np.stack([digits, ~digits])
    chosen = writer.beam(steps=4, k=3, n=2, mask=per_input).tokens
    assert digits[chosen[:, 0]].all() and not digits[chosen[:, 1]].any()
    by_step = np.zeros((4, 1, size), bool)
    order = [int(np.flatnonzero(digits)[i % digits.sum()]) for i in range(4)]
    by_step[np.arange(4), 0, order] = True
    beam = writer.beam(steps=4, k=2, n=2, mask=by_step)
    assert (beam.tokens[:, :, 0] == np.array(order)[:, None]).all()
    assert (beam.tokens[:, :, 1] == 0).all() and np.isneginf(beam.scores[:, :, 1]).all()


def test_what_is_on_the_host_stays_there(writer):
    beam = writer.beam(steps=2, k=2, min_length=2)
    for there, here in zip(beam.on_device(), (beam.tokens, beam.parents, beam.scores)):
        np.testing.assert_array_equal(there, here)
    assert repr(beam) == "Beam(2 steps, 1 inputs, 2 beams)"


@pytest.mark.parametrize("arguments, error, sentence", [
    ({"steps": 0}, ValueError, "steps is 0"),
    ({"k": 4000}, ValueError, "k is 4000; it must be in 1.."),
    ({"n": 1.5}, TypeError, "n is of type float"),
    ({"tokens": [2**32 + 5]}, ValueError, "tokens holds 4294967301, which is no token"),
    ({"states": (np.zeros((1, 1, 16), np.float32),)}, ValueError, "states has one part; it must be (h, c)"),
    ({"states": np.zeros((1, 1, 16), np.float32)}, TypeError, "states is of type ndarray; it must be (h, c)"),
    ({"states": [np.zeros(16, np.float32), None]}, ValueError, "h has shape (16,); it must be [layers, rows, width]"),
    ({"steps": 1.5}, TypeError, "steps is of type float"),
    ({"scores": [0.0, -1.0], "tokens": [4]}, ValueError, "scores has 2 rows; tokens has 1 row: give as many of each"),
    ({"scores": [0.0] * 3, "n": 2}, ValueError, "3 rows are given for n=2 and k=5; there must be 2 or 10"),
    ({"scores": [0.0] * 2, "n": 1, "k": 1}, ValueError, "2 rows are given for n=1 and k=1; there must be 1"),
    ({"scores": [0.0], "n": 3}, ValueError, "1 row is given for n=3 and k=5; there must be 3 or 15"),
    ({"n": 0}, ValueError, "n is 0; it must be at least 1"),
    ({"tokens": [0.5]}, TypeError, "tokens is float64; it must be of integers"),
    ({"tokens": [100000]}, ValueError, "row 0 begins with token 100000"),
    ({"scores": [float("nan")]}, ValueError, "the score of row 0 is nan"),
    ({"states": (np.zeros((1, 2, 3), np.float32), None)}, ValueError, "h has shape (1, 2, 3), not"),
    ({"states": (np.zeros((1, 1, 16)), None)}, TypeError, "h is float64; it must be float32"),
    ({"mask": np.ones(3, bool)}, ValueError, "mask has shape (3,); it must be [vocabulary], [n, vocabulary]"),
    ({"mask": np.ones(3)}, TypeError, "mask is float64; it must be bool"),
    ({"nbest": 9, "k": 4}, ValueError, "nbest is 9; it must be in 1..4, which k is, or 0 for k"),
    ({"nbest": -1}, ValueError, "nbest is -1; it must be in 1..5"),
])
def test_refuses_in_one_sentence(writer, arguments, error, sentence):
    with pytest.raises(error) as refused:
        writer.beam(**arguments)
    assert str(refused.value).startswith(sentence), str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mask_must_allow_something(writer):
    with pytest.raises(ValueError, match="the mask of step 0 and input 0 allows no token that may be chosen"):
        writer.beam(mask=np.zeros(len(writer.vocabulary), bool))
    mask = np.arange(len(writer.vocabulary)) == 3  # the end mark
    assert writer.beam(mask=mask).finished[0][0].text == ""
    with pytest.raises(ValueError, match="allows only the end mark, which min_length 1 forbids there"):
        writer.beam(mask=mask, min_length=1)


def test_states_and_choices_on_a_gpu(trained):
    open_or_skip("cuda:0")
    from sluice.numpy import DeviceArray

    import sluice

    writer = sluice.load(trained("language_model").model, device="cuda")
    states = writer.read(["1", "36"])
    expected = writer.beam(states, steps=5, k=3, min_length=5)
    there = models.States(DeviceArray.from_numpy(states.h), DeviceArray.from_numpy(states.c), states.tokens)
    found = writer.beam(there, steps=5, k=3, min_length=5)
    for array, here in zip(found.on_device(), (expected.tokens, expected.parents, expected.scores)):
        assert array.device == "cuda:0"
        np.testing.assert_array_equal(array.numpy(), here)
