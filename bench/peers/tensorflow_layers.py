#!/usr/bin/env python3
"""Measures sluice.tensorflow beside Keras's layers on TensorFlow's CPU device, on the shape files of `sluice bench`.

Both run in a tf.function, on [rows, time, features] as Keras has them, from the same weights. The forward pass is inference.
forward+backward gives gradients of x and all weights, by a tape in the same function. Turns alternate; times are of the host,
medians. The error is that of y and dx of the first set against Keras's layer in float64: the root of the mean square over that
of the expected values, the larger of both.

Implementations: sluice, keras; keras+xla (jit_compile=True), only if --impl names it. Both get the threads that OMP_NUM_THREADS
says, or all cores.

    tensorflow_layers.py --shapes bench/shapes/tensorflow.shapes --json tensorflow.json
"""

import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy
import tensorflow as tf

import common
import sluice.tensorflow

sys.path.append(str(pathlib.Path(__file__).parents[2] / "python/tests/with_tensorflow"))
from compared_layers import converted  # the order of Keras's gates

IMPLEMENTATIONS = ["sluice", "keras"]
NAMED = ["keras+xla"]
LAYERS = {"lstm": (keras.layers.LSTM, {}), "gru": (keras.layers.GRU, {}),
          "gru_reset_before": (keras.layers.GRU, {"reset_after": False}),
          "rnn_tanh": (keras.layers.SimpleRNN, {}), "rnn_relu": (keras.layers.SimpleRNN, {"activation": "relu"})}


class Contest:
    device = device_model = "cpu"

    def __init__(self, shape, pass_name):
        if shape.projection or shape.lengths != "full" or shape.dtype not in ("float32", "bfloat16"):
            sys.exit(f"{shape.name}: Keras's layers on a CPU have no projections, other lengths than full, and {shape.dtype}")
        self.shape = shape
        self.backward = pass_name == "forward+backward"
        self.threads = common.thread_count()
        self.random = numpy.random.default_rng(shape.seed)
        self.layers = self.keras_layers(shape.dtype)
        self.weights = {name: tf.Variable(tf.cast(value, shape.dtype)) for name, value in self.converted().items()}
        count = common.set_count(shape, common.host_cache_bytes())
        self.sets = [(self.draw(shape.input), self.draw(shape.directions * shape.hidden)) for _ in range(count)]
        self.errors = {}
        self.expected = self.in_float64()

    def draw(self, width):
        return tf.cast(self.random.uniform(-1, 1, (self.shape.batch, self.shape.time, width)), self.shape.dtype)

    def keras_layers(self, dtype):
        kind, options = LAYERS[self.shape.cell]
        layers, width = [], self.shape.input
        for _ in range(self.shape.layers):
            layer = kind(self.shape.hidden, return_sequences=True, dtype=dtype, recurrent_initializer="glorot_uniform",
                         bias_initializer="glorot_uniform" if options.get("reset_after", True) is False else "zeros", **options)
            if self.shape.directions == 2:
                layer = keras.layers.Bidirectional(layer, dtype=dtype)
            layer.build((self.shape.batch, self.shape.time, width))
            layers.append(layer)
            width = self.shape.directions * self.shape.hidden
        return layers

    def converted(self):
        weights = {}
        for i, layer in enumerate(self.layers):
            if self.shape.directions == 2:
                weights |= converted(layer.forward_layer, f"_l{i}") | converted(layer.backward_layer, f"_l{i}_reverse")
            else:
                weights |= converted(layer, f"_l{i}")
        return weights

    def run_keras(self, x, layers=None):
        for layer in layers or self.layers:
            x = layer(x)
        return x

    def run_sluice(self, x):
        options = {"batch_first": True, "training": None if self.backward else False}
        if self.shape.cell.startswith("gru"):
            return sluice.tensorflow.gru(x, self.weights, reset_after=self.shape.cell == "gru", **options)[0]
        if self.shape.cell.startswith("rnn"):
            return sluice.tensorflow.rnn(x, self.weights, nonlinearity=self.shape.cell[4:], **options)[0]
        return sluice.tensorflow.lstm(x, self.weights, **options)[0]

    def function(self, run, weights, jit_compile=False):
        @tf.function(jit_compile=jit_compile)
        def call(x, dy):
            if not self.backward:
                return [run(x)]
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = run(x)
                loss = tf.reduce_sum(y * dy)
            return [y, *tape.gradient(loss, [x, *weights])]

        return call

    def in_float64(self):
        layers = self.keras_layers("float64")
        for wide, narrow in zip(layers, self.layers):
            for to, source in zip(wide.weights, narrow.weights):
                to.assign(tf.cast(source, "float64"))
        call = self.function(lambda x: self.run_keras(x, layers), [])
        return call(*(tf.cast(part, tf.float64) for part in self.sets[0]))[:2]  # y and dx

    def error_of(self, found):
        return max(float(tf.sqrt(tf.reduce_mean((tf.cast(a, tf.float64) - b) ** 2) / tf.reduce_mean(b ** 2)))
                   for a, b in zip(found, self.expected))

    def runner(self, implementation):
        name, _, form = implementation.partition("+")
        variables = [weight.value for layer in self.layers for weight in layer.weights]
        call = (self.function(self.run_sluice, list(self.weights.values())) if name == "sluice" else
                self.function(self.run_keras, variables, form == "xla"))
        self.errors[implementation] = self.error_of(call(*self.sets[0]))
        kept = [None] * len(self.sets)  # outputs, so that the next run gets other memory
        turn = [0]

        def run_once():
            turn[0] = (turn[0] + 1) % len(self.sets)
            begin = time.perf_counter()
            kept[turn[0]] = call(*self.sets[turn[0]])
            return (time.perf_counter() - begin) * 1e3

        return run_once

    def describe(self, row):
        name = row["implementation"]
        row["peer"], row["default"] = name != "sluice", name == "sluice"
        row["error"] = self.errors[name]


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS, NAMED)
    tf.config.threading.set_intra_op_parallelism_threads(common.thread_count())
    try:
        common.measure(arguments, Contest, f"tensorflow {tf.__version__}, keras {keras.__version__}", tuple(LAYERS))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
