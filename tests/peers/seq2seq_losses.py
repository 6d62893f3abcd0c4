#!/usr/bin/env python3
"""First 100 training losses of the seq2seq model, written in torch from its documented equations.

Each case has its own architecture, initial weights (drawn as layers::Parameters draws them: Philox
keyed by seed and parameter name), data, optimiser and clipping, all named in the golden file, so that
tests/unit/models/torch_losses_test.cpp can train the same model and compare every loss.

    seq2seq_losses.py            write tests/peers/goldens/seq2seq_losses.json anew
    seq2seq_losses.py --check    compute again and compare with the file
"""

import argparse
import json
import pathlib
import sys

import numpy
import torch

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "seq2seq_losses.json"
STEPS = 100
ROWS, SOURCE_TIME, TARGET_TIME = 8, 9, 7
BATCHES = 5

CASES = [
    dict(name="lstm_additive", cell="lstm", attention="additive", bidirectional=True,
         encoder_layers=1, decoder_layers=1, optimizer="adam", learning_rate=3e-3,
         label_smoothing=0.1, clip_norm=5.0),
    dict(name="lstm_multiplicative_deep", cell="lstm", attention="multiplicative",
         bidirectional=True, encoder_layers=2, decoder_layers=2, optimizer="adam",
         learning_rate=3e-3, label_smoothing=0.0, clip_norm=1.0),
    dict(name="gru_additive_unidirectional", cell="gru", attention="additive", bidirectional=False,
         encoder_layers=2, decoder_layers=1, optimizer="sgd", learning_rate=0.5,
         label_smoothing=0.0, clip_norm=0.5),
]
COMMON = dict(source_vocabulary=37, target_vocabulary=41, embedding=24, hidden=32, seed=7)


def philox(key, counter0, counter1):
    """Philox4x32-10 of counters (counter0, counter1, 0, 0): uint32 [n, 4]."""
    mask = numpy.uint64(0xFFFFFFFF)
    c = [counter0.astype(numpy.uint64), counter1.astype(numpy.uint64),
         numpy.zeros_like(counter0, dtype=numpy.uint64),
         numpy.zeros_like(counter0, dtype=numpy.uint64)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c[0]
        p1 = numpy.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(k0), p1 & mask,
             (p0 >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack(c, axis=1)


def uniform(name, shape, limit, seed):
    """The start of a parameter: as layers::Parameters::initialize."""
    count = int(numpy.prod(shape))
    if limit == 0:
        return torch.zeros(shape)
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    blocks = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    words = philox(seed ^ hashed, blocks & numpy.uint64(0xFFFFFFFF), blocks >> numpy.uint64(32))
    unit = (words.reshape(-1)[:count].astype(numpy.float64) + 0.5) / 4294967296.0
    return torch.from_numpy(((2 * unit - 1) * limit).astype(numpy.float32)).reshape(shape)


def tokens(case, batch):
    """Rows of (source, target) tokens from a linear congruential generator, lengths ragged."""
    state = (1000003 * (batch + 1) + 17) % 2147483647

    def draw(below):
        nonlocal state
        state = state * 48271 % 2147483647
        return state % below

    rows = []
    for _ in range(ROWS):
        source_length = 1 + draw(SOURCE_TIME)
        target_length = 1 + draw(TARGET_TIME - 1)  # without eos
        source = [4 + draw(case["source_vocabulary"] - 4) for _ in range(source_length)]
        target = [4 + draw(case["target_vocabulary"] - 4) for _ in range(target_length)]
        rows.append((source, target))
    return rows


class Seq2Seq(torch.nn.Module):
    """Encoder, decoder with attention and input feeding, output layer (docs/equations.md)."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        hidden, embedding = case["hidden"], case["embedding"]
        directions = 2 if case["bidirectional"] else 1
        gates = 4 if case["cell"] == "lstm" else 3
        self.weights = torch.nn.ParameterDict()

        def declare(name, shape, limit):
            value = uniform(name, shape, limit, case["seed"])
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
            width = embedding + hidden if layer == 0 else hidden
            limit = hidden ** -0.5
            declare(f"decoder.weight_ih_l{layer}", (gates * hidden, width), limit)
            declare(f"decoder.weight_hh_l{layer}", (gates * hidden, hidden), limit)
            declare(f"decoder.bias_ih_l{layer}", (gates * hidden,), limit)
            declare(f"decoder.bias_hh_l{layer}", (gates * hidden,), limit)
        if case["attention"] == "additive":
            declare("decoder.attention.query_weight", (hidden, hidden), hidden ** -0.5)
            declare("decoder.attention.memory_weight", (hidden, hidden), hidden ** -0.5)
            declare("decoder.attention.score_vector", (hidden,), hidden ** -0.5)
        else:
            declare("decoder.attention.bilinear_weight", (hidden, hidden), hidden ** -0.5)
        declare("decoder.attention.output_weight", (hidden, 2 * hidden), (2 * hidden) ** -0.5)
        declare("decoder.attention.output_bias", (hidden,), 0)
        declare("output.weight", (case["target_vocabulary"], hidden), hidden ** -0.5)
        declare("output.bias", (case["target_vocabulary"],), 0)

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

    def row_loss(self, source, target):
        """Smoothed loss summed over one row's tokens."""
        hidden = self.case["hidden"]
        memory, states = self.encode(source)
        zero = tuple(torch.zeros(1, hidden) for _ in states[0])
        states = [states[l] if l < len(states) else zero for l in range(self.case["decoder_layers"])]
        additive = self.case["attention"] == "additive"
        keys = memory @ self.weight("decoder.attention.memory_weight" if additive else
                                    "decoder.attention.bilinear_weight").T
        a = torch.zeros(1, hidden)
        loss = 0
        for fed, wanted in zip([2] + target, target + [3]):
            x = torch.cat([self.weight("target_embedding.weight")[[fed]], a], dim=1)
            for layer in range(self.case["decoder_layers"]):
                states[layer] = self.cell("decoder", f"l{layer}", x, states[layer])
                x = states[layer][0]
            if additive:
                query = x @ self.weight("decoder.attention.query_weight").T
                scores = torch.tanh(query + keys) @ self.weight("decoder.attention.score_vector")
            else:
                scores = (keys @ x.T)[:, 0]
            context = torch.softmax(scores, dim=0)[None] @ memory
            a = torch.tanh(torch.cat([context, x], dim=1)
                           @ self.weight("decoder.attention.output_weight").T
                           + self.weight("decoder.attention.output_bias"))
            logits = a @ self.weight("output.weight").T + self.weight("output.bias")
            logp = torch.log_softmax(logits, dim=1)[0]
            smoothing = self.case["label_smoothing"]
            loss = loss - (1 - smoothing) * logp[wanted] - smoothing * logp.mean()
        return loss


def train(case):
    """The loss per token of each step, before its update."""
    model = Seq2Seq(case)
    optimizer = (torch.optim.Adam if case["optimizer"] == "adam" else torch.optim.SGD)(
        model.parameters(), lr=case["learning_rate"])
    losses = []
    for step in range(STEPS):
        rows = tokens(case, step % BATCHES)
        optimizer.zero_grad()
        count = sum(len(target) + 1 for _, target in rows)
        loss = sum(model.row_loss(source, target) for source, target in rows) / count
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
        case = {**COMMON, "rows": ROWS, "source_time": SOURCE_TIME, "target_time": TARGET_TIME,
                "batches": BATCHES, **case}
        losses = train(case)
        print(f"{case['name']}: {losses[0]:.6f} -> {losses[-1]:.6f}")
        goldens.append({**case, "losses": losses})
    if not arguments.check:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps({"torch": torch.__version__, "cases": goldens}, indent=1))
        return 0
    worst = max(abs(new / old - 1)
                for a, b in zip(goldens, json.loads(GOLDEN.read_text())["cases"])
                for new, old in zip(a["losses"], b["losses"]))
    print(f"largest relative difference from {GOLDEN.name}: {worst:.2e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
