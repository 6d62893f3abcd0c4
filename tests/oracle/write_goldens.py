#!/usr/bin/env python3
"""Writes what torch computes in float64 for small recurrent models: the goldens the oracle is held against.

    write_goldens.py           writes tests/oracle/goldens/*.json
    write_goldens.py --check   computes them anew and compares with the files there; exits 1 when one differs

Needs torch (Debian: python3-torch). Each file holds the configuration, and every tensor as a flat row-major list: inputs
and weights ("in"), results ("out"), and the gradients of  sum over outputs of <output, d_output>  ("grad"). Layouts and
gate order are those of tests/oracle/*.h; torch's own gate order is the same.
"""

import argparse
import json
import pathlib
import random
import sys

try:
    import torch
except ImportError:
    sys.exit("write_goldens.py: needs torch for this Python; on Debian: apt-get install python3-torch")

FOLDER = pathlib.Path(__file__).resolve().parent / "goldens"
# Two builds of torch may sum in another order; a few hundred terms below 1 differ by less than this.
TOLERANCE = 1e-12


class Values:
    """Reproducible inputs with four decimals, so that the files stay small and hold them exactly."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def tensor(self, *shape, scale=1.0, grad=False):
        count = 1
        for size in shape:
            count *= size
        flat = [round(self.random.uniform(-scale, scale), 4) for _ in range(count)]
        return torch.tensor(flat, dtype=torch.float64).reshape(shape).requires_grad_(grad)

    def mask(self, *shape, p):
        uniform = self.tensor(*shape).add(1).div(2)
        return torch.where(uniform < p, 0.0, 1.0 / (1.0 - p)).double()


def flat(tensor):
    return tensor.detach().reshape(-1).tolist()


def case(config, inputs, outputs, gradients):
    """One file. inputs: name -> tensor; outputs and gradients: name -> tensor."""
    return {
        "config": config,
        "in": {name: flat(t) for name, t in inputs.items()},
        "out": {name: flat(t) for name, t in outputs.items()},
        "grad": {name: flat(t) for name, t in gradients.items()},
    }


def run_backward(outputs, values, inputs):
    """Backward from random output gradients, which join the inputs as d_NAME; -> the gradients of the leaves."""
    differences = {f"d_{name}": values.tensor(*out.shape) for name, out in outputs.items()}
    loss = sum((out * differences[f"d_{name}"]).sum() for name, out in outputs.items())
    leaves = {name: t for name, t in inputs.items() if t.requires_grad}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    gradients = {
        name: torch.zeros_like(leaf) if grad is None else grad
        for (name, leaf), grad in zip(leaves.items(), grads)
    }
    return {**inputs, **differences}, gradients


def new_module(cell, projection, sizes):
    if cell == "lstm":
        return torch.nn.LSTM(proj_size=projection, **sizes)
    if cell == "gru":
        return torch.nn.GRU(**sizes)
    return torch.nn.RNN(nonlinearity=cell.removeprefix("rnn_"), **sizes)


def stack(seed, cell, time, rows, input, hidden, layers=1, directions=1, projection=0, lengths=None, dropout=0.0):
    """nn.LSTM, nn.GRU or nn.RNN over packed rows; with dropout, one module a layer and explicit masks between."""
    values = Values(seed)
    lstm = cell == "lstm"
    out = projection or hidden
    config = dict(kind="stack", cell=cell, time=time, rows=rows, input=input, hidden=hidden, layers=layers,
                  directions=directions, projection=projection, lengths=lengths or [time] * rows)
    inputs = {"x": values.tensor(time, rows, input, grad=True),
              "h0": values.tensor(layers * directions, rows, out, grad=True)}
    if lstm:
        inputs["c0"] = values.tensor(layers * directions, rows, hidden, grad=True)
    masks = []
    for layer in range(layers - 1 if dropout else 0):
        masks.append(values.mask(time, rows, directions * out, p=dropout))
        inputs[f"mask{layer}"] = masks[-1]

    # One module for the whole stack, or one a layer where masks come between.
    depths = [1] * layers if masks else [layers]
    x, finals_h, finals_c, first = inputs["x"], [], [], 0
    for depth in depths:
        sizes = dict(input_size=input if first == 0 else directions * out, hidden_size=hidden, num_layers=depth,
                     bidirectional=directions == 2)
        module = new_module(cell, projection, sizes).double()
        for k in range(depth * directions):
            suffix = f"l{k // directions}" + ("_reverse" if k % directions else "")
            for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] + ["weight_hr"] * bool(projection):
                parameter = getattr(module, f"{name}_{suffix}")
                parameter.data = values.tensor(*parameter.shape, scale=0.6)
                inputs[f"{name}.{first * directions + k}"] = parameter
        part = slice(first * directions, (first + depth) * directions)
        state = (inputs["h0"][part], inputs["c0"][part]) if lstm else inputs["h0"][part]
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, config["lengths"], enforce_sorted=False)
        packed_y, state = module(packed, state)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed_y, total_length=time)
        finals_h.append(state[0] if lstm else state)
        finals_c.append(state[1] if lstm else None)
        x = y * masks[first] if first < len(masks) else y
        first += depth
    outputs = {"y": y, "hn": torch.cat(finals_h)}
    if lstm:
        outputs["cn"] = torch.cat(finals_c)
    inputs, gradients = run_backward(outputs, values, inputs)
    return case(config, inputs, outputs, gradients)


def decoder(seed, cell, attention, time, source_time, rows, embedding, memory, hidden, layers, output, key,
            lengths, memory_lengths, dropout=0.0):
    """The decoder with attention and input feeding, row by row and step by step, by autograd."""
    values = Values(seed)
    lstm = cell == "lstm"
    config = dict(kind="decoder", cell=cell, attention=attention, time=time, source_time=source_time, rows=rows,
                  embedding=embedding, memory=memory, hidden=hidden, layers=layers, output=output, key=key,
                  lengths=lengths, memory_lengths=memory_lengths)
    inputs = {"embedded": values.tensor(time, rows, embedding, grad=True),
              "memory": values.tensor(source_time, rows, memory, grad=True),
              "h0": values.tensor(layers, rows, hidden, grad=True)}
    if lstm:
        inputs["c0"] = values.tensor(layers, rows, hidden, grad=True)
    masks = [values.mask(time, rows, hidden, p=dropout) for _ in range(layers - 1 if dropout else 0)]
    inputs.update({f"mask{layer}": mask for layer, mask in enumerate(masks)})
    cells = []
    for layer in range(layers):
        width = embedding + output if layer == 0 else hidden
        cells.append((torch.nn.LSTMCell if lstm else torch.nn.GRUCell)(width, hidden).double())
        for name in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]:
            parameter = getattr(cells[-1], name)
            parameter.data = values.tensor(*parameter.shape, scale=0.6)
            inputs[f"{name}.{layer}"] = parameter
    if attention == "additive":
        inputs["attention.query"] = values.tensor(key, hidden, grad=True)
        inputs["attention.memory"] = values.tensor(key, memory, grad=True)
        inputs["attention.score"] = values.tensor(key, grad=True)
    else:
        inputs["attention.general"] = values.tensor(hidden, memory, grad=True)
    inputs["combine"] = values.tensor(output, memory + hidden, scale=0.6, grad=True)
    inputs["combine_bias"] = values.tensor(output, grad=True)

    def attend(q, m):
        if attention == "additive":
            scores = torch.tanh(inputs["attention.query"] @ q + m @ inputs["attention.memory"].T)
            return torch.softmax(scores @ inputs["attention.score"], 0)
        return torch.softmax(m @ (inputs["attention.general"].T @ q), 0)

    all_a = [[torch.zeros(output).double()] * rows for _ in range(time)]
    all_alpha = [[torch.zeros(source_time).double()] * rows for _ in range(time)]
    finals_h, finals_c = [], []
    for b in range(rows):
        h = [inputs["h0"][layer, b] for layer in range(layers)]
        c = [inputs["c0"][layer, b] for layer in range(layers)] if lstm else None
        m = inputs["memory"][:memory_lengths[b], b]
        a = torch.zeros(output).double()
        for t in range(lengths[b]):
            x = torch.cat([inputs["embedded"][t, b], a])
            for layer in range(layers):
                if lstm:
                    new_h, new_c = cells[layer](x[None], (h[layer][None], c[layer][None]))
                    h[layer], c[layer] = new_h[0], new_c[0]
                else:
                    h[layer] = cells[layer](x[None], h[layer][None])[0]
                x = h[layer] * masks[layer][t, b] if layer < len(masks) else h[layer]
            context = torch.zeros(memory).double()
            if memory_lengths[b] > 0:
                alpha = attend(h[-1], m)
                context = alpha @ m
                all_alpha[t][b] = torch.cat([alpha, torch.zeros(source_time - memory_lengths[b]).double()])
            a = torch.tanh(inputs["combine"] @ torch.cat([context, h[-1]]) + inputs["combine_bias"])
            all_a[t][b] = a
        finals_h.append(torch.stack(h))
        finals_c.append(torch.stack(c) if lstm else None)
    outputs = {"a": torch.stack([torch.stack(row) for row in all_a]), "hn": torch.stack(finals_h, 1)}
    if lstm:
        outputs["cn"] = torch.stack(finals_c, 1)
    inputs, gradients = run_backward(outputs, values, inputs)
    outputs["alpha"] = torch.stack([torch.stack(row) for row in all_alpha])
    return case(config, inputs, outputs, gradients)


def loss(seed, tokens, vocabulary, smoothing):
    """Masked cross-entropy with label smoothing, summed; a target of -1 does not count."""
    values = Values(seed)
    targets = [values.random.randrange(-1, vocabulary) for _ in range(tokens)]
    config = dict(kind="loss", tokens=tokens, vocabulary=vocabulary, smoothing=smoothing, targets=targets)
    logits = values.tensor(tokens, vocabulary, scale=3.0, grad=True)
    total = torch.nn.functional.cross_entropy(logits, torch.tensor(targets), ignore_index=-1, reduction="sum",
                                              label_smoothing=smoothing)
    total.backward()
    return case(config, {"logits": logits}, {"sum": total}, {"logits": logits.grad})


def all_cases():
    ragged = [3, 6, 1, 4]
    yield "lstm", stack(1, "lstm", time=4, rows=3, input=3, hidden=5)
    yield "lstm_deep_bidirectional", stack(2, "lstm", 6, 4, 3, 4, layers=2, directions=2, lengths=ragged)
    yield "lstm_projection", stack(3, "lstm", 6, 4, 3, 5, layers=2, directions=2, projection=3, lengths=ragged)
    yield "lstm_dropout", stack(4, "lstm", 6, 4, 2, 3, layers=3, directions=2, lengths=ragged, dropout=0.3)
    yield "gru", stack(5, "gru", time=4, rows=3, input=3, hidden=5)
    yield "gru_deep_bidirectional", stack(6, "gru", 6, 4, 3, 4, layers=3, directions=2, lengths=ragged)
    yield "gru_dropout", stack(7, "gru", 6, 4, 5, 3, layers=2, directions=1, lengths=ragged, dropout=0.5)
    sizes = dict(time=5, source_time=6, rows=4, embedding=3, memory=4, hidden=5, output=4, key=3,
                 lengths=[5, 2, 0, 4], memory_lengths=[4, 6, 3, 0])
    yield "decoder_lstm_additive", decoder(8, "lstm", "additive", layers=2, dropout=0.3, **sizes)
    yield "decoder_lstm_multiplicative", decoder(9, "lstm", "multiplicative", layers=1, **sizes)
    yield "decoder_gru_additive", decoder(10, "gru", "additive", layers=1, **sizes)
    yield "decoder_gru_multiplicative", decoder(11, "gru", "multiplicative", layers=3, dropout=0.3, **sizes)
    yield "rnn_tanh", stack(14, "rnn_tanh", 6, 4, 3, 4, layers=2, directions=2, lengths=ragged)
    yield "rnn_relu", stack(15, "rnn_relu", 6, 4, 3, 4, layers=2, directions=2, lengths=ragged)
    yield "loss", loss(12, tokens=7, vocabulary=5, smoothing=0.0)
    yield "loss_smoothed", loss(13, tokens=7, vocabulary=5, smoothing=0.1)


def to_text(golden):
    """JSON with one tensor a line."""
    parts = ['"config": ' + json.dumps(golden["config"])]
    for group in ["in", "out", "grad"]:
        tensors = ",\n".join(f"{json.dumps(name)}: {json.dumps(v)}" for name, v in golden[group].items())
        parts.append(f'"{group}": {{\n{tensors}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def difference(golden, stored):
    """-> None, or what differs first."""
    if golden["config"] != stored["config"]:
        return "config"
    for group in ["in", "out", "grad"]:
        if golden[group].keys() != stored[group].keys():
            return f"the names in {group}"
        for name, fresh in golden[group].items():
            old = stored[group][name]
            limit = 0.0 if group == "in" else TOLERANCE
            if len(fresh) != len(old):
                return f"{group}.{name}: {len(old)} values, now {len(fresh)}"
            for i, (a, b) in enumerate(zip(fresh, old)):
                if not abs(a - b) <= limit * max(1.0, abs(b)):
                    return f"{group}.{name}[{i}]: {b!r}, now {a!r}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    failures = 0
    cases = dict(all_cases())
    if not arguments.check:
        FOLDER.mkdir(exist_ok=True)
    for name, golden in cases.items():
        path = FOLDER / f"{name}.json"
        if not arguments.check:
            path.write_text(to_text(golden))
            continue
        found = difference(golden, json.loads(path.read_text())) if path.exists() else "the file is missing"
        if found:
            failures += 1
            print(f"{path.name}: {found}")
    if not arguments.check:
        print(f"wrote {len(cases)} goldens to {FOLDER}")
        return 0
    print(f"{len(cases) - failures} of {len(cases)} goldens agree with torch {torch.__version__}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
