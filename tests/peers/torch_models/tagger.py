"""Embedding, recurrent layers in one or both directions, output layer, softmax or CRF: docs/equations.md."""

import math

import torch
from torch import nn

from .data import IGNORED
from .layers import cross_entropy_sums, dropout, run_recurrent
from .parameters import initialize


class Crf(nn.Module):
    """Emissions are [time, rows, labels], `counts` [time, rows] says which of them there are: from the
    first step of a row on, for as many as it has."""

    def __init__(self, labels):
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(labels, labels))
        self.start = nn.Parameter(torch.empty(labels))
        self.end = nn.Parameter(torch.empty(labels))

    def log_partition(self, emissions, counts):
        alpha = self.start + emissions[0]
        for emission, count in zip(emissions[1:], counts[1:]):
            longer = torch.logsumexp(alpha[:, :, None] + self.transitions, dim=1) + emission
            alpha = torch.where(count[:, None], longer, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def score(self, emissions, labels, counts):
        labels = labels.clamp(min=0)  # padding, which counts nothing
        own = emissions.gather(2, labels[:, :, None])[:, :, 0]
        moves = self.transitions[labels[:-1], labels[1:]]
        last = labels.gather(0, counts.sum(0, keepdim=True).sub(1).clamp(min=0))[0]
        return (self.start[labels[0]] + (own * counts).sum(0) + (moves * counts[1:]).sum(0)
                + self.end[last])

    def loss(self, emissions, labels, counts):
        """-log p summed over rows; a row without steps has none."""
        losses = self.log_partition(emissions, counts) - self.score(emissions, labels, counts)
        return torch.where(counts[0], losses, torch.zeros_like(losses)).sum()

    def best(self, emissions, counts):
        """The likeliest labels [time, rows]; those of padding mean nothing."""
        best, origins = self.start + emissions[0], []
        stay = torch.arange(emissions.shape[2], device=emissions.device)
        for emission, count in zip(emissions[1:], counts[1:]):
            longer, origin = (best[:, :, None] + self.transitions).max(dim=1)
            best = torch.where(count[:, None], longer + emission, best)
            origins.append(torch.where(count[:, None], origin, stay))
        label = (best + self.end).argmax(dim=1)
        path = [label]
        for origin in reversed(origins):
            label = origin.gather(1, label[:, None])[:, 0]
            path.append(label)
        return torch.stack(path[::-1])


class Tagger(nn.Module):
    def __init__(self, config, vocabulary, labels, seed):
        super().__init__()
        self.config = config
        directions = 2 if config["bidirectional"] else 1
        units = config["hidden"] // directions
        recurrent = nn.LSTM if config["cell"] == "lstm" else nn.GRU
        self.embedding = nn.Embedding(vocabulary, config["embedding"])
        self.recurrent = recurrent(config["embedding"], units, config["layers"],
                                   bidirectional=config["bidirectional"],
                                   dropout=config["dropout"] if config["layers"] > 1 else 0)
        self.output = nn.Linear(config["hidden"], labels)
        self.crf = Crf(labels) if config["output"] == "crf" else None

        def limit_of(name, parameter):
            if name == "embedding.weight":
                return math.sqrt(3 / parameter.shape[1])
            if name.startswith("crf."):
                return 0.1
            if name == "output.bias":
                return 0
            return 1 / math.sqrt(config["hidden"] if name == "output.weight" else units)

        initialize(self, limit_of, seed)

    def emissions(self, batch):
        embedded = dropout(self, self.embedding(batch.source))
        y, _ = run_recurrent(self.recurrent, embedded, batch)
        return self.output(dropout(self, y))

    def forward(self, batch, label_smoothing):
        """(smoothed loss, -log p) summed over the batch's labels."""
        emissions = self.emissions(batch)
        if self.crf is None:
            return cross_entropy_sums(emissions, batch, label_smoothing)
        loss = self.crf.loss(emissions.float(), batch.target_out, batch.target_out != IGNORED)
        return loss, loss.detach()

    def best_labels(self, batch):
        """[time, rows]"""
        emissions = self.emissions(batch)
        if self.crf is None:
            return emissions.argmax(dim=2)
        return self.crf.best(emissions, batch.target_out != IGNORED)
