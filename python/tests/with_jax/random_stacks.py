"""Stacks of random hyper-parameters, and both ways to run them."""

import os
import secrets

import jax
import jax.numpy as jnp
import numpy as np
import scan_reference
from cases import random_weights

import sluice.jax

SEED = int(os.environ.get("SLUICE_TEST_SEED") or secrets.randbits(31))
CELLS = ("lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu")


def name_of(number):
    """The id of a test, with which SLUICE_TEST_SEED draws the same case again."""
    return f"seed{SEED}-{number}"


class Case:
    """A stack with inputs in float64, as NumPy arrays, and the options of a call."""

    def __init__(self, number, plain=False):
        self.rng = rng = np.random.default_rng([SEED, number])
        self.cell = CELLS[number % len(CELLS)]
        self.time, self.rows, self.input = (int(rng.integers(1, most)) for most in (12, 9, 20))
        self.layers, self.directions = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        self.batch_first = not plain and bool(rng.integers(2))
        self.zoneout = (0.0, 0.0)
        kind = rng.choice(["", "projection", "peepholes", "layer_norm"]) if self.cell == "lstm" and not plain else ""
        bias = bool(rng.integers(4))
        if not plain and not rng.integers(4):
            self.hidden = [int(rng.integers(1, 24)) for _ in range(self.layers)]  # layers that differ in width
        else:
            self.hidden = [int(rng.integers(1, 24))] * self.layers
        self.outputs = [max(1, hidden // 2) if kind == "projection" else hidden for hidden in self.hidden]
        self.weights, width = {}, self.input
        for layer, (hidden, output) in enumerate(zip(self.hidden, self.outputs)):
            one = random_weights(rng, self.cell, width, hidden, 1, self.directions,
                                 output if kind == "projection" else 0, bias or kind == "layer_norm",
                                 kind == "peepholes", kind == "layer_norm")
            self.weights.update({name.replace("_l0", f"_l{layer}"): value for name, value in one.items()})
            width = self.directions * output
        self.x = rng.uniform(-1, 1, (self.time, self.rows, self.input))
        self.h0 = self._states(self.outputs) if rng.integers(2) else None
        self.c0 = self._states(self.hidden) if self.cell == "lstm" and rng.integers(2) else None
        self.lengths = self._lengths() if rng.integers(2) else None
        self.resets = rng.random((self.time, self.rows)) < 0.25 if rng.integers(2) else None

    def _states(self, widths):
        return [self.rng.uniform(-1, 1, (self.directions, self.rows, width)) for width in widths]

    def _lengths(self):
        lengths = self.rng.integers(0, self.time + 1, self.rows)
        lengths[self.rng.integers(self.rows)] = 0
        return lengths

    def __str__(self):
        return (f"seed {SEED}: {self.cell}, time {self.time}, rows {self.rows}, input {self.input}, hidden {self.hidden}, "
                f"outputs {self.outputs}, directions {self.directions}, batch_first {self.batch_first}, "
                f"{sorted(self.weights)[:6]}, h0 {self.h0 is not None}, c0 {self.c0 is not None}, lengths {self.lengths}, "
                f"resets {self.resets is not None}")

    @property
    def inputs(self):
        """What both runs take and are differentiated by."""
        return {"weights": self.weights, "x": self.x, "h0": self.h0, "c0": self.c0}

    def expected(self, inputs):
        """y, hn and cn (of an LSTM) by the reference; states are lists."""
        y, hn, cn = scan_reference.stack(self.cell, inputs["weights"], inputs["x"], inputs["h0"], inputs["c0"], self.lengths,
                                         self.resets, self.zoneout)
        return (y, hn, cn) if self.cell == "lstm" else (y, hn)

    def found(self, inputs, **options):
        """The same by Sluice. inputs: as the reference's."""
        swap = (lambda a: jnp.swapaxes(a, 0, 1)) if self.batch_first else (lambda a: a)
        h0, c0 = (self._given(inputs[name]) for name in ("h0", "c0"))
        hx = h0 if self.cell != "lstm" else None if h0 is None and c0 is None else (h0, c0)
        call, kind = {"lstm": (sluice.jax.lstm, {}), "gru": (sluice.jax.gru, {}),
                      "gru_reset_before": (sluice.jax.gru, {"reset_after": False}), "rnn_tanh": (sluice.jax.rnn, {}),
                      "rnn_relu": (sluice.jax.rnn, {"nonlinearity": "relu"})}[self.cell]
        resets = None if self.resets is None else swap(jnp.asarray(self.resets))
        y, state = call(swap(jnp.asarray(inputs["x"])), inputs["weights"], hx, lengths=self.lengths, resets=resets,
                        batch_first=self.batch_first, **kind, **options)
        states = state if self.cell == "lstm" else (state,)
        return swap(y), *(self._listed(value) for value in states)

    def _given(self, state):
        if state is None or len(set(self.hidden)) > 1 or len(set(self.outputs)) > 1:
            return state
        return jnp.concatenate([jnp.asarray(part) for part in state])

    def _listed(self, state):
        return state if isinstance(state, list) else jnp.split(state, self.layers)

    def slopes(self):
        """Gradients of the results, for both runs."""
        shapes = [(self.time, self.rows, self.directions * self.outputs[-1])]
        widths = (self.outputs, self.hidden) if self.cell == "lstm" else (self.outputs,)
        slopes = [self.rng.standard_normal(shapes[0])]
        for each in widths:
            slopes.append([self.rng.standard_normal((self.directions, self.rows, width)) for width in each])
        return tuple(slopes)


def converted(tree, dtype, cell_dtype=None):
    """The arrays of a Case's inputs in another dtype."""
    def convert(path, array):
        of_c = cell_dtype is not None and path and getattr(path[0], "key", None) == "c0"
        return jnp.asarray(array, cell_dtype if of_c else dtype)
    return jax.tree_util.tree_map_with_path(convert, tree)


def assert_close(found, expected, tolerance, message):
    """Each array's largest difference against `tolerance` of the largest value there, or of 1."""
    found_leaves, expected_leaves = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found_leaves) == len(expected_leaves), message
    for path, (a, b) in zip(jax.tree_util.tree_leaves_with_path(expected), zip(found_leaves, expected_leaves)):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert a.shape == b.shape, f"{jax.tree_util.keystr(path[0])}: {a.shape}, not {b.shape}; {message}"
        worst, scale = float(np.abs(a - b).max(initial=0)), max(1.0, float(np.abs(b).max(initial=0)))
        assert worst <= tolerance * scale, f"{jax.tree_util.keystr(path[0])} differs by {worst}; {message}"
