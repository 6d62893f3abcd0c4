#!/usr/bin/env python3
"""First 100 training losses of the seq2seq model, written in torch from its documented equations.

Each case has its own architecture, initial weights (drawn as layers::Parameters draws them: Philox
keyed by seed and parameter name), data, optimiser and clipping, all named in the golden file, so that
tests/unit/models/seq2seq_losses_test.cpp can train the same model and compare every loss.

    seq2seq_losses.py            write tests/peers/goldens/seq2seq_losses.json anew
    seq2seq_losses.py --check    compute again and compare with the file
"""

import sys

import torch

import losses

ROWS, SOURCE_TIME, TARGET_TIME = 8, 9, 7
BATCHES = 5

CASES = [
    dict(name="lstm_additive", cell="lstm", attention="additive", bidirectional=True,
         encoder_layers=1, decoder_layers=1, optimizer="adam", learning_rate=3e-3,
         label_smoothing=0.1, clip_norm=5.0),
    dict(name="lstm_multiplicative_deep", cell="lstm", attention="multiplicative",
         bidirectional=True, encoder_layers=2, decoder_layers=2, optimizer="adam",
         learning_rate=3e-3, label_smoothing=0.0, clip_norm=1.0),
    dict(name="lstm_additive_deep", cell="lstm", attention="additive", bidirectional=True,
         encoder_layers=2, decoder_layers=2, optimizer="adam", learning_rate=3e-3,
         label_smoothing=0.0, clip_norm=1.0),
    dict(name="gru_additive_unidirectional", cell="gru", attention="additive", bidirectional=False,
         encoder_layers=2, decoder_layers=1, optimizer="sgd", learning_rate=0.5,
         label_smoothing=0.0, clip_norm=0.3),
    dict(name="lstm_none", cell="lstm", attention="none", bidirectional=True,
         encoder_layers=1, decoder_layers=2, optimizer="adam", learning_rate=3e-3,
         label_smoothing=0.1, clip_norm=5.0),
    dict(name="gru_none_unidirectional", cell="gru", attention="none", bidirectional=False,
         encoder_layers=2, decoder_layers=2, optimizer="sgd", learning_rate=0.5,
         label_smoothing=0.0, clip_norm=0.3),
]
COMMON = dict(source_vocabulary=37, target_vocabulary=41, embedding=24, hidden=32, seed=7)


def tokens(case, batch):
    """Rows of (source, target) tokens from a linear congruential generator, lengths ragged."""
    numbers = losses.Numbers(batch)
    rows = []
    for _ in range(ROWS):
        source_length = 1 + numbers.draw(SOURCE_TIME)
        target_length = 1 + numbers.draw(TARGET_TIME - 1)  # without eos
        source = [4 + numbers.draw(case["source_vocabulary"] - 4) for _ in range(source_length)]
        target = [4 + numbers.draw(case["target_vocabulary"] - 4) for _ in range(target_length)]
        rows.append((source, target))
    return rows


class Seq2Seq(torch.nn.Module):
    """Encoder, decoder with or without attention, output layer (docs/equations.md)."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        hidden, embedding = case["hidden"], case["embedding"]
        directions = 2 if case["bidirectional"] else 1
        gates = 4 if case["cell"] == "lstm" else 3
        self.weights = torch.nn.ParameterDict()

        def declare(name, shape, limit):
            value = losses.uniform(name, shape, limit, case["seed"])
            self.weights[name.replace(".", "/")] = torch.nn.Parameter(value)

        declare("source_embedding.weight", (case["source_vocabulary"], embedding),
                (3 / embedding) ** 0.5)
        declare("target_embedding.weight", (case["target_vocabulary"], embedding),
                (3 / embedding) ** 0.5)
        units = hidden // directions
        for layer in range(case["encoder_layers"]):
            for suffix in ["", "_reverse"][:directions]:
                width = embedding if layer == 0 else hidden
                limit = units ** -0.5
                declare(f"encoder.weight_ih_l{layer}{suffix}", (gates * units, width), limit)
                declare(f"encoder.weight_hh_l{layer}{suffix}", (gates * units, units), limit)
                declare(f"encoder.bias_ih_l{layer}{suffix}", (gates * units,), limit)
                declare(f"encoder.bias_hh_l{layer}{suffix}", (gates * units,), limit)
        for layer in range(case["decoder_layers"]):
            width = hidden
            if layer == 0:
                width = embedding if case["attention"] == "none" else embedding + hidden
            limit = hidden ** -0.5
            declare(f"decoder.weight_ih_l{layer}", (gates * hidden, width), limit)
            declare(f"decoder.weight_hh_l{layer}", (gates * hidden, hidden), limit)
            declare(f"decoder.bias_ih_l{layer}", (gates * hidden,), limit)
            declare(f"decoder.bias_hh_l{layer}", (gates * hidden,), limit)
        if case["attention"] != "none":
            self.declare_attention(declare, hidden)
        declare("output.weight", (case["target_vocabulary"], hidden), hidden ** -0.5)
        declare("output.bias", (case["target_vocabulary"],), 0)

    def declare_attention(self, declare, hidden):
        if self.case["attention"] == "additive":
            declare("decoder.attention.query_weight", (hidden, hidden), hidden ** -0.5)
            declare("decoder.attention.memory_weight", (hidden, hidden), hidden ** -0.5)
            declare("decoder.attention.score_vector", (hidden,), hidden ** -0.5)
        else:
            declare("decoder.attention.bilinear_weight", (hidden, hidden), hidden ** -0.5)
        declare("decoder.attention.output_weight", (hidden, 2 * hidden), (2 * hidden) ** -0.5)
        declare("decoder.attention.output_bias", (hidden,), 0)

    def weight(self, name):
        return self.weights[name.replace(".", "/")]

    def cell(self, prefix, suffix, x, state):
        arguments = (self.weight(f"{prefix}.weight_ih_{suffix}"),
                     self.weight(f"{prefix}.weight_hh_{suffix}"),
                     self.weight(f"{prefix}.bias_ih_{suffix}"),
                     self.weight(f"{prefix}.bias_hh_{suffix}"))
        if self.case["cell"] == "lstm":
            return torch._VF.lstm_cell(x, state, *arguments)
        return (torch._VF.gru_cell(x, state[0], *arguments),)

    def encode(self, source):
        """One row [S] -> memory [S, hidden] and the final states of each layer."""
        directions = 2 if self.case["bidirectional"] else 1
        units = self.case["hidden"] // directions
        states = 2 if self.case["cell"] == "lstm" else 1
        x = self.weight("source_embedding.weight")[source]
        finals = []
        for layer in range(self.case["encoder_layers"]):
            outputs, final = [], []
            for suffix in ["", "_reverse"][:directions]:
                state = tuple(torch.zeros(1, units) for _ in range(states))
                order = range(len(source)) if suffix == "" else reversed(range(len(source)))
                steps = [None] * len(source)
                for t in order:
                    state = self.cell("encoder", f"l{layer}{suffix}", x[t:t + 1], state)
                    steps[t] = state[0]
                outputs.append(torch.cat(steps))
                final.append(state)
            x = torch.cat(outputs, dim=1)
            finals.append(tuple(torch.cat(parts, dim=1) for parts in zip(*final)))
        return x, finals

    def attend(self, x, memory):
        """The attentional output [1, hidden] of the top layer's output x [1, hidden]."""
        if self.case["attention"] == "additive":
            keys = memory @ self.weight("decoder.attention.memory_weight").T
            query = x @ self.weight("decoder.attention.query_weight").T
            scores = torch.tanh(query + keys) @ self.weight("decoder.attention.score_vector")
        else:
            scores = (memory @ self.weight("decoder.attention.bilinear_weight").T @ x.T)[:, 0]
        context = torch.softmax(scores, dim=0)[None] @ memory
        return torch.tanh(torch.cat([context, x], dim=1)
                          @ self.weight("decoder.attention.output_weight").T
                          + self.weight("decoder.attention.output_bias"))

    def row_loss(self, source, target):
        """Smoothed loss summed over one row's tokens."""
        hidden = self.case["hidden"]
        memory, states = self.encode(source)
        zero = tuple(torch.zeros(1, hidden) for _ in states[0])
        states = [states[l] if l < len(states) else zero for l in range(self.case["decoder_layers"])]
        attends = self.case["attention"] != "none"
        a = torch.zeros(1, hidden)
        loss = 0
        for fed, wanted in zip([2] + target, target + [3]):
            x = self.weight("target_embedding.weight")[[fed]]
            if attends:
                x = torch.cat([x, a], dim=1)
            for layer in range(self.case["decoder_layers"]):
                states[layer] = self.cell("decoder", f"l{layer}", x, states[layer])
                x = states[layer][0]
            a = self.attend(x, memory) if attends else x
            logits = a @ self.weight("output.weight").T + self.weight("output.bias")
            logp = torch.log_softmax(logits, dim=1)[0]
            smoothing = self.case["label_smoothing"]
            loss = loss - (1 - smoothing) * logp[wanted] - smoothing * logp.mean()
        return loss


def losses_of(case):
    model = Seq2Seq(case)

    def loss(step):
        rows = tokens(case, step % BATCHES)
        return (sum(model.row_loss(source, target) for source, target in rows)
                / sum(len(target) + 1 for _, target in rows))

    return losses.train(case, model, loss)


if __name__ == "__main__":
    sizes = dict(rows=ROWS, source_time=SOURCE_TIME, target_time=TARGET_TIME, batches=BATCHES)
    sys.exit(losses.main(__file__, __doc__, [{**COMMON, **sizes, **case} for case in CASES],
                         losses_of))
