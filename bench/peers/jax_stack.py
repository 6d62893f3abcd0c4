"""A stack of recurrent layers in JAX by lax.scan; equations, gate order and weights as in docs/equations.md."""

import jax
import jax.numpy as jnp


def product(a, b):
    """a times b transposed, summed in float32."""
    return jax.lax.dot_general(a, b, (((a.ndim - 1,), (1,)), ((), ())),
                               preferred_element_type=jnp.promote_types(a.dtype, jnp.float32))


def lstm_step(weights, state, inputs):
    h, c = state
    gates = inputs + product(h, weights["weight_hh"]) + weights["bias_hh"]
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    out = (jax.nn.sigmoid(o) * jnp.tanh(c)).astype(h.dtype)
    if "weight_hr" in weights:
        out = product(out, weights["weight_hr"]).astype(h.dtype)
    return out, c


def gru_step(weights, state, inputs):
    h, _ = state
    recurrent = product(h, weights["weight_hh"]) + weights["bias_hh"]
    (ri, zi, ni), (rh, zh, nh) = jnp.split(inputs, 3, -1), jnp.split(recurrent, 3, -1)
    r, z = jax.nn.sigmoid(ri + rh), jax.nn.sigmoid(zi + zh)
    n = jnp.tanh(ni + r * nh)
    return ((1 - z) * n + z * h).astype(h.dtype), state[1]


def reverse_rows(x, lengths):
    """Each row's first `length` steps backwards; the rest stays."""
    if lengths is None:
        return x[::-1]
    steps = jnp.arange(x.shape[0])[:, None]
    order = jnp.where(steps < lengths, lengths - 1 - steps, steps)
    return jnp.take_along_axis(x, order[:, :, None], axis=0)


def layer(cell, weights, x, h0, c0, lengths):
    """y [time, rows, width], hn, cn of one layer and direction, past a row's end zero."""
    step = lstm_step if cell == "lstm" else gru_step
    inputs = product(x, weights["weight_ih"]) + weights["bias_ih"]  # of all steps at once

    def body(state, turn):
        number, value = turn
        new = step(weights, state, value)
        if lengths is None:
            return new, new[0]
        alive = (number < lengths)[:, None]
        state = tuple(jnp.where(alive, n, s) for n, s in zip(new, state))
        return state, jnp.where(alive, new[0], 0)

    (hn, cn), y = jax.lax.scan(body, (h0, c0), (jnp.arange(x.shape[0]), inputs))
    return y, hn, cn


def stack(shape, weights, x, h0, c0, lengths):
    """y, hn, cn of all layers. `weights`: a dict of canonical tensors for each layer and direction."""
    hn, cn = [], []
    for number in range(shape.layers):
        outputs = []
        for direction in range(shape.directions):
            index = number * shape.directions + direction
            mine = reverse_rows(x, lengths) if direction else x
            y, h, c = layer(shape.cell, weights[index], mine, h0[index], c0[index], lengths)
            outputs.append(reverse_rows(y, lengths) if direction else y)
            hn.append(h)
            cn.append(c)
        x = outputs[0] if len(outputs) == 1 else jnp.concatenate(outputs, axis=-1)
    return x, jnp.stack(hn), jnp.stack(cn)
