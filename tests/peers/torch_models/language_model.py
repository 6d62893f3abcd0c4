"""Embedding, recurrent layers, output layer: docs/language-models.md."""

import math

import torch
from torch import nn

from .layers import cross_entropy_sums, dropout
from .parameters import initialize


class LanguageModel(nn.Module):
    def __init__(self, config, vocabulary, seed, carries=False):
        """`carries`: rows go on from where those of the batch before ended (training.bptt)."""
        super().__init__()
        self.config, self.carries = config, carries
        self.carried = {}  # by whether in training: states [layers, rows, hidden], always there
        hidden, layers = config["hidden"], config["layers"]
        self.embedding = nn.Embedding(vocabulary, config["embedding"])
        recurrent = nn.LSTM if config["cell"] == "lstm" else nn.GRU
        self.recurrent = recurrent(config["embedding"], hidden, layers,
                                   dropout=config["dropout"] if layers > 1 else 0)
        self.output = nn.Linear(hidden, vocabulary)
        if config["tie_embeddings"] == "decoder":
            self.output.weight = self.embedding.weight

        def limit_of(name, parameter):
            if name == "embedding.weight":
                return math.sqrt(3 / parameter.shape[1])
            return 0 if name == "output.bias" else 1 / math.sqrt(hidden)

        initialize(self, limit_of, seed)

    # torch.compile can't follow tensors that a module keeps in a dict: it compiles what stands between.
    @torch.compiler.disable
    def states(self, batch):
        """Where the batch's rows start, or None: from zero."""
        if not self.carries:
            return None
        shape = (self.config["layers"], batch.target_in.shape[1], self.config["hidden"])
        kept = self.carried.get(self.training)
        if kept is None or kept[0].shape != shape:
            count = 2 if self.config["cell"] == "lstm" else 1
            kept = tuple(torch.zeros(shape, device=batch.target_in.device) for _ in range(count))
            self.carried[self.training] = kept
        if batch.begins:
            for state in kept:
                state.zero_()
        # Copies, for backward needs them and they are about to be overwritten.
        states = tuple(state.clone() for state in kept)
        return states if len(states) > 1 else states[0]

    @torch.compiler.disable
    def keep(self, finals):
        finals = finals if isinstance(finals, tuple) else (finals,)
        for state, final in zip(self.carried[self.training], finals):
            # torch.compile gives an LSTM's finals a dimension more.
            state.copy_(final.detach().view_as(state))

    def forward(self, batch, label_smoothing):
        """(smoothed loss, -log p) summed over the batch's tokens."""
        # Past a row's end nothing counts and nothing flows back: no need to pack.
        embedded = dropout(self, self.embedding(batch.target_in))
        y, finals = self.recurrent(embedded, self.states(batch))
        if self.carries:
            self.keep(finals)
        return cross_entropy_sums(self.output(dropout(self, y)), batch, label_smoothing)
