"""Compiles the library with the ops for the TensorFlow of this Python.

    python -m sluice.tensorflow.build                   beside the package
    python -m sluice.tensorflow.build -o FILE           elsewhere; the variable SLUICE_TENSORFLOW_OPS then names it

It needs g++ 9 or newer, or another compiler that CXX names; CXXFLAGS adds flags and JOBS=N limits how many compilers run. The
sources, sluice.h and libsluice are those of the package.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import tensorflow as tf

from .. import __version__
from ._library import NAME, VARIABLE, versions

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def _compile_flags():
    """TensorFlow's own, which fix the C++ standard and the ABI. Its headers are a system's: their warnings are not ours."""
    flags = []
    for flag in tf.sysconfig.get_compile_flags():
        flags += ["-isystem", flag[2:]] if flag.startswith("-I") else [flag]
    return flags + ["-I", str(_PACKAGE / "include"), f'-DSLUICE_TENSORFLOW_VERSION="{tf.__version__}"',
                    f'-DSLUICE_VERSION="{__version__}"', "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow",
                    *shlex.split(os.environ.get("CXXFLAGS", ""))]


def _link_flags(output):
    """The library finds libsluice where the package has it, and TensorFlow's where Python loaded it."""
    library = next((_PACKAGE / "lib").glob("libsluice.so.?"), None)
    if library is None:
        sys.exit(f"{_PACKAGE / 'lib'} has no libsluice.so")
    folder = os.path.relpath(library.parent, output.parent) if output.parent.is_relative_to(_PACKAGE) else None
    rpath = f"$ORIGIN/{folder}" if folder else str(library.parent)
    return [*tf.sysconfig.get_link_flags(), str(library), "-Wl,--disable-new-dtags", f"-Wl,-rpath,{rpath}"]


def _run(command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"{command[0]} can't be started: {error.strerror}; install g++, or name a compiler by CXX")
    if result.returncode:
        sys.exit(f"{shlex.join(command)}\n{result.stderr}")


def build(output: pathlib.Path) -> None:
    """Compiles and links; writes `output` whole or not at all."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    sources = sorted((_PACKAGE / "tensorflow" / "source").glob("*.cpp"))
    output.parent.mkdir(parents=True, exist_ok=True)
    # In the folder of the output, so that the last step can be a renaming.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".sluice-") as folder:
        objects = [f"{folder}/{source.stem}.o" for source in sources]
        flags = _compile_flags()
        with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count() or 1))) as pool:
            list(pool.map(_run, [[*compiler, *flags, "-c", str(source), "-o", object_file]
                                 for source, object_file in zip(sources, objects)]))
        _run([*compiler, "-shared", "-o", f"{folder}/{NAME}", *objects, *_link_flags(output)])
        os.replace(f"{folder}/{NAME}", output)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sluice.tensorflow.build", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=_PACKAGE / "tensorflow" / NAME, help="the library")
    output = parser.parse_args().output.resolve()
    try:
        build(output)
    except OSError as error:
        sys.exit(f"{output} can't be written: {error.strerror}; name another file by -o, and {VARIABLE} where it is used")
    print(f"{output}: for {versions()}")


if __name__ == "__main__":
    main()
