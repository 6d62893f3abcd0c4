"""Recurrent layers that are fast on CPUs and NVIDIA GPUs.

sluice.torch and sluice.keras have layers that take the place of torch.nn's and Keras's. sluice.jax and sluice.tensorflow have
functions for arrays of JAX and tensors of TensorFlow. sluice.numpy has functions and a class for NumPy arrays, and for arrays
on a GPU. sluice.load, sluice.train, sluice.convert, sluice.check and sluice.profile (sluice.models) are for
whole models.
"""

from ._native import DeviceError, DeviceLost, Error
from ._native import version as __version__

__all__ = ["DeviceError", "DeviceLost", "Error", "__version__"]

_OF_MODELS = ("check", "convert", "load", "profile", "train")
TYPE_CHECKING = False  # which type checkers take for true; typing would have to be imported
if TYPE_CHECKING:
    from .models import check as check
    from .models import convert as convert
    from .models import load as load
    from .models import profile as profile
    from .models import train as train


def __getattr__(name):
    # Models take libraries of their own, which layers alone do without.
    if name in _OF_MODELS:
        from . import models

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
