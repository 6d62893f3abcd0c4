#!/usr/bin/env python3
"""A model that learns the running mean of noisy frames, then answers frames as they come.

Takes NumPy and a wheel of sluice with models (docs/python.md).
"""

import pathlib
import tempfile

import numpy as np

import sluice

rng = np.random.default_rng(0)


def sequence(time):
    """Frames [time, 2], and what to answer to each, [time, 1]: a running mean of their first number."""
    frames = rng.uniform(-1, 1, (time, 2)).astype(np.float32)
    means = np.zeros((time, 1), np.float32)
    for t in range(time):
        means[t] = 0.7 * (means[t - 1] if t > 0 else 0) + 0.3 * frames[t, 0]
    return frames, means


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    features, targets = zip(*(sequence(20) for _ in range(200)))
    np.save(folder / "features.npy", np.stack(features))
    np.save(folder / "targets.npy", np.stack(targets))

    # The keys are those of `sluice train --example`.
    report = sluice.train({
        "data": {"features": folder / "features.npy", "targets": folder / "targets.npy", "hold_out_run": 1,
                 "hold_out_every": 10},
        "model": {"kind": "features", "hidden": 16, "bidirectional": False},
        "training": {"learning_rate": 0.02, "max_epochs": 20, "max_tokens": 1000},
        "output": {"directory": folder / "run"},
    }, quiet=True, metrics=lambda told: told["kind"] == "validation" and print("step", told["step"], "loss", told["loss"]))
    print("best", report.best_metric_name, report.best_metric_text)

    model = sluice.load(report.model)
    frames, means = sequence(50)
    print(f"error {np.abs(model.run(frames) - means).mean():.3f}")

    # The same in parts. The state may go to a file, and on with the model on another device.
    stream = model.stream()
    begun = stream.run(frames[:30])
    rest = model.stream(state=stream.state())
    answers = np.concatenate([begun, rest.run(frames[30:40]), [rest.run(frame) for frame in frames[40:]]])
    print(f"in parts: error {np.abs(answers - means).mean():.3f}")
