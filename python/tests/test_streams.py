"""Sequences in parts: what all parts give, states that are saved, moved and continued, and turns of one model."""

import gc

import numpy as np
import pytest
from model_cases import TASKS, program

import sluice

FRAMES = np.random.default_rng(7).uniform(-1, 1, (20, 2)).astype(np.float32)
TOKENS = "mr na nb in nc the nd mr ne nf".split()
TEXT = ["the old", "cat sees", "a dog"]
STREAMS = ("features", "tagger", "classifier", "language_model")


def step(kind, stream, number):
    """The answer to part `number`, as something to compare."""
    if kind == "features":
        return stream.run(FRAMES[5 * number:5 * number + 5]).tolist()
    if kind == "tagger":
        return stream.tag(TOKENS[3 * number:3 * number + 3]).labels
    if kind == "classifier":
        return stream.classify(TEXT[number])
    return [(text.text, text.score) for text in stream.generate(max_length=4)]


def begun(kind, model):
    return model.stream(samples=3, seed=5) if kind == "language_model" else model.stream()


def test_parts_are_the_whole(model):
    runner = model("features")
    stream = runner.stream()
    parts = [stream.run(FRAMES[:1]), stream.run(FRAMES[1:1]), stream.run(FRAMES[1:13]), stream.run(FRAMES[13])[None],
             stream.run(FRAMES[14:].astype(np.float64))]
    np.testing.assert_allclose(np.concatenate(parts), runner.run(FRAMES), atol=1e-6)

    stream = model("tagger").stream()
    labels = stream.tag(TOKENS[:4]).labels + stream.tag([]).labels + stream.tag(" ".join(TOKENS[4:])).labels
    assert labels == model("tagger").tag([TOKENS])[0].labels

    stream = model("classifier").stream()
    answers = [stream.classify(text) for text in TEXT]
    for i, answer in enumerate(answers):
        whole = model("classifier").classify(" ".join(TEXT[:i + 1]))
        assert answer.label == whole.label
        assert answer.probabilities == pytest.approx(whole.probabilities, rel=1e-5)

    writer = model("language_model")
    stream = writer.stream("1", samples=3, seed=5)
    parts = [stream.generate(max_length=4, top_k=8), stream.generate(max_length=40, top_k=8)]
    whole = writer.generate("1", samples=3, seed=5, max_length=44, top_k=8)
    assert [first.text + second.text for first, second in zip(*parts)] == [text.text for text in whole]
    assert [text.score for text in parts[1]] == pytest.approx([text.score for text in whole])


def test_resets_within_a_part(model):
    runner, resets = model("features"), np.arange(20) == 8
    stream = runner.stream()
    parts = [stream.run(FRAMES[:6]), stream.run(FRAMES[6:], resets[6:])]
    np.testing.assert_allclose(np.concatenate(parts), runner.run(FRAMES, resets), atol=1e-6)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_state_goes_on_elsewhere(model, tmp_path, kind):
    one, other = model(kind), model(kind, fresh=True)
    stream = begun(kind, one)
    step(kind, stream, 0)
    state = stream.state()
    stream.save(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == state
    expected = step(kind, stream, 1)
    assert step(kind, other.stream(state=state), 1) == expected
    loaded = begun(kind, other)
    loaded.load(tmp_path / "state")
    assert step(kind, loaded, 1) == expected
    # To another model and on, in turns with the first.
    stream.set_state(state)
    moved = stream.to(other)
    assert step(kind, moved, 1) == expected == step(kind, stream, 1)
    assert step(kind, moved, 2) == step(kind, stream, 2)
    stream.reset()
    assert step(kind, stream, 0) == step(kind, begun(kind, other), 0)


@pytest.mark.parametrize("kind", STREAMS)
def test_a_model_takes_turns(model, kind):
    one = model(kind)
    expected = [step(kind, alone, number) for alone in [begun(kind, model(kind, fresh=True))] for number in range(3)]
    streams, answers = [begun(kind, one) for _ in range(3)], [[], [], []]
    for number in range(3):
        for stream, found in zip(streams, answers):
            found.append(step(kind, stream, number))
        if number == 1:  # one that the model holds goes
            extra = begun(kind, one)
            step(kind, extra, 0)
            del extra
            gc.collect()
    assert answers == [expected] * 3


def test_a_state_of_the_program_goes_on(trained, model, tmp_path):
    folder = trained("features").model
    np.save(tmp_path / "begun.npy", FRAMES[:7])
    program("run", folder, tmp_path / "begun.npy", "-o", tmp_path / "y.npy", "--save-state", tmp_path / "state")
    stream = model("features").stream()
    stream.load(tmp_path / "state")
    expected = model("features").run(FRAMES)[7:]
    np.testing.assert_allclose(stream.run(FRAMES[7:]), expected, atol=1e-6)

    stream = model("language_model").stream(samples=2)
    stream.generate(max_length=3)
    stream.save(tmp_path / "texts")
    printed = program("generate", trained("language_model").model, "--max-length=9", "--state", tmp_path / "texts")
    assert [text.text for text in stream.generate(max_length=9)] == printed.splitlines()


def test_states_of_other_models_are_refused(model, tmp_path):
    stream = model("features").stream()
    stream.run(FRAMES[:5])
    before = stream.state()
    for state in (model("tagger").stream().state(), before[:-9], b"", b"none"):
        with pytest.raises(sluice.Error):
            stream.set_state(state)
    assert stream.state() == before
    with pytest.raises(FileNotFoundError):
        stream.load(tmp_path / "none")
    with pytest.raises(TypeError, match="str"):
        stream.set_state("text")
    texts = model("language_model").stream(state=b"none")
    with pytest.raises(sluice.Error):
        texts.generate()
    with pytest.raises(ValueError, match="not begun"):
        model("language_model").stream().save(tmp_path / "s")
    assert not any(tmp_path.iterdir())


def test_models_that_take_no_parts_say_why(tmp_path):
    task = {**TASKS["tagger"](tmp_path), "output.directory": tmp_path / "run", "training.max_epochs": 1}
    task["model"] = {**task["model"], "bidirectional": True}
    report = sluice.train(task, quiet=True)
    with pytest.raises(ValueError, match="bidirectional"):
        sluice.load(report.model).stream()
