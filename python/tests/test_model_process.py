"""Training, threads, Ctrl-C and profiles."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from model_cases import SOURCE, TASKS, program, reversals
from test_process import run_in_threads

import sluice


def interrupt_after(seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_training_gives_the_programs_bits(trained, tmp_path):
    task = TASKS["seq2seq"](tmp_path)
    flags = [f"--set={section}.{key}={value}" for section, keys in task.items() if isinstance(keys, dict)
             for key, value in keys.items()]
    program("train", "--quiet", *flags, "--set=tokenizer.kind=words", f"--set=output.directory={tmp_path / 'run'}")
    ours = sluice.load(trained("seq2seq").last)
    theirs = sluice.load(tmp_path / "run" / "last")
    assert ours.decode("a b c", min_length=3, nbest=5) == theirs.decode("a b c", min_length=3, nbest=5)


def test_training_tells_what_it_measured(trained, tmp_path):
    told = []
    toml = tmp_path / "task.toml"
    toml.write_text(f'[data]\ntsv = "{tmp_path / "t.tsv"}"\nvalidation_tsv = "{tmp_path / "t.tsv"}"\n'
                    '[tokenizer]\nkind = "words"\n[model]\nembedding = 8\nhidden = 8\n')
    (tmp_path / "t.tsv").write_text(reversals(60, 3))
    settings = {"training": {"max_epochs": 3, "max_tokens": 100}, "output.directory": tmp_path / "run"}
    report = sluice.train(toml, settings=settings, quiet=True, metrics=told.append)
    steps = [one for one in told if one["kind"] == "step"]
    validations = [one for one in told if one["kind"] == "validation"]
    assert [one["step"] for one in steps] == list(range(1, report.steps + 1)) and report.epochs == 3
    assert [one["epoch"] for one in validations] == [1, 2, 3]
    assert steps[-1]["fraction"] == 1 and steps[0]["source_tokens"] > 0 and steps[0]["gradient_norm"] > 0
    best = min(validations, key=lambda one: one["loss"])
    assert report.best_metric_name == "loss" and report.best_metric == pytest.approx(best["loss"])
    assert report.best_step == best["step"] and best["improved"]
    assert report.directory == str(tmp_path / "run") and os.path.isdir(report.best) and os.path.isdir(report.last)
    # Nothing is left to do; and without validation there is no best model.
    assert sluice.train(toml, settings=settings, quiet=True).steps == report.steps
    with pytest.raises(ValueError, match="holds a checkpoint"):
        sluice.train(toml, settings=settings, quiet=True, resume=False)
    plain = sluice.train(toml, settings={**settings, "data.validation_tsv": "", "output.directory": tmp_path / "plain"},
                         quiet=True)
    assert plain.best is None and plain.best_metric is None and plain.model == plain.last
    assert sluice.load(plain.model).kind == "seq2seq"


class Enough(Exception):
    pass


def first_step_of(task):
    """The step with which a run that is resumed goes on."""
    told = []

    def metrics(report):
        told.append(report["step"])
        raise Enough

    with pytest.raises(Enough):
        sluice.train(task, quiet=True, metrics=metrics)
    assert len(told) == 1
    return told[0]


def test_an_exception_in_metrics_stops_and_saves(tmp_path):
    task = {**TASKS["seq2seq"](tmp_path), "output.directory": tmp_path / "run"}
    task["training"] = {"max_tokens": 300, "max_epochs": 0, "max_steps": 10**9}
    assert first_step_of(task) == 1
    second = first_step_of(task)
    assert 1 < second < first_step_of(task)


def test_ctrl_c_stops_training_which_resumes(tmp_path):
    task = {**TASKS["seq2seq"](tmp_path), "output.directory": tmp_path / "run"}
    task["training"] = {"max_tokens": 300, "max_epochs": 0, "max_steps": 10**9}
    timer = interrupt_after(1)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sluice.train(task, quiet=True)
    assert time.monotonic() - begin < 10
    timer.join()
    assert first_step_of(task) > 1


def test_ctrl_c_while_data_are_read(tmp_path):
    (tmp_path / "t.txt").write_text("".join(f"{'abc def ' * 20}{i}\n" for i in range(300_000)))
    task = {"data.text": tmp_path / "t.txt", "model.kind": "language_model", "tokenizer.kind": "characters",
            "output.directory": tmp_path / "run"}
    timer = interrupt_after(0.5)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sluice.train(task, quiet=True)
    assert time.monotonic() - begin < 10
    timer.join()
    assert not (tmp_path / "run" / "last").exists()


def test_ctrl_c_ends_a_call(model):
    translator = model("seq2seq", fresh=True)
    expected = translator.decode("a b c", min_length=3)
    texts = ["a b c d e f g h"] * 100_000
    timer = interrupt_after(0.5)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        translator.decode(texts, beam=10, min_length=20)
    assert time.monotonic() - begin < 5
    timer.join()
    assert translator.decode("a b c", min_length=3) == expected


def test_ctrl_c_ends_one_long_text(model):
    writer = model("language_model", fresh=True)
    timer = interrupt_after(0.5)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        writer.generate(samples=64, min_length=10**6, max_length=10**6)
    assert time.monotonic() - begin < 5
    timer.join()
    assert len(writer.generate(samples=2, max_length=3)) == 2


def test_threads_may_share_a_model(model):
    runner, rng = model("features"), np.random.default_rng(2)
    inputs = [rng.uniform(-1, 1, (time, 2)) for time in (9, 30)]
    expected = [runner.run(x) for x in inputs]
    streams = [runner.stream() for _ in inputs]

    def repeat(index, frames):
        for _ in range(100):
            np.testing.assert_array_equal(runner.run(inputs[index]), expected[index])
            streams[index].reset()
            np.testing.assert_allclose(np.concatenate([streams[index].run(frames[:4]), streams[index].run(frames[4:])]),
                                       expected[index], atol=1e-6)

    run_in_threads(*(lambda i=i: repeat(i, inputs[i]) for i in (0, 1)))


def test_other_threads_run_during_a_call(model):
    translator, done = model("seq2seq", fresh=True), threading.Event()
    thread = threading.Thread(target=lambda: (translator.decode(["a b c d e f g h"] * 2000, min_length=20), done.set()))
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 10


def events(path):
    with open(path) as file:
        return [event["name"] for event in json.load(file)["traceEvents"]]


def test_a_profile_records_any_calls(model, tmp_path):
    translator, runner, writer = model("seq2seq"), model("features"), model("language_model")
    with sluice.profile(tmp_path / "trace.json") as profile:
        translator.decode("a b c")
        translator.score(("a", "a"))
        runner.run(np.zeros((3, 2)))
        runner.stream().run(np.zeros((3, 2)))
        writer.generate(max_length=3)
    assert profile.paths == [str(tmp_path / name) for name in ("trace.json", "trace-2.json", "trace-3.json")]
    assert any(name.startswith("decoder") for name in events(profile.paths[0]))
    assert [events(path).count("batch 1") for path in profile.paths] == [2, 2, 1]
    size = os.path.getsize(profile.paths[0])
    translator.decode("a b c")
    assert os.path.getsize(profile.paths[0]) == size and len(os.listdir(tmp_path)) == 3


def test_a_profile_of_training(tmp_path, capfd):
    task = {**TASKS["classifier"](tmp_path), "output.directory": tmp_path / "run"}
    with sluice.profile(tmp_path / "trace.json", breakdown=True, first_step=2, last_step=3):
        sluice.train(task, quiet=True)
    assert {name for name in events(tmp_path / "trace.json") if re.fullmatch("step [0-9]+", name)} == {"step 2", "step 3"}
    assert "Where the time went, steps 2 to 3" in capfd.readouterr().err


def test_profiles_that_cannot_be(model, tmp_path):
    with pytest.raises(ValueError, match="breakdown"):
        sluice.profile()
    with sluice.profile(tmp_path / "a.json"):
        with pytest.raises(ValueError, match="already"):
            with sluice.profile(tmp_path / "b.json"):
                pass
        model("tagger").tag("mr na")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_example_runs():
    output = subprocess.check_output([sys.executable, SOURCE / "examples" / "python_models.py"], text=True)
    assert re.search(r"error [0-9.]+", output)
