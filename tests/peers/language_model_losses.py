#!/usr/bin/env python3
"""First 100 training losses of the language model, written in torch from its documented equations.

Each case has its own architecture, initial weights (drawn as layers::Parameters draws them), data,
optimiser and clipping, all named in the golden file, so that
tests/unit/models/language_model_losses_test.cpp can train the same model and compare every loss.

    language_model_losses.py            write tests/peers/goldens/language_model_losses.json anew
    language_model_losses.py --check    compute again and compare with the file
"""

import sys

import torch

import losses

BOS, EOS = 2, 3

COMMON = dict(vocabulary=29, embedding=24, hidden=32, layers=1, features=0, tied=False, bptt=0,
              rows=8, time=9, batches=5, label_smoothing=0.0, seed=7)
CASES = [
    dict(name="lstm_deep_tied", cell="lstm", layers=2, embedding=32, tied=True, optimizer="adam",
         learning_rate=3e-3, label_smoothing=0.1, clip_norm=5.0),
    dict(name="gru", cell="gru", optimizer="sgd", learning_rate=0.5, clip_norm=0.2),
    dict(name="lstm_from_features", cell="lstm", layers=2, features=6, optimizer="adam",
         learning_rate=3e-3, clip_norm=1.0),
    dict(name="gru_from_features", cell="gru", layers=2, features=5, optimizer="adam",
         learning_rate=3e-3, clip_norm=1.0),
    # Truncated back-propagation: `rows` stretches of one text, `bptt` steps at a time.
    # (A higher rate makes Adam leap where gradients are small, and rounding decides whither.)
    dict(name="lstm_truncated", cell="lstm", layers=2, bptt=6, optimizer="adam",
         learning_rate=1e-3, clip_norm=5.0),
    dict(name="gru_truncated", cell="gru", bptt=4, optimizer="sgd", learning_rate=0.5,
         clip_norm=0.2),
    dict(name="gru_reset_before", cell="gru_reset_before", layers=2, optimizer="adam",
         learning_rate=3e-3, clip_norm=1.0),
    dict(name="rnn_tanh", cell="rnn_tanh", layers=2, optimizer="adam", learning_rate=1e-3,
         clip_norm=1.0),
    dict(name="rnn_relu", cell="rnn_relu", optimizer="sgd", learning_rate=0.2, clip_norm=0.25),
]


def ragged_rows(case, batch):
    """Rows of (features, fed tokens, wanted tokens)."""
    numbers = losses.Numbers(batch)
    rows = []
    for _ in range(case["rows"]):
        length = 1 + numbers.draw(case["time"] - 1)  # without eos
        text = [4 + numbers.draw(case["vocabulary"] - 4) for _ in range(length)]
        features = [(numbers.draw(2001) - 1000) / 1000 for _ in range(case["features"])]
        rows.append((features, [BOS] + text, text + [EOS]))
    return rows


def stretches(case):
    """One text cut into a row's stretch each: (fed tokens, wanted tokens)."""
    numbers = losses.Numbers(0)
    steps = case["bptt"] * case["batches"]
    text = [BOS] + [4 + numbers.draw(case["vocabulary"] - 4) for _ in range(steps * case["rows"])]
    return [(text[row * steps:(row + 1) * steps], text[row * steps + 1:(row + 1) * steps + 1])
            for row in range(case["rows"])]


class LanguageModel(torch.nn.Module):
    """Embedding, recurrent layers, output layer (docs/equations.md), a row at a time."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        self.states = 2 if case["cell"] == "lstm" else 1
        hidden, gates = case["hidden"], losses.GATES[case["cell"]]
        self.weights = torch.nn.ParameterDict()

        def declare(name, shape, limit):
            value = losses.uniform(name, shape, limit, case["seed"])
            self.weights[name.replace(".", "/")] = torch.nn.Parameter(value)

        declare("embedding.weight", (case["vocabulary"], case["embedding"]),
                (3 / case["embedding"]) ** 0.5)
        for layer in range(case["layers"]):
            width = case["embedding"] if layer == 0 else hidden
            for name, shape in [("weight_ih", (gates * hidden, width)),
                                ("weight_hh", (gates * hidden, hidden)),
                                ("bias_ih", (gates * hidden,)), ("bias_hh", (gates * hidden,))]:
                declare(f"recurrent.{name}_l{layer}", shape, hidden ** -0.5)
        if not case["tied"]:
            declare("output.weight", (case["vocabulary"], hidden), hidden ** -0.5)
        declare("output.bias", (case["vocabulary"],), 0)
        if case["features"] > 0:
            for state in ["h", "c"][:self.states]:
                for layer in range(case["layers"]):
                    declare(f"start_{state}_l{layer}.weight", (hidden, case["features"]),
                            case["features"] ** -0.5)
                    declare(f"start_{state}_l{layer}.bias", (hidden,), 0)

    def weight(self, name):
        return self.weights[name.replace(".", "/")]

    def zero_states(self):
        zero = torch.zeros(1, self.case["hidden"])
        return [(zero,) * self.states for _ in range(self.case["layers"])]

    def states_of(self, features):
        if not features:
            return self.zero_states()
        vector = torch.tensor([features])
        return [tuple(torch.tanh(vector @ self.weight(f"start_{state}_l{layer}.weight").T
                                 + self.weight(f"start_{state}_l{layer}.bias"))
                      for state in ["h", "c"][:self.states]) for layer in range(self.case["layers"])]

    def cell(self, layer, x, state):
        weights = [self.weight(f"recurrent.{name}_l{layer}")
                   for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if self.case["cell"] == "lstm":
            return torch._VF.lstm_cell(x, state, *weights)
        if self.case["cell"] == "gru_reset_before":
            return (self.reset_before(x, state[0], *weights),)
        cell = getattr(torch._VF, self.case["cell"] + "_cell")
        return (cell(x, state[0], *weights),)

    @staticmethod
    def reset_before(x, h, weight_ih, weight_hh, bias_ih, bias_hh):
        """The GRU of Cho et al. 2014, which torch doesn't have."""
        units = h.shape[1]
        own = x @ weight_ih.T + bias_ih + bias_hh
        r, z = torch.sigmoid(own[:, :2 * units] + h @ weight_hh[:2 * units].T).chunk(2, dim=1)
        n = torch.tanh(own[:, 2 * units:] + (r * h) @ weight_hh[2 * units:].T)
        return (1 - z) * n + z * h

    def row_loss(self, fed, wanted, states):
        """Smoothed loss summed over one row's tokens, and the states it ends in."""
        states, loss = list(states), 0
        output = self.weight("embedding.weight" if self.case["tied"] else "output.weight")
        for given, target in zip(fed, wanted):
            x = self.weight("embedding.weight")[[given]]
            for layer in range(self.case["layers"]):
                states[layer] = self.cell(layer, x, states[layer])
                x = states[layer][0]
            logp = torch.log_softmax(x @ output.T + self.weight("output.bias"), dim=1)[0]
            smoothing = self.case["label_smoothing"]
            loss = loss - (1 - smoothing) * logp[target] - smoothing * logp.mean()
        return loss, states


class Ragged:
    """Each row begins anew in every batch."""

    def __init__(self, case, model):
        self.case, self.model = case, model

    def loss(self, step):
        rows = ragged_rows(self.case, step % self.case["batches"])
        total = sum(self.model.row_loss(fed, wanted, self.model.states_of(features))[0]
                    for features, fed, wanted in rows)
        return total / sum(len(wanted) for _, _, wanted in rows)


class Truncated:
    """Each row goes on with its stretch; a new epoch begins from zero."""

    def __init__(self, case, model):
        self.case, self.model, self.rows = case, model, stretches(case)

    def loss(self, step):
        batch, bptt = step % self.case["batches"], self.case["bptt"]
        if batch == 0:
            self.states = [self.model.zero_states() for _ in self.rows]
        total = 0
        for row, (fed, wanted) in enumerate(self.rows):
            part = slice(batch * bptt, (batch + 1) * bptt)
            loss, states = self.model.row_loss(fed[part], wanted[part], self.states[row])
            self.states[row] = [tuple(value.detach() for value in state) for state in states]
            total = total + loss
        return total / (bptt * len(self.rows))


def losses_of(case):
    model = LanguageModel(case)
    data = (Truncated if case["bptt"] > 0 else Ragged)(case, model)
    return losses.train(case, model, data.loss)


if __name__ == "__main__":
    sys.exit(losses.main(__file__, __doc__, [{**COMMON, **case} for case in CASES], losses_of))
