"""Encoder, decoder with attention and input feeding, or without (docs/equations.md)."""

import math

import torch
from torch import nn
from torch.nn import functional

from .layers import cross_entropy_sums, dropout, run_recurrent
from .parameters import initialize


class Decoder(nn.Module):
    """Recurrent layers with attention and input feeding, or without, a step at a time."""

    def __init__(self, config):
        super().__init__()
        self.is_lstm = config["cell"] == "lstm"
        self.attends = config["attention"] != "none"
        self.additive = config["attention"] == "additive"
        self.layers, self.dropout = config["decoder_layers"], config["dropout"]
        hidden, gates = config["hidden"], 4 if self.is_lstm else 3
        for layer in range(self.layers):
            width = hidden
            if layer == 0:
                width = config["embedding"] + (hidden if self.attends else 0)
            for name, shape in [("weight_ih", (gates * hidden, width)),
                                ("weight_hh", (gates * hidden, hidden)),
                                ("bias_ih", (gates * hidden,)), ("bias_hh", (gates * hidden,))]:
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(torch.empty(shape)))
        self.attention = nn.ParameterDict()
        if not self.attends:
            return
        if self.additive:
            self.attention["query_weight"] = nn.Parameter(torch.empty(hidden, hidden))
            self.attention["memory_weight"] = nn.Parameter(torch.empty(hidden, hidden))
            self.attention["score_vector"] = nn.Parameter(torch.empty(hidden))
        else:
            self.attention["bilinear_weight"] = nn.Parameter(torch.empty(hidden, hidden))
        self.attention["output_weight"] = nn.Parameter(torch.empty(hidden, 2 * hidden))
        self.attention["output_bias"] = nn.Parameter(torch.empty(hidden))

    def cell(self, layer, x, state):
        weights = [getattr(self, f"{name}_l{layer}")
                   for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if self.is_lstm:
            return torch._VF.lstm_cell(x, state, *weights)
        return (torch._VF.gru_cell(x, state[0], *weights),)

    def forward(self, embedded, memory, padding, states):
        """embedded [time, rows, E], memory [rows, source, H], padding [rows, source] or None, states:
        (h, c) or (h,) a layer -> attentional outputs [time, rows, H]."""
        keys = self.keys(memory) if self.attends else None
        a = torch.zeros_like(states[0][0])
        outputs = []
        for step in embedded:
            x = torch.cat([step, a], dim=1) if self.attends else step
            for layer in range(self.layers):
                if layer > 0:
                    x = functional.dropout(x, self.dropout, self.training)
                states[layer] = self.cell(layer, x, states[layer])
                x = states[layer][0]
            a = self.attend(x, keys, memory, padding) if self.attends else x
            outputs.append(a)
        return torch.stack(outputs)

    def keys(self, memory):
        return memory @ self.attention["memory_weight" if self.additive else "bilinear_weight"].T

    def attend(self, x, keys, memory, padding):
        weights = self.attention
        if self.additive:
            query = (x @ weights["query_weight"].T)[:, None]
            scores = torch.tanh(query + keys) @ weights["score_vector"]
        else:
            scores = torch.bmm(keys, x[:, :, None])[:, :, 0]
        if padding is not None:
            scores = scores.masked_fill(padding, -math.inf)
        alpha = torch.softmax(scores, dim=1)
        context = torch.bmm(alpha[:, None], memory)[:, 0]
        return torch.tanh(functional.linear(torch.cat([context, x], dim=1), weights["output_weight"],
                                            weights["output_bias"]))


class Seq2Seq(nn.Module):
    def __init__(self, config, source_vocabulary, target_vocabulary, seed):
        super().__init__()
        self.config = config
        embedding, hidden = config["embedding"], config["hidden"]
        directions = 2 if config["bidirectional"] else 1
        recurrent = nn.LSTM if config["cell"] == "lstm" else nn.GRU
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        layers = config["encoder_layers"]
        self.encoder = recurrent(embedding, hidden // directions, layers,
                                 bidirectional=config["bidirectional"],
                                 dropout=config["dropout"] if layers > 1 else 0)
        self.decoder = Decoder(config)
        self.output = nn.Linear(hidden, target_vocabulary)
        units = hidden // directions

        def limit_of(name, parameter):
            if name.endswith("embedding.weight"):
                return math.sqrt(3 / parameter.shape[1])
            if name in ("output.bias", "decoder.attention.output_bias"):
                return 0
            if name == "decoder.attention.output_weight":
                return 1 / math.sqrt(2 * hidden)
            return 1 / math.sqrt(units if name.startswith("encoder.") else hidden)

        initialize(self, limit_of, seed)

    def encode(self, batch):
        embedded = dropout(self, self.source_embedding(batch.source))
        outputs, finals = run_recurrent(self.encoder, embedded, batch)
        memory = outputs.transpose(0, 1).contiguous()
        finals = finals if isinstance(finals, tuple) else (finals,)
        # [layers * directions, rows, units] -> both directions side by side.
        layers, hidden = self.config["encoder_layers"], self.config["hidden"]
        joined = [final.reshape(layers, -1, final.shape[1], final.shape[2]).transpose(1, 2)
                  .reshape(layers, -1, hidden) for final in finals]
        zero = tuple(torch.zeros_like(part[0]) for part in joined)
        states = [tuple(part[layer] for part in joined) if layer < layers else zero
                  for layer in range(self.config["decoder_layers"])]
        return memory, states

    def forward(self, batch, label_smoothing):
        """(smoothed loss, -log p) summed over the batch's target tokens."""
        memory, states = self.encode(batch)
        embedded = dropout(self, self.target_embedding(batch.target_in))
        a = self.decoder(embedded, memory, batch.padding, states)
        return cross_entropy_sums(self.output(dropout(self, a)), batch, label_smoothing)
