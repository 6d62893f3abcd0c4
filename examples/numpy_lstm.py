#!/usr/bin/env python3
"""An LSTM on NumPy arrays that learns to add: its last output is the sum of the numbers that it read.

Takes NumPy and the package sluice (pip install "./python[numpy]").
"""

import numpy as np

from sluice.numpy import Stack

TIME, ROWS, HIDDEN = 10, 64, 16
rng = np.random.default_rng(0)


def uniform(*shape):
    return rng.uniform(-0.3, 0.3, shape).astype(np.float32)


# Names and gate order (i, f, g, o) are torch's.
weights = {
    "weight_ih_l0": uniform(4 * HIDDEN, 1),
    "weight_hh_l0": uniform(4 * HIDDEN, HIDDEN),
    "bias_ih_l0": uniform(4 * HIDDEN),
    "bias_hh_l0": uniform(4 * HIDDEN),
}
readout = uniform(HIDDEN)
stack = Stack("lstm", weights, training=True)

for step in range(301):
    x = rng.uniform(0, 1, (TIME, ROWS, 1)).astype(np.float32)
    y, _ = stack(x)
    error = y[-1] @ readout - x[:, :, 0].sum(axis=0)
    if step % 100 == 0:
        print(f"step {step}: loss {np.mean(error**2):.3f}")

    # The loss is the mean of error^2, of which only the last step's output takes part.
    slope = 2 * error / ROWS
    dy = np.zeros_like(y)
    dy[-1] = np.outer(slope, readout)
    gradients = stack.backward(dy).weights
    readout -= 0.03 * (y[-1].T @ slope)
    for name in weights:
        weights[name] -= 0.03 * gradients[name]
    stack.load(weights)
