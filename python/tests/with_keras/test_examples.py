"""The script examples/keras_text_model.py reaches the same losses with either import."""

import os
import pathlib
import re
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "examples" / "keras_text_model.py"
SMALL = ["--most", "320", "--width", "16", "--words", "300", "--length", "12", "--classes", "3", "--epochs", "3", "--rows", "16"]


def losses_of(dtype, *more):
    """Of the epochs, in training and in validation."""
    environment = {"KERAS_BACKEND": "tensorflow", **os.environ}
    text = subprocess.check_output([sys.executable, SCRIPT, *SMALL, "--dtype", dtype, *more], text=True, env=environment)
    losses = [float(number) for kind in ("loss", "validation") for number in re.findall(rf"{kind} ([0-9.]+)", text)]
    assert len(losses) == 6 and losses[2] < losses[0] - 0.03, text  # it learns
    return losses


def largest_difference(losses, others):
    return max(abs(a - b) for a, b in zip(losses, others, strict=True))


def test_losses_are_kerass():
    exact = losses_of("float64")
    # Keras rounds float64 to float32 in places on torch and JAX, and keeps losses in float32. 54 steps of Adam.
    assert largest_difference(losses_of("float64", "--sluice"), exact) < 2e-4
    # In float32 Keras's own losses differ from those in float64 by as much as rounding costs.
    allowed = 3 * largest_difference(losses_of("float32"), exact) + 2e-4
    assert largest_difference(losses_of("float32", "--sluice"), exact) < allowed
