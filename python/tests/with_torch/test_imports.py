"""Any order of imports: libraries that bring a oneDNN, an OpenMP, a protobuf or a sentencepiece of their own get along with ours.

Crashes by two copies of a library often depend on which comes first, and show only when both are used. So each order is
a process of its own, in which after_imports.py lets all of them compute.
"""

import importlib.util
import pathlib
import random
import subprocess
import sys

import pytest

OWN = ("sluice", "sluice.numpy", "sluice.torch", "sluice.models")
OTHERS = ("torch", "tensorflow", "jax", "onnx", "sentencepiece")
PROGRAM = pathlib.Path(__file__).with_name("after_imports.py")


def is_installed(name):
    return importlib.util.find_spec(name) is not None


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)


def check(*order):
    result = run(PROGRAM, *order)
    if result.returncode < 0:
        # sluice.torch loads torch's compiler and with it triton, which aborts after some versions of tensorflow.
        others = ["torch._dynamo" if name == "sluice.torch" else name for name in order if name not in ("sluice", "sluice.numpy", "sluice.models")]
        if run("-c", f"import {', '.join(others)}").returncode == result.returncode:
            pytest.skip(f"import {', '.join(others)} ends with signal {-result.returncode}, without sluice")
    assert result.returncode == 0 and result.stdout.endswith("all right\n"), \
        f"import {', '.join(order)}: exit code {result.returncode}\n{result.stdout}{result.stderr[-4000:]}"


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("other", OTHERS)
def test_two(other, own, first):
    if not is_installed(other):
        pytest.skip(f"{other} is not installed")
    check(*((own, other) if first else (other, own)))


@pytest.mark.parametrize("seed", range(4))
def test_all(seed):
    order = [*OWN, *filter(is_installed, OTHERS)]
    random.Random(seed).shuffle(order)
    check(*order)
