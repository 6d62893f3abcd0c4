#!/usr/bin/env python3
"""Measures sluice.keras's layers beside Keras's own, on the back end that KERAS_BACKEND names, on the shape files of `sluice
bench`.

The pass forward+backward is a whole training step: train_on_batch of a model of the shape's layers, with a mean squared error and
Adam. The pass forward is predict_on_batch. Both models begin with the same weights and see the same batches, by turns, after
a pause in which the other's threads fall asleep. Each turn takes another batch. `error` is the largest difference of the
outputs from Keras's, before any step, over Keras's largest output.

    KERAS_BACKEND=tensorflow keras_layers.py --shapes bench/shapes/named.shapes --only table --json keras.json
"""

import os
import sys
import time

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy

import common
import sluice.keras

IMPLEMENTATIONS = ["sluice", "keras"]
KINDS = {"lstm": ("LSTM", {}), "gru": ("GRU", {}), "gru_reset_before": ("GRU", {"reset_after": False}),
         "rnn_tanh": ("SimpleRNN", {"activation": "tanh"}), "rnn_relu": ("SimpleRNN", {"activation": "relu"})}
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
PAUSE = 0.02  # seconds


def device_model(device):
    if device == "cpu":
        return common.cpu_model()
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        gpu = tensorflow.config.list_physical_devices("GPU")[0]
        return tensorflow.config.experimental.get_device_details(gpu).get("device_name", "unknown")
    if keras.backend.backend() == "jax":
        import jax

        return jax.devices("cuda")[0].device_kind
    import torch

    return torch.cuda.get_device_name()


class Contest:
    @staticmethod
    def refuse(shape):
        if shape.projection or shape.lengths != "full":
            return "Keras's layers have no projection, and its masks are measured by none of these shapes"
        if shape.dtype not in POLICIES:
            return f"Keras has no {shape.dtype}"
        return common.refuse_extras(shape)

    def __init__(self, shape, pass_name):
        self.shape, self.trains = shape, pass_name == "forward+backward"
        self.device, self.device_model = shape.device, device_model(shape.device)
        self.threads = common.thread_count()
        generator = numpy.random.default_rng(shape.seed)
        count = common.set_count(shape, common.host_cache_bytes())
        outputs = shape.directions * shape.hidden
        self.batches = [[keras.ops.convert_to_tensor(generator.uniform(-1, 1, (shape.batch, shape.time, width)).astype("float32"))
                         for width in (shape.input, outputs)] for _ in range(min(count, 8))]
        self.models = {name: self.make(package) for name, package in (("sluice", sluice.keras), ("keras", keras.layers))}
        self.models["sluice"].set_weights(self.models["keras"].get_weights())
        expected = self.outputs("keras")
        largest = numpy.abs(expected).max()
        self.errors = {"keras": 0.0, "sluice": float(numpy.abs(self.outputs("sluice") - expected).max() / largest)}

    def make(self, package):
        shape = self.shape
        kind, options = KINDS[shape.cell]
        model = keras.Sequential([keras.Input((shape.time, shape.input))])
        policy = POLICIES[shape.dtype]
        for _ in range(shape.layers):
            layer = getattr(package, kind)(shape.hidden, return_sequences=True, dtype=policy, **options)
            model.add(keras.layers.Bidirectional(layer, dtype=policy) if shape.directions == 2 else layer)
        model.compile(keras.optimizers.Adam(1e-5), "mse")
        return model

    def outputs(self, name):
        return numpy.asarray(self.models[name].predict_on_batch(self.batches[0][0]), "float32")

    def runner(self, implementation):
        model, turn = self.models[implementation], 0

        def run():
            nonlocal turn
            x, target = self.batches[turn % len(self.batches)]
            turn += 1
            time.sleep(PAUSE)
            begin = time.perf_counter()
            # Both return numbers on the host, so the work is done.
            model.train_on_batch(x, target) if self.trains else model.predict_on_batch(x)
            return (time.perf_counter() - begin) * 1e3

        return run

    def describe(self, row):
        name = row["implementation"]
        row["peer"], row["default"], row["error"] = name != "sluice", name == "sluice", self.errors[name]


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS)
    library = f"keras {keras.__version__} on {keras.backend.backend()}"
    try:
        common.measure(arguments, Contest, library, tuple(KINDS))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
