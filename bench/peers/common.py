"""What the peers share: the turns in which implementations are measured, and the JSON of `sluice bench`."""

import argparse
import dataclasses
import glob
import json
import os
import pathlib
import subprocess
import sys

from shape_files import DTYPES, GATES, read_shapes

PASSES = ["forward", "forward+backward"]
WARM_UP = 3
MOST_BYTES = 1 << 30  # of all copies of the inputs of a shape
MOST_SETS = 64


class Declined(Exception):
    """Why an implementation doesn't run a shape."""


def host_cache_bytes():
    """Bytes of the largest cache of the first core."""
    sizes = [32 << 20]
    for path in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        text = pathlib.Path(path).read_text().strip()
        if text.endswith("K"):
            sizes.append(int(text[:-1]) << 10)
    return max(sizes)


def set_count(shape, cache_bytes):
    """Copies of inputs and outputs that take twice the cache, so that no run finds its own in there."""
    bytes_of_one = shape.set_bytes()
    return max(1, min(MOST_BYTES // bytes_of_one, 1 + 2 * cache_bytes // bytes_of_one, MOST_SETS))


def median(values):
    values, middle = sorted(values), len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def thread_count():
    """Threads of the CPU, as OpenMP would take them."""
    named = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    return int(named) if named.isdigit() and int(named) > 0 else len(os.sched_getaffinity(0))


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ", 1)[1]
    return "unknown"


def commit():
    """Of the benchmark, as `sluice bench` says it; ./dev headline says it where git can't."""
    if os.environ.get("SLUICE_COMMIT"):
        return os.environ["SLUICE_COMMIT"]
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        said = ""
    return said or "unknown"


def result_of(shape, pass_name, implementation, milliseconds, device, device_model, threads, library):
    """An object with the keys of `sluice bench`, and the library's version."""
    row = {key: value for key, value in dataclasses.asdict(shape).items() if key != "passes"}
    flops = shape.forward_flops() * (3 if pass_name == "forward+backward" else 1)
    if pass_name == "step":  # of one
        flops /= shape.time
    row.update({"device": device, "device_model": device_model, "pass": pass_name,
                "implementation": implementation, "peer": True, "default": False,
                "milliseconds": milliseconds, "gflops": flops / milliseconds * 1e-6, "error": None,
                "speedup_over_peer": None, "threads": threads, "cpu": cpu_model(),
                "commit": commit(), "library": library})
    return row


def write_results(path, results):
    """Whole or not at all; after each shape, so that a run that is cut short leaves what it has."""
    aside = f"{path}.part"
    with open(aside, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    os.replace(aside, path)


def argument_parser(description, implementations):
    """The arguments that all peers have; `read_arguments` reads them."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", required=True, help="shape file, see bench/shapes/")
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--device", help="cpu, cuda or cuda:N instead of what the shape file says")
    parser.add_argument("--dtype", choices=DTYPES, help="instead of what the shape file says")
    parser.add_argument("--only", action="append", metavar="NAME", help="only shapes of this name")
    parser.add_argument("--impl", default="all", help="all, or some of " + ", ".join(implementations))
    parser.add_argument("--repeats", type=int, default=15, help="timed turns")
    return parser


def read_arguments(parser, implementations, named=()):
    """`named`: implementations that "all" leaves out."""
    arguments = parser.parse_args()
    arguments.implementations = (implementations if arguments.impl == "all"
                                 else arguments.impl.split(","))
    for name in arguments.implementations:
        if name not in (*implementations, *named):
            parser.error(f"unknown implementation '{name}'; known are {', '.join([*implementations, *named])}")
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    return arguments


def run_shapes(arguments, shapes, run, row_text):
    """run(shape, implementation, repeats) -> a row, for each of the shapes and implementations that
    were asked for; prints row_text(row) behind their names, and writes rows to --json as they come."""
    results = []
    for shape in shapes:
        if shape.name not in (arguments.only or [shape.name]):
            continue
        for implementation in arguments.implementations:
            try:
                row = run(shape, implementation, arguments.repeats)
            except Declined as error:
                print(f"# {shape.name}: {implementation} declines: {error}")
                continue
            print(f"{shape.name:<16} {shape.dtype:<9} {implementation:<30} {row_text(row)}", flush=True)
            results.append(row)
            if arguments.json:
                write_results(arguments.json, results)
    if not results:
        sys.exit(f"{arguments.shapes} holds no shape that could run")


def parse_arguments(description, implementations, named=()):
    parser = argument_parser(description, implementations)
    parser.add_argument("--cell", choices=[*GATES, "all"], default="all")
    parser.add_argument("--pass", dest="passes", choices=["all"] + PASSES, default="all")
    return read_arguments(parser, implementations, named)


def measure(arguments, contest_of, library, cells=("lstm", "gru")):
    """Runs every shape and pass, prints a row for each implementation and writes the JSON.

    contest_of(shape, pass) gives an object with `device`, `device_model`, `threads` and
    `runner(implementation)`, which returns a function that runs once and returns milliseconds, or
    raises Declined. If it has describe(row), that adds to a row; if it has refuse(shape), that says
    why it doesn't run a shape. `cells` are those that the library has.
    """
    results = []
    print(f"{'shape':<22} {'dtype':<9} {'pass':<17} {library:<25} {'ms':>10} {'GFLOP/s':>9}")
    for shape in read_shapes(arguments.shapes, arguments.dtype, arguments.device):
        if arguments.cell not in ("all", shape.cell) or shape.name not in (arguments.only or [shape.name]):
            continue
        if shape.cell not in cells:
            print(f"# {shape.name}: {library} has no {shape.cell}")
            continue
        if shape.is_uneven:
            print(f"# {shape.name}: no library has stacks whose layers differ in width")
            continue
        for pass_name in PASSES if shape.passes == "all" else PASSES[:1]:
            if arguments.passes in ("all", pass_name):
                results += measure_one(arguments, contest_of, library, shape, pass_name)
                if arguments.json:
                    write_results(arguments.json, results)
    if not results:
        sys.exit(f"{arguments.shapes} holds no shape that could run")
    return results


def refuse_extras(shape):
    """Why a library's layers don't run a shape, if they don't."""
    return "its cells have nothing beside their equations" if shape.has_extras else None


def measure_one(arguments, contest_of, library, shape, pass_name):
    reason = contest_of.refuse(shape) if hasattr(contest_of, "refuse") else refuse_extras(shape)
    if reason:
        print(f"# {shape.name} {pass_name}: {library} declines: {reason}")
        return []
    runners = {}
    contest = contest_of(shape, pass_name)
    for name in arguments.implementations:
        try:
            runner = contest.runner(name)
            for _ in range(WARM_UP):
                runner()
            runners[name] = runner
        except Declined as error:
            print(f"# {shape.name} {pass_name}: {name} declines: {error}")
    times = {name: [] for name in runners}
    for _ in range(arguments.repeats):
        for name, runner in runners.items():
            times[name].append(runner())
    rows = []
    for name in runners:
        row = result_of(shape, pass_name, name, median(times[name]), contest.device,
                        contest.device_model, contest.threads, library)
        if hasattr(contest, "describe"):
            contest.describe(row)
        print(f"{row['name']:<22} {shape.dtype:<9} {pass_name:<17} {name:<25} "
              f"{row['milliseconds']:>10.3f} {row['gflops']:>9.1f}", flush=True)
        rows.append(row)
    return rows
