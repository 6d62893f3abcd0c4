"""Recurrent layers of docs/equations.md in the arithmetic of copies: [copies, time, rows, features]."""

import torch


class Weights:
    """Those of one layer and direction."""

    def __init__(self, parameters, prefix, suffix):
        self.parameters, self.prefix, self.suffix = parameters, prefix, suffix

    def name(self, name):
        return f"{self.prefix}.{name}_{self.suffix}"

    def matrix(self, name):
        return self.parameters.matrix(self.name(name))

    def bias(self, name):
        return self.parameters[self.name(name)][:, None]


def lstm(copies, weights, sums, h, c):
    i, f, g, o = (sums + copies.product(h, weights.matrix("weight_hh"))).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = copies.store(torch.sigmoid(o) * torch.tanh(c))
    if weights.name("weight_hr") in weights.parameters:
        h = copies.store(copies.product(h, weights.matrix("weight_hr")))
    return h, c


def gru(copies, weights, sums, h):
    own = copies.product(h, weights.matrix("weight_hh")) + weights.bias("bias_hh")
    r, z, n = sums.chunk(3, dim=-1)
    own_r, own_z, own_n = own.chunk(3, dim=-1)
    r, z = torch.sigmoid(r + own_r), torch.sigmoid(z + own_z)
    return (copies.store((1 - z) * torch.tanh(n + r * own_n) + z * h),)


def gru_reset_before(copies, weights, sums, h):
    units, matrix = h.shape[-1], weights.matrix("weight_hh")
    gates = sums[..., :2 * units] + copies.product(h, matrix[:, :2 * units])
    r, z = torch.sigmoid(gates).chunk(2, dim=-1)
    n = sums[..., 2 * units:] + copies.product(copies.store(r * h), matrix[:, 2 * units:])
    return (copies.store((1 - z) * torch.tanh(n) + z * h),)


def rnn_tanh(copies, weights, sums, h):
    return (copies.store(torch.tanh(sums + copies.product(h, weights.matrix("weight_hh")))),)


def rnn_relu(copies, weights, sums, h):
    return (copies.store(torch.relu(sums + copies.product(h, weights.matrix("weight_hh")))),)


CELLS = dict(lstm=lstm, gru=gru, gru_reset_before=gru_reset_before, rnn_tanh=rnn_tanh,
             rnn_relu=rnn_relu)


def input_sums(copies, weights, cell, x):
    """What a step needs of its input, for all steps of `x`."""
    sums = copies.product(x, weights.matrix("weight_ih"))
    bias = weights.bias("bias_ih")
    if cell != "gru":  # whose n takes the other bias before the reset gate
        bias = bias + weights.bias("bias_hh")
    return sums + (bias if x.dim() == 3 else bias[:, None])


def step(copies, weights, cell, x, states):
    """x [copies, rows, features] -> the states, h first."""
    return CELLS[cell](copies, weights, input_sums(copies, weights, cell, x), *states)


def zero_states(copies, weights, cell, rows):
    matrix = weights.matrix("weight_hh")
    states = [torch.zeros(copies.count, rows, matrix.shape[2])]
    if cell == "lstm":
        states.append(torch.zeros(copies.count, rows, matrix.shape[1] // 4))
    return states


def run_direction(copies, weights, cell, x, lengths, states=None, reverse=False):
    """y [copies, time, rows, h], zero past a row's end, and the states at it."""
    time, rows = x.shape[1:3]
    states = zero_states(copies, weights, cell, rows) if states is None else states
    sums = input_sums(copies, weights, cell, x)
    outputs = [None] * time
    for t in reversed(range(time)) if reverse else range(time):
        alive = (t < lengths)[None, :, None]
        fresh = CELLS[cell](copies, weights, sums[:, t], *states)
        states = [torch.where(alive, new, old) for new, old in zip(fresh, states)]
        outputs[t] = torch.where(alive, fresh[0], torch.zeros(()))
    return torch.stack(outputs, dim=1), states


def run_stack(copies, parameters, prefix, case, layers, x, lengths, starts=None):
    """y of the last layer, and the states of all, directions side by side."""
    finals = []
    for layer in range(layers):
        outputs, ends = [], []
        for suffix in ["", "_reverse"][:2 if case.get("bidirectional") else 1]:
            weights = Weights(parameters, prefix, f"l{layer}{suffix}")
            y, states = run_direction(copies, weights, case["cell"], x, lengths,
                                      starts[layer] if starts else None, suffix != "")
            outputs.append(y)
            ends.append(states)
        x = torch.cat(outputs, dim=-1)
        finals.append([torch.cat(parts, dim=-1) for parts in zip(*ends)])
    return x, finals
