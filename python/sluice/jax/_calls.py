"""Custom calls of XLA: functions of JAX that call the library libsluice_jax.so."""

import ctypes
import pathlib

import jax
import jax.numpy as jnp

_OPTIONAL = ("h0", "c0", "lengths", "resets", "row_ids", "dy", "dhn", "dcn")  # bits of `given` in python/src/jax/calls.cpp
_WANTED = ("x", "h0", "c0", "weights")  # bits of `wanted` there


def _register():
    path = pathlib.Path(__file__).with_name("libsluice_jax.so")
    if not path.exists():
        raise ImportError("this package of Sluice was built without jaxlib, so it has no sluice.jax; docs/python.md says how "
                          "to build it with jaxlib")
    library = ctypes.CDLL(str(path))
    for call in ("pack", "forward", "backward"):
        for kind, platform in (("cpu", "cpu"), ("cuda", "CUDA")):
            handler = jax.ffi.pycapsule(getattr(library, f"sluice_jax_{call}_{kind}"))
            jax.ffi.register_ffi_target(f"sluice_{call}", handler, platform=platform)


_register()


def bytes_of(count):
    return jax.ShapeDtypeStruct((count,), jnp.uint8)


def _bits(names, order):
    return sum(1 << order.index(name) for name in names)


class Calls:
    """The calls of a stack for one extent. training: backward may follow, and random numbers are drawn."""

    def __init__(self, config, x_shape, training, given):
        time, rows = config.extent(x_shape)
        resets = "resets" in given
        self.config = config
        self.results = config.result_shapes(x_shape)
        self.packed, self.workspace, self.reserve = (bytes_of(size) for size in config.sizes(time, rows, training, resets))
        self._attributes = config.attributes(time, rows, training, resets)
        self._training = training

    def _call(self, name, results, arguments, given=(), wanted=(), **options):
        call = jax.ffi.ffi_call(f"sluice_{name}", (*results, self.workspace), **options)
        *results, _ = call(*arguments, **self._attributes, given=_bits(given, _OPTIONAL), wanted=_bits(wanted, _WANTED))
        return results

    def pack(self, weights):
        return self._call("pack", [self.packed], weights)[0]

    def forward(self, x, packed, optional, given):
        """y, hn, cn of an LSTM and, in training, the reserve. optional: arrays with the names `given`."""
        results = [*self.results, *([self.reserve] if self._training else [])]
        return self._call("forward", results, [x, packed, *optional], given)

    def backward(self, reserve, x, packed, outputs, optional, given, wanted):
        """Gradients of what is wanted. Writes to the reserve, so XLA copies that if somebody else reads it."""
        results = [reserve, *self.gradients(x, optional, given, wanted)]
        return self._call("backward", results, [reserve, x, packed, *outputs, *optional], given, wanted,
                          input_output_aliases={0: 0})[1:]

    def gradients(self, x, optional, given, wanted):
        """ShapeDtypeStructs."""
        known = {"x": x, **dict(zip(given, optional))}
        shapes = [jax.ShapeDtypeStruct(known[name].shape, known[name].dtype) for name in wanted if name != "weights"]
        if "weights" in wanted:
            dtype = jnp.dtype(self.config.weight_dtype)
            shapes += [jax.ShapeDtypeStruct(shape, dtype) for _, shape in self.config.weight_shapes]
        return shapes
