#!/usr/bin/env python3
"""Measures Sluice and peers by turns in one run, on the same numbers, for `sluice bench report`.

Sluice runs as a process of its own (`sluice bench turns`), which this script tells when to run. It writes each
shape's inputs, weights and results; the peers take them, and how far their results are from Sluice's is printed and
written (error: relative RMS error, the worst of outputs and gradients). Then all run in turn, once to warm up and once
timed, with a pause in between for threads that still spin. Times are medians; speedup_over_peer is the median over the
turns of the fastest peer's time / own time in the same turn, which the report takes.

Peers: onnxruntime (forward, step), torch, torch+graph, torch+compile; jax-scan and jax-cudnn without comparing numbers.
sluice.numpy and sluice.torch (step) take turns too, but count as Sluice's own; PYTHONPATH names a folder with the package.
Among --own, names with commas between, may be `onednn`, which Sluice itself calls and which counts as a peer.

Passes: forward, forward+backward, all (those two) or step: one call for each time step of a stream, through
FeatureModel::run_part of Sluice.

    turns.py --peers onnxruntime,torch --own auto,onednn --shapes bench/shapes/cpu.shapes --dtype float32 --json cpu.json
    turns.py --peers onnxruntime,torch --pass step --shapes bench/shapes/steps.shapes --json steps.json
"""

import dataclasses
import importlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import numpy

import common
from shape_files import GATES, Shape, read_shapes

MODULES = {"onnxruntime": "onnx_recurrent", "torch": "torch_recurrent", "torch+graph": "torch_recurrent",
           "torch+compile": "torch_recurrent", "sluice.numpy": "python_steps", "sluice.torch": "python_steps",
           "jax-scan": "jax_recurrent", "jax-cudnn": "jax_recurrent"}
PASSES = [*common.PASSES, "step"]
CALLS = 1000  # of a step in a turn
PAUSE = 0.15  # seconds; ONNX Runtime 1.32 spins for some 40 ms, which slows whoever runs next by as much as twice
# Sums of float32 in another order; of 16 bits, storage of that many bits between layers and steps.
FARTHEST = {"float32": 1e-4, "tf32": 1e-2, "bfloat16": 5e-2, "float16": 1e-2}
SAFETENSORS = {"F32": numpy.float32, "I32": numpy.int32}


def read_tensors(path):
    """A safetensors file as arrays by name."""
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = numpy.frombuffer(data[begin:end], SAFETENSORS[entry["dtype"]]).copy()
    return tensors


def line_of(shape):
    """As it stands in a shape file."""
    words = [shape.name]
    for field in dataclasses.fields(Shape):
        value = getattr(shape, field.name)
        if field.name == "name" or value == field.default:
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(f"{'pass' if field.name == 'passes' else field.name}={text}")
    return " ".join(words)


class Sluice:
    """The process that runs Sluice's part of each turn."""

    def __init__(self, program, onednn_isa):
        limits = {"ONEDNN_MAX_CPU_ISA": onednn_isa} if onednn_isa else {}
        self.process = subprocess.Popen([program, "bench", "turns"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env={**os.environ, **limits})

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"'sluice bench turns' ended at '{command}'")
        answer = json.loads(answer)
        if "error" in answer:
            raise common.Declined(answer["error"])
        return answer

    def open(self, file, pass_name, implementations, shape):
        return self.ask(f"open {file} {pass_name} {implementations} {line_of(shape)}")["rows"]

    def run(self, index, count):
        return self.ask(f"run {index} {count}")["milliseconds"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def error_of(found, expected):
    """The worst relative RMS error of what both have."""
    worst = 0.0
    for name, values in found.items():
        if name not in expected:
            sys.exit(f"a peer has {name}, which Sluice did not write")
        difference = numpy.linalg.norm(values.astype(numpy.float64) - expected[name])
        norm = numpy.linalg.norm(expected[name].astype(numpy.float64))
        error = difference / norm if norm else float(difference != 0)
        worst = error if math.isnan(error) else max(worst, error)
    return worst


class Peer:
    """One implementation of a peer on a shape and pass."""

    def __init__(self, name, shape, pass_name, tensors):
        module = importlib.import_module(MODULES[name])
        if reason := getattr(module.Contest, "refuse", common.refuse_extras)(shape):
            raise common.Declined(reason)
        if pass_name != "forward" and name.startswith("jax") or pass_name == "forward+backward" and name == "onnxruntime":
            raise common.Declined(f"it has no {pass_name} here")
        self.name = name
        self.contest = module.Contest(shape, pass_name)
        compares = hasattr(self.contest, "use")
        if compares:
            self.contest.use(tensors)
        self.runner = self.contest.runner(name)
        self.error = error_of(self.contest.results(), tensors) if compares else None
        if pass_name == "step":
            self.contest.calls = CALLS
        self.version = module.name_and_version() if hasattr(module, "name_and_version") else name

    def run(self):
        self.runner()
        return self.runner()


def take_turns(entrants, repeats):
    """[entrant][turn], milliseconds."""
    times = [[] for _ in entrants]
    for _ in range(repeats):
        for i, run in enumerate(entrants):
            time.sleep(PAUSE)
            times[i].append(run())
    return times


def measure_one(arguments, sluice, shape, pass_name, file):
    own = sluice.open(file, pass_name, "auto" if pass_name == "step" else arguments.own, shape)
    tensors = read_tensors(file)
    peers = []
    for name in arguments.peers:
        try:
            peers.append(Peer(name, shape, pass_name, tensors))
        except common.Declined as error:
            print(f"# {shape.name} {pass_name}: {name} declines: {error}")
    count = CALLS if pass_name == "step" else 2
    entrants = [lambda i=i: sluice.run(i, count) for i in range(len(own))] + [peer.run for peer in peers]
    times = take_turns(entrants, arguments.repeats)
    rows = own + [common.result_of(shape, pass_name, peer.name, 1.0, own[0]["device"], own[0]["device_model"],
                                   own[0]["threads"], peer.version) for peer in peers]
    for peer, row in zip(peers, rows[len(own):]):
        row["error"] = peer.error
        row["peer"] = not peer.name.startswith("sluice.")
    of_peers = [times[i] for i, row in enumerate(rows) if row["peer"]]
    best = [min(turn) for turn in zip(*of_peers)]
    for row, own_times in zip(rows, times):
        row["gflops"] *= row["milliseconds"]
        row["milliseconds"] = common.median(own_times)
        row["gflops"] /= row["milliseconds"]
        if best:
            row["turns"] = arguments.turns
            row["speedup_over_peer"] = common.median([b / t for b, t in zip(best, own_times)])
        print_row(row)
    for peer in peers:
        if peer.error is not None and not peer.error < FARTHEST[shape.dtype]:
            sys.exit(f"{shape.name} {pass_name}: {peer.name} is {peer.error:.1e} from Sluice, more than rounding "
                     f"explains ({FARTHEST[shape.dtype]:.0e}): they don't compute the same")
    return rows


def print_row(row):
    def optional(value, form):
        return "-" if value is None else format(value, form)

    mark = " (peer)" if row["peer"] else " *" if row["default"] else ""
    print(f"{row['name']:<20} {row['cell']:<5} {row['dtype']:<9} {row['pass']:<17} {row['implementation'] + mark:<22} "
          f"{row['milliseconds']:>11.5f} {row['gflops']:>8.1f} {optional(row['error'], '.1e'):>8} "
          f"{optional(row['speedup_over_peer'], '.2f'):>8}", flush=True)


def parse_arguments():
    parser = common.argument_parser(__doc__, ["(see --peers)"])
    parser.add_argument("--peers", default="onnxruntime,torch", help="names with commas between: " + ", ".join(MODULES))
    parser.add_argument("--own", default="auto", help="Sluice's implementations, as --impl of `sluice bench lstm`")
    parser.add_argument("--onednn-isa", metavar="ISA", help="limits oneDNN to an instruction set, such as AVX2")
    parser.add_argument("--cell", choices=[*GATES, "all"], default="all")
    parser.add_argument("--pass", dest="passes", choices=["all"] + PASSES, default="all")
    parser.add_argument("--sluice", default=pathlib.Path(__file__).parents[2] / "build/sluice",
                        help="the program (build/sluice)")
    arguments = parser.parse_args()
    arguments.peers = arguments.peers.split(",")
    for name in arguments.peers:
        if name not in MODULES:
            parser.error(f"unknown peer '{name}'; known are {', '.join(MODULES)}")
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    if not os.access(arguments.sluice, os.X_OK):
        parser.error(f"'{arguments.sluice}' can't be run; build the project, or name the program by --sluice")
    arguments.turns = f"turns of {time.strftime('%Y-%m-%d %H:%M:%S')}"
    return arguments


def passes_of(arguments, shape):
    if arguments.passes == "step":
        return ["step"]
    return [name for name in (common.PASSES if shape.passes == "all" else common.PASSES[:1])
            if arguments.passes in ("all", name)]


def main():
    arguments = parse_arguments()
    results = []
    sluice = Sluice(arguments.sluice, arguments.onednn_isa)
    print(f"{'shape':<20} {'cell':<5} {'dtype':<9} {'pass':<17} {'*=default':<22} {'ms':>11} {'GFLOP/s':>8} "
          f"{'error':>8} {'vs peer':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in read_shapes(arguments.shapes, arguments.dtype, arguments.device):
            if arguments.cell not in ("all", shape.cell) or shape.name not in (arguments.only or [shape.name]):
                continue
            for pass_name in passes_of(arguments, shape):
                try:
                    results += measure_one(arguments, sluice, shape, pass_name, f"{folder}/tensors.safetensors")
                except common.Declined as error:
                    print(f"# {shape.name} {pass_name}: Sluice declines: {error}")
                if arguments.json and results:
                    common.write_results(arguments.json, results)
    sluice.close()
    if not results:
        sys.exit(f"{arguments.shapes} holds no shape that could run")


if __name__ == "__main__":
    main()
