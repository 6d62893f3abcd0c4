"""Random layers of Keras's with Sluice's beside them, and their gradients on any back end."""

import os
import random

import keras
import numpy as np
import sluice.keras
from keras import ops

SEED = int(os.environ.get("SLUICE_SEED") or random.SystemRandom().randrange(10**6))

KINDS = [("LSTM", {}), ("GRU", {"reset_after": True}), ("GRU", {"reset_after": False}), ("SimpleRNN", {"activation": "tanh"}),
         ("SimpleRNN", {"activation": "relu"})]
MASKS = ("none", "right", "left", "any", "all", "nothing")


class Case:
    """Hyper-parameters and inputs; the same for the same number in a run."""

    def __init__(self, number, dtype="float64", kind=None, mask=None, most=20, **options):
        seed = SEED * 1000 + number
        self._seed = seed
        draw = random.Random(seed)
        self.dtype = dtype
        self.kind, kind_options = kind or draw.choice(KINDS)
        self.options = {"return_sequences": draw.random() < 0.6, "return_state": draw.random() < 0.5,
                        "go_backwards": draw.random() < 0.4, "use_bias": draw.random() < 0.8,
                        "zero_output_for_mask": draw.random() < 0.4, **kind_options, **options}
        if self.kind == "LSTM":
            self.options.setdefault("unit_forget_bias", draw.random() < 0.5)
        self.units, self.input = draw.randint(1, most), draw.randint(1, most)
        self.rows, self.time = draw.randint(1, 7), draw.randint(1, 12)
        self.mask_kind = mask or draw.choice(MASKS)
        self.has_state = draw.random() < 0.5
        self.generator = np.random.default_rng(seed)

    def __repr__(self):
        return (f"{self.kind}({self.units}, {self.options}), x [{self.rows}, {self.time}, {self.input}], mask "
                f"{self.mask_kind}, state {self.has_state}, SLUICE_SEED={SEED}, {self._seed}")

    def layers(self):
        """Keras's, and Sluice's with the same weights, which NumPy draws: on JAX each random operation would be compiled."""
        zeros = {f"{kind}_initializer": "zeros" for kind in ("kernel", "recurrent", "bias")}
        pair = [getattr(package, self.kind)(self.units, dtype=self.dtype, **zeros, **self.options)
                for package in (keras.layers, sluice.keras)]
        for layer in pair:
            layer.build((self.rows, self.time, self.input))
        generator = np.random.default_rng(self._seed + 1)
        weights = [generator.uniform(-1, 1, weight.shape) / np.sqrt(weight.shape[0]) for weight in pair[0].weights]
        for layer in pair:
            layer.set_weights(weights)
        return pair

    def draw(self, *shape):
        return self.generator.uniform(-1, 1, shape)

    def x(self):
        return self.draw(self.rows, self.time, self.input)

    def state(self):
        """A list of initial states, or None."""
        if not self.has_state:
            return None
        return [self.draw(self.rows, self.units) for _ in range(2 if self.kind == "LSTM" else 1)]

    def mask(self):
        """Booleans [rows, time], or None."""
        return mask_of(self.mask_kind, self.rows, self.time, self.generator)


def mask_of(kind, rows, time, generator):
    steps, lengths = np.arange(time)[None], generator.integers(0, time + 1, (rows, 1))
    return {"none": lambda: None, "right": lambda: steps < lengths, "left": lambda: steps >= time - lengths,
            "any": lambda: generator.random((rows, time)) < 0.6, "all": lambda: np.ones((rows, time), bool),
            "nothing": lambda: np.zeros((rows, time), bool)}[kind]()


def array(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float64"))


def flat(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def call(layer, x, state=None, mask=None, training=False):
    options = {"training": training}
    if state is not None:
        options["initial_state"] = state
    if mask is not None:
        options["mask"] = ops.convert_to_tensor(mask)
    return flat(layer(x, **options))


# TensorFlow compiles Keras's own loops for a minute with XLA, for which JAX has its own compiler. torch compiles neither.
JIT = False if keras.backend.backend() == "tensorflow" else "auto"


def run(layer, x, state=None, mask=None, training=False, dtype="float64"):
    """Outputs as arrays."""
    x = ops.convert_to_tensor(x, dtype=dtype)
    state = [ops.convert_to_tensor(part, dtype=dtype) for part in state] if state is not None else None
    if keras.backend.backend() != "jax" or layer.stateful:
        return [array(output) for output in call(layer, x, state, mask, training)]
    others = layer.non_trainable_variables
    values = [[variable.value for variable in variables] for variables in (layer.trainable_variables, others)]
    outputs, changed = _jitted(layer, state, mask, training)(*values, x)
    for variable, value in zip(others, changed, strict=True):
        variable.assign(value)
    return [array(output) for output in outputs]


def _jitted(layer, state, mask, training):
    import jax

    options = {name: value for name, value in (("initial_state", state), ("mask", mask), ("training", training)) if value is not None}

    @jax.jit
    def forward(weights, others, x):
        outputs, others = layer.stateless_call(weights, others, x, **options)
        return flat(outputs), others

    return forward


def run_with_gradients(layer, x, state=None, mask=None, training=False, dtype="float64", seed=1):
    """Outputs, and gradients of x, the state and the weights for fixed random gradients of the outputs, as arrays."""
    inputs = [ops.convert_to_tensor(part, dtype=dtype) for part in (x, *(state or []))]
    generator = np.random.default_rng(seed)

    def loss(outputs):
        factors = [generator.uniform(-0.5, 0.5, tuple(output.shape)) for output in outputs]
        return sum(ops.sum(ops.cast(output, "float64") * ops.convert_to_tensor(factor, dtype="float64"))
                   for output, factor in zip(outputs, factors))

    outputs, gradients = _GRADIENTS[keras.backend.backend()](layer, inputs, mask, training, loss)
    return [array(output) for output in outputs] + [array(gradient) for gradient in gradients]


def _torch(layer, inputs, mask, training, loss):
    import torch

    inputs = [part.clone().requires_grad_() for part in inputs]
    outputs = call(layer, inputs[0], inputs[1:] or None, mask, training)
    wanted = inputs + [variable.value for variable in layer.trainable_weights]
    return [output.detach() for output in outputs], torch.autograd.grad(loss(outputs), wanted)


def _jax(layer, inputs, mask, training, loss):
    import jax

    others = [variable.value for variable in layer.non_trainable_variables]

    @jax.jit
    def both(inputs, weights):
        def of(inputs, weights):
            options = {"training": training}
            if len(inputs) > 1:
                options["initial_state"] = list(inputs[1:])
            if mask is not None:
                options["mask"] = mask
            outputs, _ = layer.stateless_call(weights, others, inputs[0], **options)
            return loss(flat(outputs)), flat(outputs)

        return jax.grad(of, (0, 1), has_aux=True)(inputs, weights)

    (of_inputs, of_weights), outputs = both(inputs, [variable.value for variable in layer.trainable_variables])
    return outputs, [*of_inputs, *of_weights]


def _tensorflow(layer, inputs, mask, training, loss):
    import tensorflow as tf

    @tf.function
    def both(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = call(layer, inputs[0], list(inputs[1:]) or None, mask, training)
            total = loss(outputs)
        wanted = [*inputs, *(variable.value for variable in layer.trainable_weights)]
        return outputs, tape.gradient(total, wanted, unconnected_gradients="zero")

    return both(*inputs)


_GRADIENTS = {"torch": _torch, "jax": _jax, "tensorflow": _tensorflow}


def assert_close(found, expected, tolerance, what=""):
    """Each array's largest difference is at most `tolerance` times its largest value, or that much where it is small."""
    assert len(found) == len(expected), what
    for place, (a, b) in enumerate(zip(found, expected)):
        assert a.shape == b.shape, (what, place, a.shape, b.shape)
        if b.size:
            bound = tolerance * max(1.0, np.abs(b).max())
            difference = np.abs(a - b).max()
            assert difference <= bound, f"{what}: array {place}: {difference} is more than {bound}"
