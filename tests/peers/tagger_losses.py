#!/usr/bin/env python3
"""First 100 training losses of the tagger, written in torch from its documented equations.

As seq2seq_losses.py does for its model: each case has its own architecture, initial weights, data,
optimiser and clipping, all named in the golden file, so that
tests/unit/models/tagger_losses_test.cpp can train the same model and compare every loss.

    tagger_losses.py            write tests/peers/goldens/tagger_losses.json anew
    tagger_losses.py --check    compute again and compare with the file
"""

import argparse
import json
import pathlib
import sys

import torch

from seq2seq_losses import uniform

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "tagger_losses.json"
STEPS = 100
COMMON = dict(vocabulary=37, labels=9, embedding=24, hidden=32, seed=7, rows=8, time=11, batches=5)
CASES = [
    dict(name="lstm_crf", cell="lstm", output="crf", bidirectional=True, layers=1, optimizer="adam",
         learning_rate=3e-3, label_smoothing=0.0, clip_norm=5.0),
    dict(name="lstm_softmax_deep", cell="lstm", output="softmax", bidirectional=True, layers=2,
         optimizer="adam", learning_rate=3e-3, label_smoothing=0.1, clip_norm=1.0),
    dict(name="gru_crf_unidirectional", cell="gru", output="crf", bidirectional=False, layers=2,
         optimizer="sgd", learning_rate=0.3, label_smoothing=0.0, clip_norm=0.5),
]


def sentences(case, batch):
    """Rows of (tokens, labels) from a linear congruential generator, lengths ragged."""
    state = (1000003 * (batch + 1) + 17) % 2147483647

    def draw(below):
        nonlocal state
        state = state * 48271 % 2147483647
        return state % below

    rows = []
    for _ in range(case["rows"]):
        tokens, labels = [], []
        for _ in range(1 + draw(case["time"])):
            tokens.append(4 + draw(case["vocabulary"] - 4))
            labels.append(draw(case["labels"]))
        rows.append((tokens, labels))
    return rows


class Tagger(torch.nn.Module):
    """Embedding, recurrent stack, output layer, softmax or CRF (docs/equations.md)."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        directions = 2 if case["bidirectional"] else 1
        cell = torch.nn.LSTM if case["cell"] == "lstm" else torch.nn.GRU
        units = case["hidden"] // directions
        self.embedding = torch.nn.Embedding(case["vocabulary"], case["embedding"])
        self.recurrent = cell(case["embedding"], units, case["layers"],
                              bidirectional=case["bidirectional"])
        self.output = torch.nn.Linear(case["hidden"], case["labels"])
        limits = {"embedding": (3 / case["embedding"]) ** 0.5, "recurrent": units ** -0.5,
                  "output.weight": case["hidden"] ** -0.5, "output.bias": 0, "crf": 0.1}
        if case["output"] == "crf":
            labels = case["labels"]
            self.crf = torch.nn.ParameterDict({"transitions": torch.nn.Parameter(torch.empty(labels, labels)),
                                               "start": torch.nn.Parameter(torch.empty(labels)),
                                               "end": torch.nn.Parameter(torch.empty(labels))})
        for name, parameter in self.named_parameters():
            limit = limits[name] if name in limits else limits[name.split(".")[0]]
            parameter.data = uniform(name, parameter.shape, limit, case["seed"])

    def row_loss(self, tokens, labels):
        """Summed over one row's labels."""
        hidden, _ = self.recurrent(self.embedding(torch.tensor(tokens))[:, None])
        emissions = self.output(hidden[:, 0])
        labels = torch.tensor(labels)
        if self.case["output"] == "softmax":
            return torch.nn.functional.cross_entropy(
                emissions, labels, reduction="sum", label_smoothing=self.case["label_smoothing"])
        transitions, start, end = (self.crf[name] for name in ("transitions", "start", "end"))
        score = start[labels[0]] + emissions[range(len(labels)), labels].sum() + end[labels[-1]]
        score = score + transitions[labels[:-1], labels[1:]].sum()
        alpha = start + emissions[0]
        for emission in emissions[1:]:
            alpha = torch.logsumexp(alpha[:, None] + transitions, dim=0) + emission
        return torch.logsumexp(alpha + end, dim=0) - score


def train(case):
    """The loss per label of each step, before its update."""
    model = Tagger(case)
    optimizer = (torch.optim.Adam if case["optimizer"] == "adam" else torch.optim.SGD)(
        model.parameters(), lr=case["learning_rate"])
    losses = []
    for step in range(STEPS):
        rows = sentences(case, step % case["batches"])
        optimizer.zero_grad()
        count = sum(len(labels) for _, labels in rows)
        loss = sum(model.row_loss(tokens, labels) for tokens, labels in rows) / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip_norm"])
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    goldens = []
    for case in CASES:
        case = {**COMMON, **case}
        losses = train(case)
        print(f"{case['name']}: {losses[0]:.6f} -> {losses[-1]:.6f}")
        goldens.append({**case, "losses": losses})
    if not arguments.check:
        GOLDEN.write_text(json.dumps({"torch": torch.__version__, "cases": goldens}, indent=1))
        return 0
    worst = max(abs(new / old - 1)
                for a, b in zip(goldens, json.loads(GOLDEN.read_text())["cases"])
                for new, old in zip(a["losses"], b["losses"]))
    print(f"largest relative difference from {GOLDEN.name}: {worst:.2e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
