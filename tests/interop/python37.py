"""An environment of Python 3.7 with Paddle 1.8 and LAC, in build/python37-paddle: no newer Python runs that Paddle."""

import functools
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: protobuf 4 refuses the code that this Paddle has generated.
PACKAGES = ("paddlepaddle==1.8.5", "protobuf==3.20.3")
#: A package with trained models, of which the tests need the files alone.
MODELS = "LAC==2.1.2"
FOLDER = ROOT / "build" / "python37-paddle"


def interpreter():
    """SLUICE_PYTHON37, or the one on the path, or one of pyenv's; or None."""
    known = [os.environ.get("SLUICE_PYTHON37"), shutil.which("python3.7")]
    versions = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")) / "versions"
    known += sorted(map(str, versions.glob("3.7.*/bin/python3.7")))
    for path in filter(None, known):
        # A shim of pyenv may stand for no interpreter.
        if subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
            return path
    return None


@functools.cache
def python37():
    """The environment's interpreter; skips the test if there is no Python 3.7 or pip cannot install a package."""
    python, done = FOLDER / "bin" / "python3.7", FOLDER / "installed.txt"
    wanted = "\n".join((*PACKAGES, MODELS))
    if done.exists() and done.read_text() == wanted:
        return str(python)
    source = interpreter()
    if source is None:
        pytest.skip("there is no Python 3.7 here")
    subprocess.run([source, "-m", "venv", "--clear", str(FOLDER)], check=True)
    for packages in (PACKAGES, ("--no-deps", MODELS)):
        install = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        result = subprocess.run(install, capture_output=True, text=True, timeout=1800)
        if result.returncode != 0:
            pytest.skip(f"pip cannot install {packages[-1]}: {result.stderr.strip()[-300:]}")
    done.write_text(wanted)
    return str(python)


def folder_of(package):
    """The files of a package that is installed there."""
    python37()
    return FOLDER / "lib" / "python3.7" / "site-packages" / package
