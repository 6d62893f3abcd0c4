#!/usr/bin/env python3
"""A classifier of sentences in Keras; with --sluice its recurrent layers are imported from Sluice.

    KERAS_BACKEND=tensorflow examples/keras_text_model.py --data FOLDER --epochs 5
    KERAS_BACKEND=tensorflow examples/keras_text_model.py --data FOLDER --epochs 5 --sluice

FOLDER has a text file (.txt or .md) for each class. Without --data it learns from which of Sluice's own pages a sentence is.
Every eighth sentence is for validation.
"""

import argparse
import pathlib
import re
from collections import Counter

import keras
import numpy as np


def sentences_of(path):
    """Lists of lower-case words."""
    for sentence in re.split(r"[.:!?|]\s|\n\s*\n", path.read_text(encoding="utf-8")):
        words = re.findall(r"[a-z]+|\d", sentence.lower())
        if 4 <= len(words) <= 40:
            yield words


def read(folder, classes, most_words, length):
    """Tokens [sentences, length] padded with 0, and the class of each sentence."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".md"))
    texts = {path: list(sentences_of(path)) for path in paths}
    chosen = sorted(paths, key=lambda path: -len(texts[path]))[:classes]
    counts = Counter(word for path in chosen for words in texts[path] for word in words)
    numbers = {word: number + 2 for number, (word, _) in enumerate(counts.most_common(most_words))}  # 1: other words
    tokens, labels = [], []
    for label, path in enumerate(chosen):
        for words in texts[path]:
            tokens.append([numbers.get(word, 1) for word in words])
            labels.append(label)
    return keras.utils.pad_sequences(tokens, length, padding="post", truncating="post"), np.array(labels), len(numbers) + 2


def make_model(layers, words, classes, width, length):
    model = keras.Sequential([
        keras.Input((length,), dtype="int32"),
        keras.layers.Embedding(words, width, mask_zero=True),
        keras.layers.Bidirectional(layers.LSTM(width, return_sequences=True, dropout=0.2)),
        layers.GRU(width),
        keras.layers.Dense(classes, activation="softmax"),
    ])
    model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "docs")
    parser.add_argument("--classes", type=int, default=4, help="files that are read, those with the most sentences")
    parser.add_argument("--most", type=int, help="sentences that are read")
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "mixed_bfloat16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sluice", action="store_true")
    args = parser.parse_args()
    if args.sluice:
        import sluice.keras as layers
    else:
        from keras import layers

    keras.config.set_dtype_policy(args.dtype)
    keras.utils.set_random_seed(args.seed)
    tokens, labels, words = read(args.data, args.classes, args.words, args.length)
    order = np.random.default_rng(args.seed).permutation(len(labels))[:args.most]
    tokens, labels = tokens[order], labels[order]
    validates = np.arange(len(labels)) % 8 == 0
    model = make_model(layers, words, args.classes, args.width, args.length)
    history = model.fit(tokens[~validates], labels[~validates], args.rows, args.epochs, verbose=0,
                        validation_data=(tokens[validates], labels[validates])).history
    for epoch in range(args.epochs):
        print(f"epoch {epoch + 1}: loss {history['loss'][epoch]:.6f}, validation {history['val_loss'][epoch]:.6f}, "
              f"{100 * history['val_accuracy'][epoch]:.1f}% right")


if __name__ == "__main__":
    main()
