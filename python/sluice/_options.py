"""Checks of options that are numbers or names: one sentence for each that can't be."""

import operator

_REAL = {"length_penalty", "coverage_penalty", "diversity", "temperature", "tolerance", "top_p"}
_UNSIGNED = {"seed"}


def check_numbers(**options):
    for name, value in options.items():
        if name in _REAL:
            _check_real(name, value)
        else:
            _check_whole(name, value, *((0, 2**64 - 1) if name in _UNSIGNED else (-2**63, 2**63 - 1)))


def check_names(**options):
    for name, value in options.items():
        if not isinstance(value, str):
            raise TypeError(f"{name} is of type {type(value).__name__}; it must be a str")


def _check_whole(name, value, least, most):
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be an int") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {number}, not {least} to {most}")


def _check_real(name, value):
    try:
        if isinstance(value, str):
            raise TypeError
        float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is of type {type(value).__name__}; it must be a number") from None
