"""Stacks of LSTMs with projections, of TensorFlow's own operations, step by step."""

import tensorflow as tf


def step(w, x, h, c):
    sums = (tf.matmul(x, w["weight_ih"], transpose_b=True) + tf.matmul(h, w["weight_hh"], transpose_b=True) + w["bias_ih"] +
            w["bias_hh"])
    i, f, g, o = tf.split(sums, 4, axis=1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.matmul(tf.sigmoid(o) * tf.tanh(c), w["weight_hr"], transpose_b=True), c


def stack(x, weights, h0, c0, lengths=None):
    """x [time, rows, input]; h0 and c0: lists with [rows, width] for each layer. Returns y of each layer, hn, cn."""
    ys, hn, cn = [], [], []
    for layer, (h, c) in enumerate(zip(h0, c0)):
        suffix = f"_l{layer}"
        w = {name.removesuffix(suffix): value for name, value in weights.items() if name.endswith(suffix)}
        steps = []
        for t in range(x.shape[0]):
            new_h, new_c = step(w, x[t], h, c)
            inside = tf.constant([[True]]) if lengths is None else (t < lengths)[:, None]
            h, c = tf.where(inside, new_h, h), tf.where(inside, new_c, c)
            steps.append(tf.where(inside, new_h, 0))
        x = tf.stack(steps)
        ys.append(x)
        hn.append(h)
        cn.append(c)
    return ys, hn, cn


def random_weights(rng, input, hidden, outputs):
    weights = {}
    for layer, output in enumerate(outputs):
        shapes = {"weight_ih": (4 * hidden, input), "weight_hh": (4 * hidden, output), "bias_ih": (4 * hidden,),
                  "bias_hh": (4 * hidden,), "weight_hr": (output, hidden)}
        # So that sums stay near 1 whatever the widths.
        limit = (input + output) ** -0.5
        weights |= {f"{name}_l{layer}": rng.uniform(-limit, limit, shape) for name, shape in shapes.items()}
        input = output
    return weights
