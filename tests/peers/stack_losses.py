#!/usr/bin/env python3
"""First 100 training losses of the classifier and of the features model, written in torch.

Each case has its own architecture, initial weights (drawn as layers::Parameters draws them), data,
optimiser and clipping, all named in the golden file, so that
tests/unit/models/stack_losses_test.cpp can train the same model and compare every loss.

    stack_losses.py            write tests/peers/goldens/stack_losses.json anew
    stack_losses.py --check    compute again and compare with the file
"""

import sys

import torch

import losses

BATCHES, ROWS, TIME = 5, 8, 9

TOKENS = dict(model="classifier", vocabulary=37, embedding=10, outputs=5, hidden=16, layers=1,
              cell="lstm", bidirectional=False, projections=[], target="classes",
              output_layer=True, features=0, label_smoothing=0.0, optimizer="adam",
              learning_rate=3e-3, clip_norm=1.0, seed=7, class_weights=[])
FRAMES = {**TOKENS, "model": "features", "features": 6, "vocabulary": 0, "embedding": 0}
CASES = [
    dict(TOKENS, name="lstm_attention", pooling="attention", bidirectional=True, layers=2,
         label_smoothing=0.1),
    dict(TOKENS, name="gru_mean", pooling="mean", cell="gru", optimizer="sgd", learning_rate=0.5,
         clip_norm=0.25),
    dict(TOKENS, name="lstm_last_projected", pooling="last", bidirectional=True, layers=2,
         projections=[12, 8]),
    # Maxima and ReLUs have kinks, at which rounding and a higher rate would part trainings.
    dict(TOKENS, name="lstm_max", pooling="max", learning_rate=1e-3),
    # The shape of a stack of four layers with projections of their own, put out as it is.
    dict(FRAMES, name="projected_values", pooling="none", layers=4, projections=[6, 6, 6, 8],
         target="values", outputs=8, output_layer=False),
    dict(FRAMES, name="frame_classes", pooling="none", bidirectional=True),
    dict(FRAMES, name="gru_sequence_values", pooling="attention", cell="gru", target="values",
         outputs=3, optimizer="sgd", learning_rate=0.3, clip_norm=0.1),
    dict(TOKENS, name="gru_weighted_classes", pooling="mean", cell="gru",
         class_weights=[0.5, 2.0, 1.0, 0.0, 3.5]),
    dict(FRAMES, name="weighted_frame_classes", pooling="none",
         class_weights=[0.25, 1.0, 4.0, 1.5, 0.75]),
    dict(FRAMES, name="rnn_relu_values", pooling="none", cell="rnn_relu", layers=2,
         target="values", outputs=4, learning_rate=1e-3),
    dict(TOKENS, name="rnn_tanh_last", pooling="last", cell="rnn_tanh", bidirectional=True),
]


def examples(case, batch):
    """Rows of (source, target) from a linear congruential generator, lengths ragged."""
    numbers = losses.Numbers(batch)

    def frames(steps, width):
        return torch.tensor([[(numbers.draw(2001) - 1000) / 1000 for _ in range(width)]
                             for _ in range(steps)], dtype=torch.float32)

    rows = []
    for _ in range(ROWS):
        length = 1 + numbers.draw(TIME)
        if case["model"] == "classifier":
            source = torch.tensor([4 + numbers.draw(case["vocabulary"] - 4) for _ in range(length)])
        else:
            source = frames(length, case["features"])
        steps = length if case["pooling"] == "none" else 1
        if case["target"] == "classes":
            target = torch.tensor([numbers.draw(case["outputs"]) for _ in range(steps)])
        else:
            target = frames(steps, case["outputs"])
        rows.append((source, target))
    return rows


class Model(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        self.directions = 2 if case["bidirectional"] else 1
        if case["model"] == "classifier":
            self.embedding = self.draw("embedding.weight", (case["vocabulary"], case["embedding"]),
                                       (3 / case["embedding"]) ** 0.5)
            width = case["embedding"]
        else:
            # As the test sets them: mean 0.1 j, scale 2 / (1 + j).
            self.mean = torch.tensor([0.1 * j for j in range(case["features"])])
            self.scale = torch.tensor([2 / (1 + j) for j in range(case["features"])])
            width = case["features"]
        self.layers = torch.nn.ModuleList()
        for layer in range(case["layers"]):
            self.layers.append(self.recurrent(layer, width))
            width = case["projections"][layer] if case["projections"] else case["hidden"]
        if case["pooling"] == "attention":
            self.query = self.draw("pooling.query", (width,), width ** -0.5)
        if case["output_layer"]:
            self.weight = self.draw("output.weight", (case["outputs"], width), width ** -0.5)
            self.bias = self.draw("output.bias", (case["outputs"],), 0)

    def draw(self, name, shape, limit):
        return torch.nn.Parameter(losses.uniform(name, shape, limit, self.case["seed"]))

    def recurrent(self, layer, width):
        case = self.case
        units = case["hidden"] // self.directions
        options = {}
        if case["projections"]:
            options["proj_size"] = case["projections"][layer] // self.directions
        kind, _, activation = case["cell"].partition("_")
        if activation:
            options["nonlinearity"] = activation
        module = getattr(torch.nn, kind.upper())(width, units, bidirectional=case["bidirectional"], **options)
        for name, parameter in module.named_parameters():
            canonical = "stack." + name.replace("_l0", f"_l{layer}")
            parameter.data = losses.uniform(canonical, parameter.shape, units ** -0.5, case["seed"])
        return module

    def forward(self, source):
        """One row -> [steps, outputs]."""
        case = self.case
        if case["model"] == "classifier":
            x = self.embedding[source]
        else:
            x = (source - self.mean) * self.scale
        for layer in self.layers:
            x = layer(x[:, None])[0][:, 0]
        if case["pooling"] == "last":
            half = x.shape[1] // self.directions
            x = torch.cat([x[-1, :half], x[0, half:]])[None]
        elif case["pooling"] == "mean":
            x = x.mean(dim=0, keepdim=True)
        elif case["pooling"] == "max":
            x = x.max(dim=0, keepdim=True).values
        elif case["pooling"] == "attention":
            x = torch.softmax(x @ self.query, dim=0)[None] @ x
        return x @ self.weight.T + self.bias if case["output_layer"] else x

    def row_loss(self, source, target):
        """Summed over the row's targets."""
        outputs = self(source)
        if self.case["target"] == "values":
            return ((outputs - target) ** 2).mean(dim=1).sum()
        weights = self.case["class_weights"]
        return torch.nn.functional.cross_entropy(outputs, target, reduction="sum",
                                                 weight=torch.tensor(weights) if weights else None,
                                                 label_smoothing=self.case["label_smoothing"])


def losses_of(case):
    model = Model(case)

    def loss(step):
        rows = examples(case, step % BATCHES)
        return sum(model.row_loss(*row) for row in rows) / sum(len(target) for _, target in rows)

    return losses.train(case, model, loss)


if __name__ == "__main__":
    sizes = dict(rows=ROWS, time=TIME, batches=BATCHES)
    sys.exit(losses.main(__file__, __doc__, [{**case, **sizes} for case in CASES], losses_of))
