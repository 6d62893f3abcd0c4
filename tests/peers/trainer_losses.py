#!/usr/bin/env python3
"""Whole small runs in torch: batches in their order, warm-up, schedules, decay, validations.

Each case has its configuration, its examples and the losses of every step and validation, so that
tests/unit/training/torch_runs_test.cpp can let training::Trainer do the same run.

    trainer_losses.py            write tests/peers/goldens/trainer_losses.json anew
    trainer_losses.py --check    compute again and compare with the file
"""

import argparse
import json
import pathlib
import sys

import torch

from torch_models.config import DEFAULTS
from torch_models.data import Examples, SplitMix
from torch_models.training import Run

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "trainer_losses.json"
VOCABULARIES = 23, 19

CASES = [
    dict(name="adam_inverse_sqrt",
         model=dict(cell="lstm", embedding=12, hidden=16, encoder_layers=2, decoder_layers=2,
                    bidirectional=True, attention="additive", dropout=0.0),
         training=dict(optimizer="adam", learning_rate=4e-3, schedule="inverse_sqrt",
                       warmup_steps=10, weight_decay=0.01, clip_norm=0.5,
                       label_smoothing=0.1, max_tokens=150, pool=64, max_epochs=8, seed=3)),
    dict(name="sgd_plateau",
         model=dict(cell="gru", embedding=12, hidden=16, encoder_layers=1, decoder_layers=2,
                    bidirectional=False, attention="multiplicative", dropout=0.0),
         training=dict(optimizer="sgd", learning_rate=0.3, momentum=0.8, schedule="plateau",
                       warmup_steps=8, plateau_patience=2, plateau_factor=0.6, weight_decay=1e-3,
                       clip_norm=0.4, max_tokens=200, max_rows=11, pool=100, max_epochs=0,
                       max_steps=60, validate_every=7, seed=4)),
]


def examples(count, stream, noise):
    """The target is the source backwards, with some quarters of its tokens drawn at random."""
    random = SplitMix(9, stream)
    pairs = []
    for _ in range(count):
        source = [4 + random.below(VOCABULARIES[0] - 4) for _ in range(1 + random.below(8))]
        target = [4 + random.below(VOCABULARIES[1] - 4) if random.below(4) < noise
                  else 4 + token % (VOCABULARIES[1] - 4) for token in reversed(source)]
        pairs.append((source, target))
    return pairs


def train(case, train_examples, valid_examples):
    config = {section: {**defaults, **case[section]}
              for section, defaults in DEFAULTS.items()}
    sides = [Examples("seq2seq", VOCABULARIES, pairs) for pairs in (train_examples, valid_examples)]
    run = Run(config, *sides, torch.device("cpu"))
    run.run()
    return dict(losses=run.step_losses,
                validations=[[note["step"], note["loss"], note["learning_rate"]]
                             for note in run.validations])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Validation is on noise alone, so that its loss rises soon and the plateau schedule shows.
    train_examples, valid_examples = examples(120, 0, noise=1), examples(30, 1, noise=4)
    results = [train(case, train_examples, valid_examples) for case in CASES]
    if not arguments.check:
        golden = dict(torch=torch.__version__, vocabularies=VOCABULARIES, train=train_examples,
                      valid=valid_examples,
                      cases=[{**case, **result} for case, result in zip(CASES, results)])
        GOLDEN.write_text(json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"')
                          + "\n")
        return 0
    worst = 0
    for result, golden in zip(results, json.loads(GOLDEN.read_text())["cases"]):
        assert len(result["losses"]) == len(golden["losses"]), golden["name"]
        pairs = list(zip(result["losses"], golden["losses"]))
        pairs += [(a[1], b[1]) for a, b in zip(result["validations"], golden["validations"])]
        worst = max([worst] + [abs(new / old - 1) for new, old in pairs])
    print(f"largest relative difference from {GOLDEN.name}: {worst:.2e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
