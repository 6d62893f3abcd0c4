#!/usr/bin/env python3
"""Measures whole models of ONNX: ONNX Runtime on the file, and Sluice on the model that sluice.convert makes of it.

Each case is a model of torch's, exported by torch.onnx, converted with verify=True, and run by both on the same rows of
equal length, by turns in one process. Both use all threads. Times are medians of the turns; `speedup` is the median over
the turns of ONNX Runtime's time / Sluice's.

    onnx_models.py --json bench/results/epyc/onnx_models.json
"""

import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
import torch
from torch import nn

import sluice

#: name: (module, features, units, layers, directions, outputs, steps, rows)
CASES = {
    "one row, GRU 128, 100 steps": (nn.GRU, 64, 128, 1, 1, 8, 100, 1),
    "one row, LSTM 2 x 256, 100 steps": (nn.LSTM, 64, 256, 2, 1, 16, 100, 1),
    "8 rows, BiLSTM 2 x 128, 100 steps": (nn.LSTM, 64, 128, 2, 2, 16, 100, 8),
    "32 rows, LSTM 256, 50 steps": (nn.LSTM, 64, 256, 1, 1, 16, 50, 32),
    "32 rows, BiGRU 2 x 128, 200 steps (medaka)": (nn.GRU, 10, 128, 2, 2, 5, 200, 32),
}
PAUSE = 0.15  # seconds; ONNX Runtime spins for some 40 ms, which slows whoever runs next


class Model(nn.Module):
    def __init__(self, module, features, units, layers, directions, outputs):
        super().__init__()
        self.rnn = module(features, units, layers, bidirectional=directions == 2)
        self.linear = nn.Linear(units * directions, outputs)

    def forward(self, x):
        return self.linear(self.rnn(x)[0])


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(case, folder, turns):
    module, features, units, layers, directions, outputs, steps, rows = case
    torch.manual_seed(1)
    file = str(folder / "model.onnx")
    torch.onnx.export(Model(module, features, units, layers, directions, outputs), (torch.zeros(steps, rows, features),), file,
                      dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "time", 1: "batch"}})
    checked = sluice.convert(file, folder / "model", verify=True).check
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    ours = sluice.load(folder / "model")
    x = numpy.random.default_rng(1).normal(size=(steps, rows, features)).astype("f4")
    list_of_rows = [numpy.ascontiguousarray(x[:, row]) for row in range(rows)]
    run_theirs = lambda: session.run(None, {"x": x})[0]
    run_ours = lambda: ours.run(list_of_rows)
    error = float(numpy.abs(numpy.stack(run_ours(), axis=1) - run_theirs()).max())
    times = {"onnxruntime": [], "sluice": []}
    for turn in range(turns + 1):
        for name, work in (("onnxruntime", run_theirs), ("sluice", run_ours)):
            time.sleep(PAUSE)
            seconds = timed(work)
            if turn > 0:
                times[name].append(seconds)
    ratios = [theirs / own for theirs, own in zip(times["onnxruntime"], times["sluice"])]
    return {"largest_difference": error, "check_agrees": checked.agrees, "speedup": statistics.median(ratios),
            **{f"{name}_ms": 1e3 * statistics.median(values) for name, values in times.items()}}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json", required=True)
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    results = {"command": f"bench/peers/onnx_models.py --turns {arguments.turns}", "processor": processor(), "commit": commit,
               "onnxruntime": onnxruntime.__version__, "sluice": sluice.__version__, "torch": torch.__version__, "cases": {}}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(case, pathlib.Path(folder), arguments.turns)
        results["cases"][name] = found
        print(f"{name:45} {found['speedup']:5.2f} times ONNX Runtime's speed, {found['largest_difference']:.1e} apart")
    pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
