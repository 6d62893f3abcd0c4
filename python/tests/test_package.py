"""What the installed package holds."""

import ast
import ctypes
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import sluice
from sluice import _models, _native

PACKAGE = pathlib.Path(sluice.__file__).parent
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def names(body):
    """Names that a stub declares."""
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def public(object):
    return {name for name in dir(object) if not name.startswith("_")}


@pytest.mark.parametrize("module", [_native, _models])
def test_the_stub_names_what_the_module_has(module):
    stub = ast.parse((PACKAGE / f"{module.__name__.rpartition('.')[2]}.pyi").read_text())
    assert set(names(stub.body)) == public(module)
    for node in stub.body:
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(module, node.name), Exception):
            assert set(names(node.body)) - {"__init__"} == public(getattr(module, node.name)), node.name


def test_the_version_is_that_of_the_library():
    assert sluice.__version__ == _native.version == importlib.metadata.version("sluice")


def test_the_package_is_typed():
    assert (PACKAGE / "py.typed").exists()


def test_the_wheel_brings_its_libraries_and_their_licences():
    libraries = {path.name for path in (PACKAGE / "lib").iterdir()}
    assert {"libsluice.so.0", "libsluice_core.so.0", "libsluice_onednn.so.0"} <= libraries
    licences = {path.name for path in (PACKAGE / "licences").iterdir()}
    assert {"LICENSE", "nanobind.txt"} <= licences
    for library in libraries:
        assert library.startswith("libsluice") or f"{library}.txt" in licences, f"no licence of {library}"


def test_libraries_are_those_of_the_wheel():
    program = ("import numpy, sluice.numpy as layers\n"
               "weights = {'weight_ih_l0': numpy.ones((12, 4)), 'weight_hh_l0': numpy.ones((12, 4))}\n"
               "x = numpy.ones((2, 20, 4))\n"
               "layers.gru(x, weights)\n"
               "try: layers.gru(x.astype('f'), {k: v.astype('f') for k, v in weights.items()}, implementation='onednn')\n"
               "except NotImplementedError: pass\n"
               "print(open('/proc/self/maps').read())")
    maps = subprocess.check_output([sys.executable, "-c", program], text=True)
    loaded = set(re.findall(r"/\S*/(?:libsluice|libdnnl|libfmt)\S*", maps))
    assert any("libsluice.so" in path for path in loaded)
    assert {pathlib.Path(path).parent for path in loaded} == {PACKAGE / "lib"}
    assert "libtorch" not in maps and "libcudart" not in maps


def test_the_example_runs():
    output = subprocess.check_output([sys.executable, SOURCE / "examples" / "numpy_lstm.py"], text=True)
    losses = [float(number) for number in re.findall(r"loss ([0-9.]+)", output)]
    assert len(losses) >= 3 and losses[-1] < losses[0] / 5


def test_a_wheel_without_its_gpu_part_says_so(tmp_path):
    package = tmp_path / "sluice"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("libsluice_cuda.so*", "__pycache__"))
    program = ("import sluice._native as native\n"
               "native.Device('cpu')\n"
               "try: native.Device('cuda')\n"
               "except native.DeviceError as error: print(error)\n")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"})
    try:
        ctypes.CDLL("libcuda.so.1")
        reason = "libsluice_cuda.so.0"
    except OSError:
        reason = "no NVIDIA driver"
    assert reason in result.stdout and len(result.stdout.splitlines()) == 1
