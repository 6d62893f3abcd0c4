#!/usr/bin/env python3
"""First 100 training losses of the tagger, written in torch from its documented equations.

losses.py says what such a script does; tests/unit/models/tagger_losses_test.cpp trains the same.

    tagger_losses.py            write tests/peers/goldens/tagger_losses.json anew
    tagger_losses.py --check    compute again and compare with the file
"""

import sys

import torch

import losses

COMMON = dict(vocabulary=37, labels=9, embedding=24, hidden=32, seed=7, rows=8, time=11, batches=5,
              class_weights=[])
CASES = [
    dict(name="lstm_crf", cell="lstm", output="crf", bidirectional=True, layers=1, optimizer="adam",
         learning_rate=3e-3, label_smoothing=0.0, clip_norm=5.0),
    dict(name="lstm_softmax_deep", cell="lstm", output="softmax", bidirectional=True, layers=2,
         optimizer="adam", learning_rate=3e-3, label_smoothing=0.1, clip_norm=1.0),
    dict(name="gru_crf_unidirectional", cell="gru", output="crf", bidirectional=False, layers=2,
         optimizer="sgd", learning_rate=0.3, label_smoothing=0.0, clip_norm=0.2),
    dict(name="lstm_softmax_weighted", cell="lstm", output="softmax", bidirectional=True, layers=1,
         optimizer="adam", learning_rate=3e-3, label_smoothing=0.0, clip_norm=1.0,
         class_weights=[0.1, 2.0, 3.0, 0.0, 1.0, 1.0, 5.0, 0.5, 1.0]),
]


def sentences(case, batch):
    """Rows of (tokens, labels) from a linear congruential generator, lengths ragged."""
    numbers = losses.Numbers(batch)
    rows = []
    for _ in range(case["rows"]):
        tokens, labels = [], []
        for _ in range(1 + numbers.draw(case["time"])):
            tokens.append(4 + numbers.draw(case["vocabulary"] - 4))
            labels.append(numbers.draw(case["labels"]))
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
            parameter.data = losses.uniform(name, parameter.shape, limit, case["seed"])

    def row_loss(self, tokens, labels):
        """Summed over one row's labels."""
        hidden, _ = self.recurrent(self.embedding(torch.tensor(tokens))[:, None])
        emissions = self.output(hidden[:, 0])
        labels = torch.tensor(labels)
        if self.case["output"] == "softmax":
            weights = self.case["class_weights"]
            return torch.nn.functional.cross_entropy(
                emissions, labels, reduction="sum", label_smoothing=self.case["label_smoothing"],
                weight=torch.tensor(weights) if weights else None)
        transitions, start, end = (self.crf[name] for name in ("transitions", "start", "end"))
        score = start[labels[0]] + emissions[range(len(labels)), labels].sum() + end[labels[-1]]
        score = score + transitions[labels[:-1], labels[1:]].sum()
        alpha = start + emissions[0]
        for emission in emissions[1:]:
            alpha = torch.logsumexp(alpha[:, None] + transitions, dim=0) + emission
        return torch.logsumexp(alpha + end, dim=0) - score


def losses_of(case):
    model = Tagger(case)

    def loss(step):
        rows = sentences(case, step % case["batches"])
        return (sum(model.row_loss(tokens, labels) for tokens, labels in rows)
                / sum(len(labels) for _, labels in rows))

    return losses.train(case, model, loss)


if __name__ == "__main__":
    sys.exit(losses.main(__file__, __doc__, [{**COMMON, **case} for case in CASES], losses_of))
