"""Stacks of docs/equations.md in double precision, step by step and row by row."""

import numpy as np

GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def hard_sigmoid(a):
    return np.clip(0.2 * a + 0.5, 0, 1)


def norm(v):
    return (v - v.mean()) / np.sqrt(v.var() + 1e-5)


def lstm_step(w, x, h, c, sigmoid=sigmoid):
    if "gain_ih" in w:
        a = w["gain_ih"] * norm(w["weight_ih"] @ x) + w["gain_hh"] * norm(w["weight_hh"] @ h) + w["bias_ih"] + w["bias_hh"]
    else:
        a = w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ h + w["bias_hh"]
    i, f, g, o = np.split(a, 4)
    p = w.get("weight_peephole", np.zeros((3, len(c))))
    i, f, g = sigmoid(i + p[0] * c), sigmoid(f + p[1] * c), np.tanh(g)
    c = f * c + i * g
    o = sigmoid(o + p[2] * c)
    h = o * np.tanh(w["gain_c"] * norm(c) + w["shift_c"] if "gain_c" in w else c)
    return (w["weight_hr"] @ h if "weight_hr" in w else h), c


def gru_step(w, x, h, reset_after, sigmoid=sigmoid):
    ar, az, an = np.split(w["weight_ih"] @ x + w["bias_ih"], 3)
    rr, rz, rn = np.split(w["weight_hh"], 3)
    br, bz, bn = np.split(w["bias_hh"], 3)
    r, z = sigmoid(ar + rr @ h + br), sigmoid(az + rz @ h + bz)
    n = np.tanh(an + r * (rn @ h + bn)) if reset_after else np.tanh(an + rn @ (r * h) + bn)
    return (1 - z) * n + z * h


def step(cell, w, x, h, c, gate=sigmoid):
    if cell == "lstm":
        return lstm_step(w, x, h, c, gate)
    if cell.startswith("gru"):
        return gru_step(w, x, h, cell == "gru", gate), c
    a = w["weight_ih"] @ x + w["bias_ih"] + w["weight_hh"] @ h + w["bias_hh"]
    return (np.tanh(a) if cell == "rnn_tanh" else np.maximum(a, 0)), c


def run_row(cell, w, x, h, c, resets, backward, gate=sigmoid):
    """One row of one layer and direction: y [steps, width], h, c. `resets` [steps] are at borders before their step."""
    y = np.zeros((len(x), len(h)))
    order = range(len(x))
    for t in reversed(order) if backward else order:
        # The backward direction starts anew at the step before a border.
        border = t + 1 < len(x) and resets[t + 1] if backward else resets[t]
        if border:
            h, c = np.zeros_like(h), np.zeros_like(c)
        h, c = step(cell, w, x[t], h, c, gate)
        y[t] = h
    return y, h, c


def stack(cell, weights, x, h0=None, c0=None, lengths=None, resets=None, gate=sigmoid):
    """x [time, rows, input] to y, hn, cn, all float64. gate: the activation of gates."""
    time, rows, _ = x.shape
    lengths = np.full(rows, time) if lengths is None else lengths
    resets = np.zeros((time, rows), bool) if resets is None else resets
    layers = 1 + max(int(name.split("_l")[-1].split("_")[0]) for name in weights)
    directions = 2 if any(name.endswith("_reverse") for name in weights) else 1
    hs, cs = [], []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            suffix = f"_l{layer}" + ("_reverse" if direction else "")
            w = {name[: -len(suffix)]: np.asarray(value, np.float64) for name, value in weights.items()
                 if name.endswith(suffix)}
            sums, width = w["weight_hh"].shape
            hidden = sums // GATES[cell]
            w.setdefault("bias_ih", np.zeros(sums))
            w.setdefault("bias_hh", np.zeros(sums))
            index = layer * directions + direction
            y, h, c = np.zeros((time, rows, width)), np.zeros((rows, width)), np.zeros((rows, hidden))
            for r in range(rows):
                n = lengths[r]
                y[:n, r], h[r], c[r] = run_row(
                    cell, w, x[:n, r], np.zeros(width) if h0 is None else h0[index, r],
                    np.zeros(hidden) if c0 is None else c0[index, r], resets[:n, r], direction, gate)
            outputs.append(y)
            hs.append(h)
            cs.append(c)
        x = np.concatenate(outputs, axis=2)
    return x, np.stack(hs), np.stack(cs)
