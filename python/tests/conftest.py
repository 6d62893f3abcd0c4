"""Devices and models that tests share. Each kind of model is trained once a session, when a test first asks for it."""

import pytest
from devices import NAMES, open_or_skip
from model_cases import TASKS

import sluice


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A function from a kind of model to the report of its training."""
    reports = {}

    def report(kind):
        if kind not in reports:
            folder = tmp_path_factory.mktemp(kind)
            reports[kind] = sluice.train({**TASKS[kind](folder), "output.directory": folder / "run"}, quiet=True)
        return reports[kind]

    return report


@pytest.fixture(scope="session")
def model(trained):
    """A function from a kind to a model of it on the CPU; `fresh` opens it anew."""
    opened = {}

    def load(kind, fresh=False):
        if fresh:
            return sluice.load(trained(kind).model)
        if kind not in opened:
            opened[kind] = sluice.load(trained(kind).model)
        return opened[kind]

    return load


@pytest.fixture(params=NAMES)
def device(request):
    """Each device: "cpu" with DeviceArrays, and a GPU."""
    return open_or_skip(NAMES[request.param])


@pytest.fixture(params=["gpu"])
def gpu(request):
    return open_or_skip(NAMES[request.param])
