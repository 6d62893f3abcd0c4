"""Embedding, recurrent layers in one or both directions, pooling over time, output layer: docs/equations.md."""

import math

import torch
from torch import nn

from .layers import cross_entropy_sums, dropout, run_recurrent
from .parameters import initialize


class Pooling(nn.Module):
    """[time, rows, features] -> [rows, features]; `padding` [rows, time] says which steps take no
    part, None: all take part."""

    def __init__(self, kind, features, forward_features):
        super().__init__()
        self.kind, self.forward_features = kind, forward_features
        if kind == "attention":
            self.query = nn.Parameter(torch.empty(features))

    def forward(self, x, padding):
        if self.kind == "last":
            return self.last(x, padding)
        if self.kind == "attention":
            scores = x.float() @ self.query
            if padding is not None:
                scores = scores.masked_fill(padding.T, -math.inf)
            return torch.einsum("tr,trf->rf", torch.softmax(scores, dim=0).to(x.dtype), x)
        absent = None if padding is None else padding.T[:, :, None]
        if self.kind == "max":
            return (x if absent is None else x.masked_fill(absent, -math.inf)).max(dim=0).values
        if absent is None:
            return x.mean(dim=0)
        return x.masked_fill(absent, 0).sum(dim=0) / (~absent).sum(dim=0)

    def last(self, x, padding):
        """Of the forward direction the last step, of the backward one the first."""
        ends = x[-1] if padding is None else x[(~padding).sum(1) - 1, torch.arange(x.shape[1])]
        features = self.forward_features
        return torch.cat([ends[:, :features], x[0, :, features:]], dim=1)


class Classifier(nn.Module):
    def __init__(self, config, vocabulary, classes, seed):
        super().__init__()
        self.config = config
        hidden, directions = config["hidden"], 2 if config["bidirectional"] else 1
        units = hidden // directions
        recurrent = nn.LSTM if config["cell"] == "lstm" else nn.GRU
        self.embedding = nn.Embedding(vocabulary, config["embedding"])
        self.stack = recurrent(config["embedding"], units, config["layers"],
                               bidirectional=config["bidirectional"],
                               dropout=config["dropout"] if config["layers"] > 1 else 0)
        kind = "attention" if config["pooling"] == "auto" else config["pooling"]
        self.pooling = Pooling(kind, hidden, units)
        self.output = nn.Linear(hidden, classes)

        def limit_of(name, parameter):
            if name == "embedding.weight":
                return math.sqrt(3 / parameter.shape[1])
            if name == "output.bias":
                return 0
            return 1 / math.sqrt(units if name.startswith("stack.") else hidden)

        initialize(self, limit_of, seed)

    def logits(self, batch):
        """[1, rows, classes]"""
        embedded = dropout(self, self.embedding(batch.source))
        y, _ = run_recurrent(self.stack, embedded, batch)
        return self.output(dropout(self, self.pooling(y, batch.padding)))[None]

    def forward(self, batch, label_smoothing):
        """(smoothed loss, -log p) summed over the batch's rows."""
        return cross_entropy_sums(self.logits(batch), batch, label_smoothing)

    def best_labels(self, batch):
        """[1, rows]"""
        return self.logits(batch).argmax(dim=2)
