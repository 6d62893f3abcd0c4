"""Stacks of docs/equations.md as functions of JAX by lax.scan, for JAX to differentiate. They share nothing with Sluice."""

import jax
import jax.numpy as jnp

GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


def norm(v):
    return (v - v.mean(-1, keepdims=True)) / jnp.sqrt(v.var(-1, keepdims=True) + 1e-5)


def lstm_step(w, x, h, c):
    of_x, of_h = x @ w["weight_ih"].T, h @ w["weight_hh"].T
    if "gain_ih" in w:
        of_x, of_h = w["gain_ih"] * norm(of_x), w["gain_hh"] * norm(of_h)
    i, f, g, o = jnp.split(of_x + of_h + w["bias_ih"] + w["bias_hh"], 4, -1)
    peephole = w.get("weight_peephole", jnp.zeros((3, c.shape[-1])))
    i, f = jax.nn.sigmoid(i + peephole[0] * c), jax.nn.sigmoid(f + peephole[1] * c)
    c = f * c + i * jnp.tanh(g)
    out = jax.nn.sigmoid(o + peephole[2] * c) * jnp.tanh(w["gain_c"] * norm(c) + w["shift_c"] if "gain_c" in w else c)
    return (out @ w["weight_hr"].T if "weight_hr" in w else out), c


def gru_step(w, x, h, reset_after):
    ar, az, an = jnp.split(x @ w["weight_ih"].T + w["bias_ih"], 3, -1)
    rr, rz, rn = jnp.split(w["weight_hh"], 3)
    br, bz, bn = jnp.split(w["bias_hh"], 3)
    r, z = jax.nn.sigmoid(ar + h @ rr.T + br), jax.nn.sigmoid(az + h @ rz.T + bz)
    n = jnp.tanh(an + r * (h @ rn.T + bn)) if reset_after else jnp.tanh(an + (r * h) @ rn.T + bn)
    return (1 - z) * n + z * h


def step(cell, w, x, h, c):
    if cell == "lstm":
        return lstm_step(w, x, h, c)
    if cell.startswith("gru"):
        return gru_step(w, x, h, cell == "gru"), c
    a = x @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
    return (jnp.tanh(a) if cell == "rnn_tanh" else jnp.maximum(a, 0)), c


def layer(cell, w, x, h, c, lengths, resets, backward, zoneout):
    """y [time, rows, width], hn, cn of one layer and direction."""
    time, rows, _ = x.shape
    steps = jnp.arange(time)
    alive = steps[:, None] < lengths
    borders = resets & alive
    if backward:  # A sequence's last step starts from nothing if the next step is another sequence's.
        borders = jnp.concatenate([borders[1:], jnp.zeros((1, rows), bool)])

    def body(state, inputs):
        h, c = state
        x, alive, border = inputs
        h0, c0 = (jnp.where(border[:, None], 0, value) for value in (h, c))
        h1, c1 = step(cell, w, x, h0, c0)
        # In inference zoneout is its expectation.
        h1, c1 = zoneout[0] * h0 + (1 - zoneout[0]) * h1, zoneout[1] * c0 + (1 - zoneout[1]) * c1
        state = tuple(jnp.where(alive[:, None], new, old) for new, old in ((h1, h), (c1, c)))
        return state, jnp.where(alive[:, None], h1, 0)

    (h, c), y = jax.lax.scan(body, (h, c), (x, alive, borders), reverse=backward)
    return y, h, c


def stack(cell, weights, x, h0=None, c0=None, lengths=None, resets=None, zoneout=(0.0, 0.0)):
    """x [time, rows, input] to y and lists of hn and cn, one of each layer: [directions, rows, width]. h0, c0: as these."""
    time, rows, _ = x.shape
    lengths = jnp.full(rows, time) if lengths is None else jnp.asarray(lengths)
    resets = jnp.zeros((time, rows), bool) if resets is None else jnp.asarray(resets) != 0
    layers = 1 + max(int(name.split("_l")[-1].split("_")[0]) for name in weights)
    directions = 2 if any(name.endswith("_reverse") for name in weights) else 1
    hs, cs = [], []
    for number in range(layers):
        found = []
        for direction in range(directions):
            suffix = f"_l{number}" + ("_reverse" if direction else "")
            w = {name[: -len(suffix)]: value for name, value in weights.items() if name.endswith(suffix)}
            sums, width = w["weight_hh"].shape
            for bias in ("bias_ih", "bias_hh"):
                w.setdefault(bias, jnp.zeros(sums, x.dtype))
            h = jnp.zeros((rows, width), x.dtype) if h0 is None else h0[number][direction]
            c = jnp.zeros((rows, sums // GATES[cell]), x.dtype) if c0 is None else c0[number][direction]
            found.append(layer(cell, w, x, h, c, lengths, resets, bool(direction), zoneout))
        x = jnp.concatenate([y for y, _, _ in found], axis=2)
        hs.append(jnp.stack([h for _, h, _ in found]))
        cs.append(jnp.stack([c for _, _, c in found]))
    return x, hs, cs
