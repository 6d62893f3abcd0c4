#!/usr/bin/env python3
"""A language model over characters in JAX; with --sluice its LSTM is Sluice's.

    examples/jax_char_model.py --text FILE --epochs 5
    examples/jax_char_model.py --text FILE --epochs 5 --sluice

The last tenth of the text is for validation. Without --text it learns Sluice's own documentation.
"""

import argparse
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np


def lstm(x, weights, state):
    """Layers on x [time, rows, width], with torch's names of weights. Returns y and the last state, (h, c)."""
    h0, c0 = state
    hn, cn = [], []
    for layer in range(len(h0)):
        of_h = weights[f"weight_hh_l{layer}"].T
        sums = x @ weights[f"weight_ih_l{layer}"].T + weights[f"bias_ih_l{layer}"] + weights[f"bias_hh_l{layer}"]

        def step(state, of_x, of_h=of_h):
            h, c = state
            i, f, g, o = jnp.split(of_x + h @ of_h, 4, axis=-1)
            c = (jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)).astype(c.dtype)
            h = (jax.nn.sigmoid(o) * jnp.tanh(c)).astype(h.dtype)
            return (h, c), h

        (h, c), x = jax.lax.scan(step, (h0[layer], c0[layer]), sums)
        hn.append(h)
        cn.append(c)
    return x, (jnp.stack(hn), jnp.stack(cn))


def init(key, characters, width, layers, dtype):
    def uniform(key, *shape):
        return jax.random.uniform(key, shape, dtype, -width**-0.5, width**-0.5)

    keys = iter(jax.random.split(key, 2 + 4 * layers))
    weights = {}
    for layer in range(layers):
        for kind, shape in (("weight_ih", (4 * width, width)), ("weight_hh", (4 * width, width)), ("bias_ih", (4 * width,)),
                            ("bias_hh", (4 * width,))):
            weights[f"{kind}_l{layer}"] = uniform(next(keys), *shape)
    return {"embed": jax.random.normal(next(keys), (characters, width), dtype), "lstm": weights,
            "out": uniform(next(keys), characters, width)}


def loss_of(parameters, characters, targets, state, dtype):
    """The mean loss and the last state. characters, targets: [time, rows]."""
    parameters = jax.tree.map(lambda parameter: parameter.astype(dtype), parameters)
    y, state = lstm(parameters["embed"][characters], parameters["lstm"], state)
    logits = (y @ parameters["out"].T).astype(jnp.promote_types(dtype, jnp.float32))
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], axis=-1)
    return -chosen.mean(), state


@functools.partial(jax.jit, static_argnums=(5, 6))
def train_step(parameters, moments, characters, targets, state, lr, dtype):
    """Adam, with gradients whose norm is at most 1."""
    (loss, state), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, characters, targets, state, dtype)
    norm = jnp.sqrt(sum((gradient**2).sum() for gradient in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda gradient: gradient * jnp.minimum(1, 1 / norm), gradients)
    number, first, second = moments
    number = number + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, gradients)

    def stepped(parameter, m, v):
        return parameter - lr * (m / (1 - 0.9**number)) / (jnp.sqrt(v / (1 - 0.999**number)) + 1e-8)

    return loss, state, jax.tree.map(stepped, parameters, first, second), (number, first, second)


validation_loss = jax.jit(loss_of, static_argnums=4)


def read(path):
    if path:
        return path.read_text()
    pages = pathlib.Path(__file__).resolve().parents[1].glob("docs/*.md")
    return "".join(page.read_text() for page in sorted(pages))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--most", type=int, help="characters that are read of it")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=64, help="steps between two updates")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sluice", action="store_true")
    args = parser.parse_args()
    if args.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    if args.sluice:
        global lstm
        from sluice.jax import lstm

    text = read(args.text)[:args.most]
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    data = np.array([numbers[character] for character in text], np.int32)
    split = len(data) * 9 // 10
    train, validation = (part[:len(part) // args.rows * args.rows].reshape(args.rows, -1).T for part in (data[:split], data[split:]))

    master = jnp.float64 if args.dtype == "float64" else jnp.float32  # of parameters and of c
    parameters = init(jax.random.key(args.seed), len(numbers), args.width, args.layers, master)
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    moments = jnp.zeros((), master), zeros, zeros
    shape = args.layers, args.rows, args.width
    for epoch in range(1, args.epochs + 1):
        begin = time.perf_counter()
        losses = {}
        for name, rows in (("loss", train), ("validation", validation)):
            state, total = (jnp.zeros(shape, args.dtype), jnp.zeros(shape, master)), 0.0
            # Whole parts alone, for each other length would be compiled.
            parts = (len(rows) - 1) // args.length
            for part in range(parts):
                first = part * args.length
                characters, targets = rows[first:first + args.length], rows[first + 1:first + 1 + args.length]
                if name == "loss":
                    loss, state, parameters, moments = train_step(parameters, moments, characters, targets, state, args.lr, args.dtype)
                else:
                    loss, state = validation_loss(parameters, characters, targets, state, args.dtype)
                total += loss
            losses[name] = float(total) / parts
            if name == "loss":
                seconds = time.perf_counter() - begin
        print(f"epoch {epoch}: loss {losses['loss']:.6f}, validation {losses['validation']:.6f}, {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
