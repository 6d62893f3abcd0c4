#!/usr/bin/env python3
"""Measures sluice.torch's layers beside torch's, Python included, on the shape files of `sluice bench`.

Implementations: sluice and torch, called as they are; sluice+compile and torch+compile, by torch.compile with its defaults, which
leaves torch's recurrent layers out of its graphs; and, on a GPU, sluice+graph and torch+graph, captured in a CUDA graph.
Passes are those of torch_recurrent.py. A result's `ratio` is torch's time divided by Sluice's of the same form.

    python_layers.py --shapes bench/shapes/named.shapes --only table --device cuda --dtype bfloat16 --json layers.json
"""

import sys
import time

import torch

import common
import sluice.torch
import torch_common
import torch_recurrent

IMPLEMENTATIONS = ["sluice", "torch", "sluice+compile", "torch+compile", "sluice+graph", "torch+graph"]
KINDS = {"lstm": sluice.torch.LSTM, "gru": sluice.torch.GRU, "rnn_tanh": sluice.torch.RNN, "rnn_relu": sluice.torch.RNN}


class Contest(torch_recurrent.Contest):
    def prepare(self):
        super().prepare()
        self.own = sluice.torch.replace(torch.nn.Sequential(self.module), verbose=False)[0]

    def runner(self, implementation):
        if self.sets is None:
            self.prepare()
        name, _, form = implementation.partition("+")
        module = self.own if name == "sluice" else self.module
        # Results and gradients before any is timed.
        try:
            if form == "compile":
                torch.compiler.reset()
                module = torch.compile(module)
            if form == "graph":
                graphs = self.capture(module)
                actions = [graph.replay for graph, _ in graphs]
            else:
                actions = [lambda one=one: self.run(one, module) for one in self.sets]
            for _ in range(3):
                actions[0]()
            if self.on_gpu:
                torch.cuda.synchronize()
        except (RuntimeError, NotImplementedError) as error:
            raise common.Declined(str(error).split("\n")[0]) from None
        turn = [0]

        def run_once():
            turn[0] = (turn[0] + 1) % len(actions)
            return self.milliseconds_of(actions[turn[0]])

        return run_once


def host_microseconds(module, x, backward, calls=300):
    """Of one call, while the GPU is behind or idle: what Python and the driver take."""
    weights = list(module.parameters())

    def call():
        y = module(x)[0]
        if backward:
            torch.autograd.grad(y, weights, torch.ones_like(y))

    with torch.set_grad_enabled(backward):
        for _ in range(20):
            call()
        times = []
        for _ in range(calls):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        torch.cuda.synchronize()
    return sorted(times)[calls // 2] * 1e6


def print_host_times():
    """Of a layer so small that the GPU's time does not count."""
    for dtype in (torch.bfloat16, torch.float32):
        reference = torch.nn.LSTM(64, 64, device="cuda", dtype=dtype)
        own = sluice.torch.replace(torch.nn.Sequential(reference), verbose=False)[0]
        x = torch.randn(4, 8, 64, device="cuda", dtype=dtype)
        for backward in (False, True):
            for module in (reference, own):
                module.train(backward)
            ours, torchs = host_microseconds(own, x, backward), host_microseconds(reference, x, backward)
            print(f"host time of a call, LSTM 64, {dtype}, {'forward+backward' if backward else 'forward'}: "
                  f"sluice {ours:.1f} us, torch {torchs:.1f} us")


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS, [])
    try:
        common.measure(arguments, Contest, torch_common.name_and_version(), tuple(KINDS))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    if torch.cuda.is_available():
        print_host_times()


if __name__ == "__main__":
    main()
