"""Each method of each kind of model against what the program says."""

import json

import numpy as np
import pytest
from model_cases import TASKS, program

import sluice
from sluice import models

INPUTS = ["a b c", "h g", "d", "", "a a a a b"]


def as_json(hypothesis):
    """As the program prints it, with all digits."""
    return {"text": hypothesis.text, "score": hypothesis.score, "normalised_score": hypothesis.normalised_score,
            "pieces": hypothesis.pieces}


def same(hypothesis, printed):
    return as_json(hypothesis) == {key: printed[key] for key in as_json(hypothesis)}


@pytest.mark.parametrize("options, flags", [
    ({}, []),
    ({"beam": 3, "nbest": 2, "length_penalty": 0.5, "max_length": 4}, ["--beam=3", "--nbest=2", "--length-penalty=0.5",
                                                                       "--max-length=4"]),
    ({"min_length": 2, "batch": 2, "prefixes": ["a"] * len(INPUTS)}, ["--min-length=2", "--batch=2", "--prefix=a"]),
    ({"sample": True, "samples": 2, "temperature": 0.8, "top_k": 5, "top_p": 0.9, "seed": 7},
     ["--sample", "--samples=2", "--temperature=0.8", "--top-k=5", "--top-p=0.9", "--seed=7"]),
    ({"sample": True, "samples": 6, "seed": 7, "without_replacement": True},
     ["--sample", "--samples=6", "--seed=7", "--without-replacement"]),
    ({"banned": ["a", "b c"], "no_repeat": 2, "beam": 4, "nbest": 4},
     ["--ban=a", "--ban=b c", "--no-repeat=2", "--beam=4", "--nbest=4"]),
    ({"forced": ["c d", "a"], "beam": 6}, ["--force=c d", "--force=a", "--beam=6"]),
    ({"coverage_penalty": 0.4, "beam": 6, "groups": 3, "diversity": 0.7, "nbest": 5},
     ["--coverage-penalty=0.4", "--beam=6", "--groups=3", "--diversity=0.7", "--nbest=5"]),
])
def test_decode_is_the_programs(trained, model, options, flags):
    lines = program("decode", trained("seq2seq").model, "--format=json", *flags, given="\n".join(INPUTS) + "\n")
    found = model("seq2seq").decode(INPUTS, **options)
    for answers, line in zip(found, lines.splitlines(), strict=True):
        printed = json.loads(line)["answers"]
        assert len(answers.hypotheses) == len(printed)
        assert all(map(same, answers.hypotheses, printed))
    assert [answers.text for answers in found] == [answers.hypotheses[0].text for answers in found]


def test_each_input_may_have_forced_words_of_its_own(model):
    forced = [["a"], [], ["b", "c d"], ["h"], []]
    found = model("seq2seq").decode(INPUTS, forced=forced, beam=6, nbest=3)
    for words, answers, text in zip(forced, found, INPUTS, strict=True):
        for hypothesis in answers.hypotheses:
            assert not text or all(f" {word} " in f" {hypothesis.text} " for word in words)
    with pytest.warns(UserWarning, match="no answer"):
        none = model("seq2seq").decode("a b c", no_repeat=1, min_length=20, max_length=20)
    assert none.hypotheses == [] and none.text == ""


def test_one_text_has_one_answer(model):
    translator = model("seq2seq")
    one = translator.decode("a b c", min_length=2)
    assert isinstance(one, models.Decoded) and one.source_pieces == ["a", "b", "c"]
    assert translator.decode(["a b c"], min_length=2) == [one]
    assert translator.decode([]) == []
    assert translator.decode(iter(["a b c", "d"]), min_length=2)[0] == one


def test_attention_is_a_matrix(model):
    one = model("seq2seq").decode("a b c", min_length=2, attention=True).hypotheses[0]
    assert one.attention.dtype == np.float32 and one.attention.shape == (len(one.pieces), 3)
    np.testing.assert_allclose(one.attention.sum(axis=1), 1, rtol=1e-5)
    several = model("seq2seq").decode("a b c", nbest=5, attention=True).hypotheses
    assert [text.attention.shape for text in several] == [(len(text.pieces), 3) for text in several]
    assert not all(text.pieces for text in several)
    assert model("seq2seq").decode("", attention=True).hypotheses[0].attention.shape == (0, 0)
    assert model("seq2seq").decode("a").hypotheses[0].attention is None


def test_score_of_pairs_is_the_programs(trained, model, tmp_path):
    pairs = [("a b", "b a"), ("c", "c"), ("d e f", "")]
    (tmp_path / "s").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "t").write_text("".join(f"{target}\n" for _, target in pairs))
    printed = program("score", trained("seq2seq").model, tmp_path / "s", tmp_path / "t").splitlines()
    scores = model("seq2seq").score(pairs)
    for score, line in zip(scores, printed):
        number, tokens = line.split("\t")
        assert score.log_probability == pytest.approx(float(number), abs=1e-3) and score.tokens == int(tokens)
    assert model("seq2seq").score(pairs[0]) == pytest.approx(scores[0], rel=1e-5)


@pytest.mark.parametrize("options, flags", [
    ({"samples": 4, "max_length": 12, "seed": 3}, ["--samples=4", "--max-length=12", "--seed=3"]),
    ({"prefix": "4", "temperature": 0.7, "top_k": 6, "top_p": 0.9, "min_length": 3, "batch": 1, "samples": 2},
     ["--prefix=4", "--temperature=0.7", "--top-k=6", "--top-p=0.9", "--min-length=3", "--batch=1", "--samples=2"]),
    ({"beam": 4, "nbest": 3, "length_penalty": 0.5}, ["--beam=4", "--nbest=3", "--length-penalty=0.5"]),
])
def test_generate_is_the_programs(trained, model, options, flags):
    lines = program("generate", trained("language_model").model, "--format=json", *flags).splitlines()
    for text, line in zip(model("language_model").generate(**options), lines, strict=True):
        printed = json.loads(line)
        assert same(text, printed) and text.ended == printed["ended"]


def test_score_of_texts_is_the_programs(trained, model, tmp_path):
    texts = ["16 is a square", "is", ""]
    (tmp_path / "t").write_text("".join(f"{text}\n" for text in texts))
    printed = program("score", trained("language_model").model, tmp_path / "t").splitlines()
    for score, line in zip(model("language_model").score(texts), printed):
        assert score.log_probability == pytest.approx(float(line.split("\t")[0]), abs=1e-3)
        assert score.tokens == int(line.split("\t")[1])
    # By itself, not in a batch: a text that is drawn has the score of its tokens.
    drawn = model("language_model").generate(seed=9, max_length=60)[0]
    if drawn.ended:
        assert model("language_model").score(drawn.text).log_probability == pytest.approx(drawn.score, rel=1e-4)


def test_tag_is_the_programs(trained, model, tmp_path):
    sentences = [["mr", "na", "nb"], ["in", "nc"], ["the", "nd", "mr", "ne", "nf"]]
    (tmp_path / "in").write_text("".join("".join(f"{token}\n" for token in one) + "\n" for one in sentences))
    lines = program("tag", trained("tagger").model, tmp_path / "in", "--format=json").splitlines()
    tagged = model("tagger").tag(sentences)
    for one, line in zip(tagged, lines, strict=True):
        printed = json.loads(line)
        assert (one.tokens, one.labels) == (printed["tokens"], printed["labels"])
        assert [list(entity) for entity in one.entities] == [[e["type"], e["begin"], e["end"]]
                                                             for e in printed["entities"]]
    assert any(one.entities for one in tagged)
    assert model("tagger").tag("mr na nb") == tagged[0]
    assert model("tagger").tag(["mr na nb", "in nc"], batch=1) == tagged[:2]
    assert set(tagged[2].labels) <= set(model("tagger").labels)


def test_classify_is_the_programs(trained, model):
    texts = ["the old cat", "a dog sees", "the"]
    lines = program("classify", trained("classifier").model, "--format=json",
                    given="".join(f"{text}\n" for text in texts)).splitlines()
    found = model("classifier").classify(texts)
    for answer, line in zip(found, lines, strict=True):
        printed = json.loads(line)
        assert answer.label == printed["label"]
        assert answer.probabilities == pytest.approx(printed["probabilities"], rel=1e-6)
        assert answer.probability == max(answer.probabilities.values())
        assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert model("classifier").classify(texts[0]).label == "feline"
    assert model("classifier").labels == list(found[0].probabilities)


def test_run_is_the_programs(trained, model, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3, 9, 2))
    np.save(tmp_path / "x.npy", x)
    program("run", trained("features").model, tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    expected = np.load(tmp_path / "y.npy")
    runner = model("features")
    np.testing.assert_array_equal(runner.run(x), expected)
    np.testing.assert_array_equal(runner.run(x.astype(np.float32)), expected)
    one = runner.run(x[1])
    assert one.shape == (9, 1) and one.dtype == np.float32
    np.testing.assert_allclose(one, expected[1], atol=1e-6)
    many = runner.run([x[0], x[1][:4], x[2][:0]])
    assert [array.shape for array in many] == [(9, 1), (4, 1), (0, 1)]
    np.testing.assert_allclose(many[1], expected[1][:4], atol=1e-6)
    # An array that is not contiguous, and one of another kind.
    np.testing.assert_array_equal(runner.run(np.asfortranarray(x[1])), one)
    assert (runner.features, runner.outputs, runner.answers_each_frame, runner.labels) == (2, 1, True, [])


def test_resets_begin_episodes(model):
    runner, x = model("features"), np.random.default_rng(1).uniform(-1, 1, (8, 2)).astype(np.float32)
    resets = np.zeros(8, bool)
    resets[3] = True
    both = np.concatenate([runner.run(x[:3]), runner.run(x[3:])])
    np.testing.assert_allclose(runner.run(x, resets), both, atol=1e-6)
    np.testing.assert_allclose(runner.run([x, x], [None, resets])[1], both, atol=1e-6)
    assert np.abs(runner.run(x) - both).max() > 1e-3


@pytest.mark.parametrize("kind", TASKS)
def test_info_names_the_kind(trained, model, kind):
    info = model(kind).info()
    assert info["kind"] == kind == model(kind).kind
    assert info["configuration"]["hidden"] in (8, 16, [8], [16]) and info["parameters"] > 100
    assert repr(info["parameters"]) in program("info", trained(kind).model).replace(",", "").replace("'", "")
    assert model(kind).plan_cache().keys() == {"plans", "bytes", "plans_made", "weights_packed"}


def test_plans_are_dropped(model):
    translator = model("seq2seq", fresh=True)
    before = translator.decode("a b", min_length=1)
    assert translator.plan_cache()["plans"] > 0
    translator.clear_plan_cache()
    assert translator.plan_cache()["plans"] == 0
    assert translator.decode("a b", min_length=1) == before


def test_a_model_has_the_methods_of_its_kind(model):
    methods = {"seq2seq": {"decode", "score"}, "language_model": {"generate", "score", "stream"},
               "tagger": {"tag", "stream"}, "classifier": {"classify", "stream"}, "features": {"run", "stream"}}
    for kind, expected in methods.items():
        has = {name for name in ("decode", "score", "generate", "tag", "classify", "run", "stream")
               if hasattr(model(kind), name)}
        assert has == expected


def test_load_takes_what_the_program_takes(trained):
    folder = trained("features").directory
    for path in (folder, f"{folder}/best", f"{folder}/best/model.safetensors"):
        assert sluice.load(path).kind == "features"
    assert isinstance(sluice.load(folder, precision="float32", plan_cache_bytes=0), models.FeatureModel)
