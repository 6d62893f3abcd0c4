#!/usr/bin/env python3
"""Measures whole models of ONNX: ONNX Runtime on the file, and Sluice on the model that sluice.convert makes of it.

Each case is a model of torch's, exported by torch.onnx and converted with verify=True. The engines take turns. A turn is a
new process with one engine, all cores of this one and the same rows of equal length: it runs the model a few times, then
measures, and its time is the median of its calls. So no thread of the other engine waits in a loop meanwhile. Times are
medians of the turns, with the shortest and the longest turn beside them; `speedup` is the median over the turns of ONNX
Runtime's time / Sluice's.

    onnx_models.py --json bench/results/epyc/onnx_models.json
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

# Packages that bring threads are imported where they are used: an engine's process has no other engine.

#: name: (module of torch.nn, features, units, layers, directions, outputs, steps, rows)
CASES = {
    "one row, GRU 128, 100 steps": ("GRU", 64, 128, 1, 1, 8, 100, 1),
    "one row, LSTM 2 x 256, 100 steps": ("LSTM", 64, 256, 2, 1, 16, 100, 1),
    "8 rows, BiLSTM 2 x 128, 100 steps": ("LSTM", 64, 128, 2, 2, 16, 100, 8),
    "32 rows, LSTM 256, 50 steps": ("LSTM", 64, 256, 1, 1, 16, 50, 32),
    "32 rows, BiGRU 2 x 128, 200 steps (medaka)": ("GRU", 10, 128, 2, 2, 5, 200, 32),
}
ENGINES = ("onnxruntime", "sluice")
WARM_UP, LEAST_CALLS, LEAST_SECONDS = 3, 15, 0.5


# --- a turn, in its own process ---------------------------------------------------------------------------------------


def open_onnxruntime(folder, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})[0]


def open_sluice(folder, x):
    import sluice

    model = sluice.load(folder / "model")
    rows = [numpy.ascontiguousarray(x[:, row]) for row in range(x.shape[1])]
    return lambda: model.run(rows)


def take_turn(engine, folder):
    """Prints the milliseconds of a call, and writes its output."""
    run = {"onnxruntime": open_onnxruntime, "sluice": open_sluice}[engine](folder, numpy.load(folder / "x.npy"))
    for _ in range(WARM_UP):
        output = run()
    times = []
    while len(times) < LEAST_CALLS or sum(times) < LEAST_SECONDS:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    numpy.save(folder / f"{engine}.npy", output if engine == "onnxruntime" else numpy.stack(output, axis=1))
    print(1e3 * statistics.median(times))


# --- all of them ------------------------------------------------------------------------------------------------------


def make_model(case, folder):
    """model.onnx, its conversion "model" and the input x.npy; says whether the conversion is proved."""
    import torch
    from torch import nn

    import sluice

    module, features, units, layers, directions, outputs, steps, rows = case

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = getattr(nn, module)(features, units, layers, bidirectional=directions == 2)
            self.linear = nn.Linear(units * directions, outputs)

        def forward(self, x):
            return self.linear(self.rnn(x)[0])

    torch.manual_seed(1)
    torch.onnx.export(Model(), (torch.zeros(steps, rows, features),), str(folder / "model.onnx"), dynamo=False,
                      input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "time", 1: "batch"}})
    numpy.save(folder / "x.npy", numpy.random.default_rng(1).normal(size=(steps, rows, features)).astype("f4"))
    return sluice.convert(folder / "model.onnx", folder / "model", verify=True).check.agrees


def milliseconds(engine, folder):
    command = [sys.executable, __file__, "--engine", engine, "--folder", str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(case, folder, turns):
    agrees = make_model(case, folder)
    times = {engine: [] for engine in ENGINES}
    for turn in range(turns):
        for engine in ENGINES if turn % 2 == 0 else ENGINES[::-1]:
            times[engine].append(milliseconds(engine, folder))
    ours, theirs = (numpy.load(folder / f"{engine}.npy") for engine in ("sluice", "onnxruntime"))
    found = {"largest_difference": float(numpy.abs(ours - theirs).max()), "check_agrees": agrees,
             "speedup": statistics.median(a / b for a, b in zip(times["onnxruntime"], times["sluice"], strict=True))}
    for engine, values in times.items():
        found[f"{engine}_ms"] = statistics.median(values)
        found[f"{engine}_ms_of_turns"] = [min(values), max(values)]
    return found


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--json", help="the file to write")
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        return take_turn(arguments.engine, arguments.folder)
    if not arguments.json:
        parser.error("name a file by --json")
    import onnxruntime
    import torch

    import sluice

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    results = {"command": f"bench/peers/onnx_models.py --turns {arguments.turns}", "processor": processor(), "commit": commit,
               "threads": len(os.sched_getaffinity(0)), "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY", ""),
               "onnxruntime": onnxruntime.__version__, "sluice": sluice.__version__, "torch": torch.__version__, "cases": {}}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(case, pathlib.Path(folder), arguments.turns)
        results["cases"][name] = found
        print(f"{name:45} {found['speedup']:5.2f} times ONNX Runtime's speed, {found['largest_difference']:.1e} apart")
    pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
