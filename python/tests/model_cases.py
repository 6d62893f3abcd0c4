"""Small tasks to train models on, and the program that the same models run in."""

import os
import pathlib
import random
import subprocess

import numpy as np

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SLUICE_PROGRAM", str(SOURCE / "build" / "sluice"))


def program(*arguments, given=None):
    """What `sluice arguments...` prints on standard output."""
    return subprocess.run([PROGRAM, *map(str, arguments)], input=given, text=True, capture_output=True, check=True).stdout


def written(path, text):
    path.write_text(text)
    return str(path)


def reversals(count, seed):
    """Lines of letters, a tab, and the letters backwards."""
    rng = random.Random(seed)
    words = [[rng.choice("abcdefgh") for _ in range(rng.randint(1, 6))] for _ in range(count)]
    return "".join(f"{' '.join(word)}\t{' '.join(reversed(word))}\n" for word in words)


def pairs(folder):
    return {"data": {"tsv": written(folder / "train.tsv", reversals(400, 1)),
                     "validation_tsv": written(folder / "valid.tsv", reversals(40, 2))},
            "tokenizer.kind": "words", "model": {"embedding": 16, "hidden": 16},
            "training": {"max_tokens": 300, "max_epochs": 2}}


def squares(folder):
    text = "".join(f"{n * n} is a square\n" for n in range(60))
    return {"data": {"text": written(folder / "squares.txt", text), "hold_out_run": 5, "hold_out_every": 4},
            "tokenizer.kind": "characters", "model": {"kind": "language_model", "embedding": 8, "hidden": 16},
            "training": {"learning_rate": 0.02, "max_tokens": 200, "max_epochs": 0, "max_steps": 60}}


def sentences(folder):
    rng = random.Random(3)
    text = ""
    for _ in range(150):
        for _ in range(rng.randint(1, 3)):
            name = f"n{rng.choice('abcdef')}"
            text += rng.choice([f"mr O\n{name} B-per\n{name} I-per\n", f"in O\n{name} B-loc\n", f"the O\n{name} O\n"])
        text += "\n"
    return {"data": {"conll": written(folder / "train.conll", text), "validation_conll": str(folder / "train.conll")},
            "tokenizer.kind": "words", "model": {"kind": "tagger", "embedding": 12, "hidden": 16,
                                                 "bidirectional": False, "output": "softmax"},
            "training": {"learning_rate": 0.02, "max_tokens": 300, "max_epochs": 5}}


def animals(folder):
    rng = random.Random(4)
    text = "text,label\n"
    for _ in range(200):
        animal, label = rng.choice([("cat", "feline"), ("dog", "canine")])
        words = [rng.choice(["the", "a", "sees", "old"]) for _ in range(rng.randint(1, 5))] + [animal]
        rng.shuffle(words)
        text += f"{' '.join(words)},{label}\n"
    return {"data": {"table": written(folder / "train.csv", text), "validation_table": str(folder / "train.csv")},
            "tokenizer.kind": "words", "model": {"kind": "classifier", "embedding": 8, "hidden": 8,
                                                 "bidirectional": False, "pooling": "last"},
            "training": {"learning_rate": 0.02, "max_tokens": 256, "max_epochs": 3}}


def frames(folder):
    """Frames of two numbers; the target is a running mean of the first."""
    rng = np.random.default_rng(5)
    features, targets = {}, {}
    for i in range(40):
        x = rng.uniform(-1, 1, (5 + i % 7, 2)).astype(np.float32)
        mean, means = 0.0, []
        for a, _ in x:
            mean = 0.7 * mean + 0.3 * a
            means.append([mean])
        features[f"s{i}"], targets[f"s{i}"] = x, np.array(means, np.float32)
    np.savez(folder / "x.npz", **features)
    np.savez(folder / "y.npz", **targets)
    return {"data": {"features": folder / "x.npz", "targets": folder / "y.npz", "hold_out_run": 1,
                     "hold_out_every": 5},
            "model": {"kind": "features", "hidden": 8, "bidirectional": False, "dropout": 0.0},
            "training": {"learning_rate": 0.02, "max_tokens": 400, "max_epochs": 4}}


TASKS = {"seq2seq": pairs, "language_model": squares, "tagger": sentences, "classifier": animals, "features": frames}
