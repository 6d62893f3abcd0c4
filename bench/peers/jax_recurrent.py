#!/usr/bin/env python3
"""Measures JAX's ways of running LSTM and GRU layers on the shape files of `sluice bench`, for `sluice bench report`.

Implementations: jax-scan (lax.scan under jit, the input product of all steps at once) and, for LSTM on
a GPU in float32 or tf32, jax-cudnn (jax.experimental.rnn). The forward pass is inference;
forward+backward gives gradients of x, h0, c0 and all weights. Each turn takes another copy of the
inputs; times are of the host from the call until the results are ready, medians.

    jax_recurrent.py --shapes bench/shapes/named.shapes --device cuda --dtype bfloat16 --json jax.json
    jax_recurrent.py --check    hold jax-scan against the golden values of tests/oracle
"""

import json
import os
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import rnn

import common
import shape_files
from jax_stack import stack

IMPLEMENTATIONS = ["jax-scan", "jax-cudnn"]
TYPES = {"float32": jnp.float32, "tf32": jnp.float32, "bfloat16": jnp.bfloat16, "float16": jnp.float16}
GOLDENS = pathlib.Path(__file__).parents[2] / "tests/oracle/goldens"
CHECKED = ["lstm", "gru", "lstm_deep_bidirectional", "gru_deep_bidirectional", "lstm_projection"]


def weight_shapes(shape, index):
    width = shape.gates * shape.hidden
    sizes = {"weight_ih": (width, shape.input_of(index // shape.directions)),
             "weight_hh": (width, shape.output), "bias_ih": (width,), "bias_hh": (width,)}
    if shape.projection:
        sizes["weight_hr"] = (shape.projection, shape.hidden)
    return sizes


class Contest:
    def __init__(self, shape, pass_name):
        self.shape = shape
        self.backward = pass_name == "forward+backward"
        kind, _, index = shape.device.partition(":")
        try:
            self.target = jax.devices({"cuda": "gpu"}.get(kind, kind))[int(index or 0)]
        except (RuntimeError, IndexError, ValueError) as error:
            sys.exit(f"JAX has no device {shape.device}: {error}")
        self.on_gpu = kind == "cuda"
        self.device = f"cuda:{index or 0}" if self.on_gpu else shape.device
        self.device_model = self.target.device_kind if self.on_gpu else shape.device
        self.threads = len(os.sched_getaffinity(0))
        self.precision = {"float32": "highest", "tf32": "tensorfloat32"}.get(shape.dtype, "default")
        self.random = numpy.random.default_rng(shape.seed)

    def put(self, array, dtype):
        return jax.device_put(jnp.asarray(array, dtype), self.target)

    def draw(self, *sizes, dtype=None, limit=1.0):
        values = self.random.uniform(-limit, limit, sizes).astype(numpy.float32)
        return self.put(values, dtype or TYPES[self.shape.dtype])

    def make_set(self, batch_first):
        """x, h0, c0 and the gradients of y, hn, cn; cell states are float32."""
        shape = self.shape
        leading = (shape.batch, shape.time) if batch_first else (shape.time, shape.batch)
        h = (shape.layers * shape.directions, shape.batch, shape.output)
        c = (shape.layers * shape.directions, shape.batch, shape.hidden)
        x = self.draw(*leading, shape.input)
        dy = self.draw(*leading, shape.directions * shape.output)
        return ((x, self.draw(*h), self.draw(*c, dtype=jnp.float32)),
                (dy, self.draw(*h), self.draw(*c, dtype=jnp.float32)))

    def lengths(self):
        if self.shape.lengths == "full":
            return None
        return self.put(self.random.integers(1, self.shape.time + 1, self.shape.batch), jnp.int32)

    def scan(self):
        shape, limit = self.shape, self.shape.hidden ** -0.5
        lengths = self.lengths()
        weights = []
        for index in range(shape.layers * shape.directions):
            weights.append({key: self.draw(*sizes, limit=limit)
                            for key, sizes in weight_shapes(shape, index).items()})

        def function(weights, x, h0, c0):
            return stack(shape, weights, x, h0, c0, lengths)

        return function, weights, False

    def cudnn(self):
        shape = self.shape
        if not self.on_gpu:
            raise common.Declined("cuDNN is a GPU's")
        if shape.cell != "lstm" or shape.projection or TYPES[shape.dtype] != jnp.float32:
            raise common.Declined("JAX calls cuDNN for LSTM without projection in float32 and tf32")
        lengths = self.lengths()
        if lengths is None:
            lengths = self.put(numpy.full(shape.batch, shape.time), jnp.int32)
        bidirectional = shape.directions == 2
        count = rnn.get_num_params_in_lstm(shape.input, shape.hidden, shape.layers, bidirectional)
        precision = jax.lax.Precision.HIGH if shape.dtype == "tf32" else jax.lax.Precision.HIGHEST

        def function(weights, x, h0, c0):
            return rnn.lstm(x, h0, c0, weights, lengths, shape.input, shape.hidden, shape.layers, 0.0,
                            bidirectional, precision)

        return function, self.draw(count, limit=shape.hidden ** -0.5), True

    def runner(self, implementation):
        function, weights, batch_first = self.scan() if implementation == "jax-scan" else self.cudnn()

        def with_gradients(weights, inputs, gradients):
            outputs, pull = jax.vjp(function, weights, *inputs)
            return outputs, pull(gradients)

        def forward_alone(weights, inputs, _):
            return function(weights, *inputs)

        compiled = jax.jit(with_gradients if self.backward else forward_alone)
        cache = 50 << 20 if self.on_gpu else common.host_cache_bytes()
        sets = [self.make_set(batch_first) for _ in range(common.set_count(self.shape, cache))]
        run_once = self.timed(compiled, weights, sets)
        try:
            run_once()  # compiles
        except (RuntimeError, NotImplementedError) as error:
            raise common.Declined(str(error).split("\n")[0]) from None
        return run_once

    def timed(self, compiled, weights, sets):
        """A function that runs once, on the next of the sets, and returns milliseconds."""
        kept = [None] * len(sets)  # outputs, so that the next run gets other memory
        turn = [0]

        def run_once():
            turn[0] = (turn[0] + 1) % len(sets)
            with jax.default_matmul_precision(self.precision):  # part of the compiled function's key
                begin = time.perf_counter()
                kept[turn[0]] = jax.block_until_ready(compiled(weights, *sets[turn[0]]))
                return (time.perf_counter() - begin) * 1e3

        return run_once


def check_golden(name):
    """Worst difference of outputs and gradients from a golden file, in float64."""
    golden = json.loads((GOLDENS / f"{name}.json").read_text())
    config, given = golden["config"], golden["in"]
    shape = shape_files.Shape(name, config["cell"], config["time"], config["rows"], config["input"],
                              config["hidden"], config["layers"], config["directions"],
                              config["projection"])
    stack_size = shape.layers * shape.directions

    def tensor(key, *sizes):
        return jnp.asarray(given.get(key, numpy.zeros(sizes)), jnp.float64).reshape(sizes)

    h, c = (stack_size, shape.batch, shape.output), (stack_size, shape.batch, shape.hidden)
    weights = [{key: tensor(f"{key}.{index}", *sizes)
                for key, sizes in weight_shapes(shape, index).items()} for index in range(stack_size)]
    inputs = (tensor("x", shape.time, shape.batch, shape.input), tensor("h0", *h), tensor("c0", *c))
    outputs, pull = jax.vjp(lambda *all_of: stack(shape, *all_of, jnp.asarray(config["lengths"])),
                            weights, *inputs)
    width = shape.directions * shape.output
    found = pull((tensor("d_y", shape.time, shape.batch, width), tensor("d_hn", *h), tensor("d_cn", *c)))
    results = dict(zip(("y", "hn", "cn"), outputs))
    gradients = dict(zip(("x", "h0", "c0"), found[1:]))
    for index in range(stack_size):
        gradients.update({f"{key}.{index}": value for key, value in found[0][index].items()})
    worst = 0.0
    for expected, values in ((golden["out"], results), (golden["grad"], gradients)):
        for key, numbers in expected.items():
            difference = numpy.asarray(values[key]).reshape(-1) - numpy.asarray(numbers)
            worst = max(worst, float(numpy.abs(difference).max()))
    return worst


def check():
    jax.config.update("jax_enable_x64", True)
    for name in CHECKED:
        worst = check_golden(name)
        print(f"{name}: differs by {worst:.1e}")
        if not worst < 1e-9:  # float64, sums of a few dozen numbers of about 1
            sys.exit(f"{name} differs from {GOLDENS / name}.json")


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS)
    try:
        common.measure(arguments, Contest, f"jax {jax.__version__}")
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
