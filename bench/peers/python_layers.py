#!/usr/bin/env python3
"""Measures sluice.torch's layers beside torch's, Python included, on the shape files of `sluice bench`.

Each shape is measured in three forms: called as it is; by torch.compile with its defaults, which leaves torch's recurrent layers
out of its graphs (form `compiled`); and, on a GPU, captured in a CUDA graph (form `captured`). Passes are those of
torch_recurrent.py. The error is that of the first set's results against torch's in float64: the largest over results and
gradients of the root of the mean square over that of the expected values.

On a GPU it also measures the host's time for one call (`host_time`, and `host_time_backward` for both passes) beside torch's. The
layer is so small that the GPU's time does not count. It prints what a function takes that only allocates the same results.

    python_layers.py --shapes bench/shapes/named.shapes --only table --device cuda --dtype bfloat16 --json layers.json
"""

import sys
import time

import torch

import common
import sluice.torch
import torch_common
import torch_recurrent
from shape_files import Shape

FORMS = {"": "", "compile": "_compiled", "graph": "_captured"}
IMPLEMENTATIONS = ["sluice", "torch", "sluice+compile", "torch+compile", "sluice+graph", "torch+graph"]


def own_layer(module):
    return sluice.torch.replace(torch.nn.Sequential(module), verbose=False)[0]


class Contest(torch_recurrent.Contest):
    def prepare(self):
        super().prepare()
        self.module.requires_grad_(self.backward)  # Captured inference packs weights only if they may change.
        self.own = own_layer(self.module)
        self.errors = {}
        self.expected = self.results_in_float64()

    def results_in_float64(self):
        one = torch_recurrent.Set.__new__(torch_recurrent.Set)
        for name, value in vars(self.sets[0]).items():
            double = isinstance(value, torch.Tensor) and value.is_floating_point()
            setattr(one, name, value.detach().double().requires_grad_(value.requires_grad) if double else value)
        module, self.module = self.module, self.make_module().double()
        self.module.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
        self.run(one, self.module.train(self.backward))
        self.module = module
        return one.kept

    def actions(self, implementation):
        name, _, form = implementation.partition("+")
        module = self.own if name == "sluice" else self.module
        if form == "compile":
            torch.compiler.reset()
            module = torch.compile(module)
        if form == "graph":
            graphs = self.capture(module)
            graphs[0][0].replay()
            self.errors[implementation] = self.error_of(graphs[0][1])
            return [graph.replay for graph, _ in graphs]
        for _ in range(common.WARM_UP):
            self.run(self.sets[0], module)
        self.errors[implementation] = self.error_of(self.sets[0].kept)
        return [lambda one=one: self.run(one, module) for one in self.sets]

    def error_of(self, found):
        return max(((a.double() - b).square().mean() / b.square().mean()).sqrt().item()
                   for a, b in zip(found, self.expected, strict=True))

    def describe(self, row):
        name, _, form = row["implementation"].partition("+")
        row["name"] += FORMS[form]
        row["peer"], row["default"] = name != "sluice", name == "sluice"
        row["error"] = self.errors[row["implementation"]]


class Floor(torch.autograd.Function):
    """Allocates what a run and its backward return, and does nothing else."""

    @staticmethod
    def forward(ctx, x, *weights):
        results = [torch.empty_like(x) for _ in range(3)]
        ctx.save_for_backward(x, *results, *weights)
        return tuple(results)

    @staticmethod
    def backward(ctx, *_):
        x, _, _, _, *weights = ctx.saved_tensors
        return None, *[torch.empty_like(weight) for weight in weights]


def host_microseconds(call, calls=300):
    """Of one call while the GPU is idle: what Python and the driver take."""
    times = []
    for turn in range(calls + 20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        if turn >= 20:
            times.append((time.perf_counter() - begin) * 1e6)
    torch.cuda.synchronize()
    return common.median(times)


def host_rows():
    rows = []
    for dtype in ("bfloat16", "float32"):
        shape = Shape("host_time", time=4, batch=8, input=64, hidden=64, dtype=dtype)
        layers = {"torch": torch_recurrent.make_module(shape, "cuda")}
        layers["sluice"] = own_layer(layers["torch"])
        x = torch.randn(shape.time, shape.batch, shape.input, device="cuda", dtype=torch_recurrent.TYPES[dtype])
        weights = list(layers["torch"].parameters())
        layers["floor"] = lambda x: Floor.apply(x, *weights)
        for pass_name in common.PASSES:
            backward = pass_name == "forward+backward"
            times = {}
            for name, layer in layers.items():
                if name != "floor":
                    layer.train(backward)

                def call():
                    y = layer(x)[0]
                    if backward:
                        torch.autograd.grad(y, weights, torch.ones_like(y))

                with torch.set_grad_enabled(backward):
                    times[name] = host_microseconds(call)
            print(f"host time of a call, LSTM 64, {dtype}, {pass_name}: " +
                  ", ".join(f"{name} {value:.1f} us" for name, value in times.items()))
            for name in ("sluice", "torch"):
                row = common.result_of(shape, pass_name, name, times[name] / 1e3, "cuda:0", torch.cuda.get_device_name(), 1,
                                       torch_common.name_and_version())
                row["peer"], row["default"] = name != "sluice", name == "sluice"
                row["name"] += "_backward" if backward else ""
                rows.append(row)
    return rows


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS, [])
    try:
        rows = common.measure(arguments, Contest, torch_common.name_and_version(), tuple(torch_recurrent.KINDS))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    if torch.cuda.is_available():
        rows += host_rows()
        if arguments.json:
            common.write_results(arguments.json, rows)


if __name__ == "__main__":
    main()
