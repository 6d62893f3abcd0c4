#!/usr/bin/env python3
"""Measures sluice.jax's layers beside lax.scan on the shape files of `sluice bench`, each inside one jit.

Passes, inputs and times are those of jax_recurrent.py; both implementations get the same numbers. The error is that of the first
set's results against lax.scan in float64: the largest over results and gradients of the root of the mean square over that of
the expected values.

    jax_layers.py --shapes bench/shapes/named.shapes --only table --device cuda --dtype bfloat16 --json layers.json
"""

import sys

import jax
import jax.numpy as jnp
import numpy

import common
import jax_recurrent
import sluice.jax
from jax_stack import stack

IMPLEMENTATIONS = ["sluice", "jax-scan"]


def name_of(kind, index, directions):
    return f"{kind}_l{index // directions}" + ("_reverse" if index % directions else "")


class Contest(jax_recurrent.Contest):
    def __init__(self, shape, pass_name):
        super().__init__(shape, pass_name)
        self.lstm = shape.cell == "lstm"
        self.rows_lengths = self.lengths()
        limit = shape.hidden ** -0.5
        self.weights = [{key: self.draw(*sizes, limit=limit) for key, sizes in jax_recurrent.weight_shapes(shape, index).items()}
                        for index in range(shape.layers * shape.directions)]
        cache = 50 << 20 if self.on_gpu else common.host_cache_bytes()
        self.sets = [self.own_set() for _ in range(common.set_count(shape, cache))]
        self.errors = {}
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            double = jax.tree.map(lambda a: a.astype(jnp.float64), (self.weights, *self.sets[0]))
            self.expected = jax.block_until_ready(self.passes(self.scan())(*double))

    def own_set(self):
        """Inputs and the gradients of results; a GRU has no cell state."""
        inputs, gradients = self.make_set(batch_first=False)
        return (inputs, gradients) if self.lstm else (inputs[:2], gradients[:2])

    def scan(self):
        def function(weights, x, h0, c0=None):
            y, hn, cn = stack(self.shape, weights, x, h0, h0 if c0 is None else c0, self.rows_lengths)
            return (y, hn, cn) if self.lstm else (y, hn)

        return function

    def sluice(self):
        shape = self.shape

        def function(weights, x, *state):
            named = {name_of(kind, index, shape.directions): value for index, one in enumerate(weights) for kind, value in one.items()}
            if not self.lstm:
                return sluice.jax.gru(x, named, *state, lengths=self.rows_lengths)
            y, state = sluice.jax.lstm(x, named, state, lengths=self.rows_lengths)
            return y, *state

        return function

    def passes(self, function):
        """The pass as a compiled function of weights, inputs and gradients."""
        def with_gradients(weights, inputs, gradients):
            results, pull = jax.vjp(function, weights, *inputs)
            return results, pull(gradients)

        return jax.jit(with_gradients if self.backward else lambda weights, inputs, _: function(weights, *inputs))

    def runner(self, implementation):
        compiled = self.passes(self.sluice() if implementation == "sluice" else self.scan())
        with jax.default_matmul_precision(self.precision):
            try:
                found = jax.block_until_ready(compiled(self.weights, *self.sets[0]))
            except (RuntimeError, NotImplementedError) as error:
                raise common.Declined(str(error).split("\n")[0]) from None
        self.errors[implementation] = max(
            error_of(a, b) for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(self.expected), strict=True))
        return self.timed(compiled, self.weights, self.sets)

    def describe(self, row):
        row["peer"], row["default"] = row["implementation"] != "sluice", row["implementation"] == "sluice"
        row["error"] = self.errors[row["implementation"]]


def error_of(found, expected):
    found, expected = (numpy.asarray(value, numpy.float64) for value in (found, expected))
    return float(numpy.sqrt(numpy.square(found - expected).mean() / numpy.square(expected).mean()))


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS)
    try:
        common.measure(arguments, Contest, f"jax {jax.__version__}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
