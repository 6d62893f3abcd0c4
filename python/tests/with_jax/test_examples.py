"""examples/jax_char_model.py runs, learns, and reaches the same loss with Sluice's LSTM."""

import pathlib
import re
import subprocess
import sys
from functools import lru_cache

import jax
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
SMALL = ["--most", "20000", "--width", "64", "--rows", "16", "--length", "32", "--epochs", "3"]


@lru_cache(maxsize=None)
def losses_of(dtype, *more):
    """Of the epochs, in training and in validation."""
    command = [sys.executable, EXAMPLES / "jax_char_model.py", *SMALL, "--dtype", dtype, *more]
    text = subprocess.check_output(command, text=True)
    losses = [[float(number) for number in re.findall(kind + r" ([0-9.]+)", text)] for kind in ("loss", "validation")]
    assert all(len(kind) == 3 and kind[-1] < kind[0] - 0.03 for kind in losses), text  # it learns
    return sum(losses, [])


def largest_difference(losses, others):
    return max(abs(a - b) for a, b in zip(losses, others))


@pytest.mark.skipif(any(device.platform == "gpu" for device in jax.devices()), reason="a GPU has no float64")
def test_losses_in_float64_are_those_of_scan():
    # The script prints six digits, and rounding to float64 does not reach those.
    assert largest_difference(losses_of("float64", "--sluice"), losses_of("float64")) < 1.5e-6


# Rounding in fewer bits changes a loss near 3 by some of its last bits: 2e-7 each in float32 (some hundred steps of training let
# that grow to 1e-4), 2**-8 of what y and logits are in bfloat16.
@pytest.mark.parametrize("dtype, allowed", [("float32", 2e-4), ("bfloat16", 1e-2)])
def test_losses_in_fewer_bits_are_near_those_of_scan(dtype, allowed):
    assert largest_difference(losses_of(dtype, "--sluice"), losses_of(dtype)) < allowed
