"""Finds the library with the ops and loads it."""

from __future__ import annotations

import os
import pathlib
import re
import threading

import tensorflow as tf

from .. import __version__

NAME = "libsluice_tensorflow.so"
VARIABLE = "SLUICE_TENSORFLOW_OPS"
REMEDY = "`python -m sluice.tensorflow.build` builds it"

_lock = threading.Lock()
_ops = None


def path_of_library():
    """The file that the variable names, else the one in this package."""
    named = os.environ.get(VARIABLE)
    return pathlib.Path(named) if named else pathlib.Path(__file__).parent / NAME


def versions():
    """Those of this process, as a library's text has them."""
    return f"TensorFlow {tf.__version__} and Sluice {__version__}"


def built_for(path):
    """The versions that a library was compiled for; the text is in its memory (version.cpp)."""
    found = re.search(rb"sluice_tensorflow built for ([^\0]+)\0", path.read_bytes())
    return found[1].decode() if found else "unknown versions"


def _load(path):
    if not path.is_file():
        raise ImportError(f"{path} is missing; {REMEDY}, or set {VARIABLE} to where it is")
    found = built_for(path)
    if found != versions():
        raise ImportError(f"{path} was built for {found}, and this is {versions()}; {REMEDY} anew")
    try:
        return tf.load_op_library(str(path))
    except tf.errors.NotFoundError as error:
        raise ImportError(f"{path} can't be loaded: {error.message}; {REMEDY} anew") from error


def ops():
    """The module that TensorFlow makes of the library."""
    if _ops is None:
        load_ops()
    return _ops


def load_ops(path: str | os.PathLike | None = None) -> None:
    """Loads the library with the ops, once a process.

    lstm, gru and rnn do that when they are first called. A program that only loads a SavedModel with such layers calls this
    before. path: the library; None: the file that SLUICE_TENSORFLOW_OPS names, else the one in the package.
    """
    global _ops
    with _lock:
        if _ops is None:
            _ops = _load(path_of_library() if path is None else pathlib.Path(path))
