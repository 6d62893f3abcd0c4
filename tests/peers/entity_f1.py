#!/usr/bin/env python3
"""Precision, recall and F1 of entities by the seqeval package, for src/metrics to equal.

    entity_f1.py                       write tests/peers/goldens/entity_f1.json anew
    entity_f1.py --check               compute again and compare with the file
    entity_f1.py --files GOLD TAGGED   seqeval's scores of two CoNLL files, labels in their last columns
"""

import argparse
import json
import pathlib
import random
import sys
import warnings

from seqeval.metrics import classification_report

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "entity_f1.json"
# What a trained tagger answered.
REAL = pathlib.Path(__file__).parent / "real_output.json"

# Labels of every scheme, broken ones, and what is no entity's label at all. Left out is what has no
# type after what has none ("o" after "O", "I" after "."): seqeval lets such entities begin where the
# last one of the whole corpus did.
ALPHABETS = dict(
    bio=["O", "O", "B-per", "I-per", "B-loc", "I-loc", "B-creative-work", "I-creative-work"],
    bioes=["O", "B-per", "I-per", "E-per", "S-per", "B-loc", "E-loc", "S-loc", "I-loc"],
    io=["O", "I-per", "I-loc"],
    odd=["O", "B", "I", "E-", "S-x", "per", "B-x-y", "U-x", "L-x", "Ö-x"],
    dots=["O", ".", "B-x", "I-x", "E-y", ".-x"],
)


def mutated(generator, labels, alphabet, rate):
    return [generator.choice(alphabet) if generator.random() < rate else label for label in labels]


def corpora():
    """Expected and predicted labels, sentence by sentence."""
    generator = random.Random(17)
    for name, alphabet in ALPHABETS.items():
        for rate in 0.1, 0.5, 1.0:
            expected = [[generator.choice(alphabet) for _ in range(generator.randint(1, 12))]
                        for _ in range(30)]
            predicted = [mutated(generator, labels, alphabet, rate) for labels in expected]
            yield f"{name}_{rate}", expected, predicted
    real = json.loads(REAL.read_text(encoding="utf-8"))["entities"]
    yield "real", real["expected"], real["predicted"]
    yield "identical", [["B-a", "I-a", "O"]], [["B-a", "I-a", "O"]]
    yield "nothing_found", [["B-a", "I-a", "O"]], [["O", "O", "O"]]
    yield "nothing_expected", [["O", "O", "O"]], [["O", "B-a", "I-a"]]
    yield "across_sentences", [["O", "B-a"], ["I-a", "O"]], [["O", "B-a"], ["O", "O"]]


def scores(expected, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(expected, predicted, output_dict=True, zero_division=0)
    rows = {name: [row["precision"], row["recall"], row["f1-score"], int(row["support"])]
            for name, row in report.items() if name not in ("macro avg", "weighted avg")}
    return {"micro": rows.pop("micro avg"), "types": rows}


def read_labels(path):
    sentences = [[]]
    for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n"):
        if line.strip():
            sentences[-1].append(line.split()[-1])
        elif sentences[-1]:
            sentences.append([])
    return [labels for labels in sentences if labels]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--files", nargs=2, metavar=("GOLD", "TAGGED"))
    arguments = parser.parse_args()
    if arguments.files:
        result = scores(*map(read_labels, arguments.files))
        for name, row in [*result["types"].items(), ("all", result["micro"])]:
            print(f"{name:20} precision {row[0]:.4%}  recall {row[1]:.4%}  F1 {row[2]:.4%}  of {row[3]}")
        return 0
    cases = [{"name": name, "expected": expected, "predicted": predicted,
              "scores": scores(expected, predicted)} for name, expected, predicted in corpora()]
    if not arguments.check:
        GOLDEN.write_text(json.dumps({"cases": cases}, separators=(",", ":"), ensure_ascii=False) + "\n")
        return 0
    same = json.loads(GOLDEN.read_text())["cases"] == cases
    print("seqeval's scores are those of the file" if same else "seqeval's scores differ from the file")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
