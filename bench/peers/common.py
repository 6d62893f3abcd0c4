"""What the peers share: shape files, the turns in which implementations are measured, and the JSON of `sluice bench`."""

import argparse
import dataclasses
import glob
import json
import os
import pathlib
import subprocess
import sys

DTYPES = ["float32", "tf32", "bfloat16", "float16"]
SHORT = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
PASSES = ["forward", "forward+backward"]
WARM_UP = 3
MOST_BYTES = 1 << 30  # of all copies of the inputs of a shape
MOST_SETS = 64


# Blocks of weights of a cell.
GATES = {"lstm": 4, "gru": 3, "gru_reset_before": 3, "rnn_tanh": 1, "rnn_relu": 1}


class Declined(Exception):
    """Why an implementation doesn't run a shape."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A line of a shape file; bench/shape_file.h explains the keys."""

    # What a key's text may be, and the least a number may be where that is not 1.
    CHOICES = {"cell": list(GATES), "dtype": DTYPES, "lengths": ["full", "uniform"],
               "pass": ["all", "forward"], "directions": ["1", "2"],
              "peepholes": ["on", "off"], "layer_norm": ["on", "off"]}
    LEAST = {"projection": 0, "seed": 0}

    name: str
    cell: str = "lstm"
    time: int = 100
    batch: int = 64
    input: int = 512
    hidden: int = 512
    layers: int = 1
    directions: int = 1
    projection: object = 0  # or a tuple, one of each layer
    dtype: str = "float32"
    lengths: str = "full"
    seed: int = 1
    device: str = "cpu"
    passes: str = "all"  # the key `pass`
    reset: float = 0.0
    zoneout: float = 0.0
    recurrent_dropout: float = 0.0
    peepholes: str = "off"
    layer_norm: str = "off"

    def check(self):
        if self.projection and self.cell != "lstm":
            raise ValueError("only the LSTM has a projection")
        if self.is_uneven and len(self.projection) != self.layers:
            raise ValueError(f"{len(self.projection)} projections given for {self.layers} layers")

    @property
    def has_extras(self):
        """Whether cells have more than their equations, which no peer's have."""
        rates = self.reset or self.zoneout or self.recurrent_dropout
        return bool(rates or self.peepholes == "on" or self.layer_norm == "on")

    @property
    def gates(self):
        return GATES[self.cell]

    @property
    def is_uneven(self):
        """Whether each layer has a projection of its own, which no library's stack has."""
        return isinstance(self.projection, tuple)

    @property
    def output(self):
        return self.projection or self.hidden

    def input_of(self, layer):
        return self.input if layer == 0 else self.directions * self.output

    def forward_flops(self):
        flops = 0
        for layer in range(self.layers):
            products = self.gates * self.hidden * (self.input_of(layer) + self.output)
            flops += self.directions * (products + self.projection * self.hidden)
        return 2 * self.time * self.batch * flops

    def set_bytes(self):
        """Bytes of x, dx, y and dy."""
        width = 2 if self.dtype in ("bfloat16", "float16") else 4
        return 2 * width * self.time * self.batch * (self.input + self.directions * self.output)


def parse_value(kind, key, text):
    """The value of a key of the dataclass `kind`, whose field `passes` is the key `pass`."""
    types = {"pass" if field.name == "passes" else field.name: field.type
             for field in dataclasses.fields(kind) if field.name != "name"}
    if key not in types:
        raise ValueError("there is no such key")
    text = SHORT.get(text, text) if key == "dtype" else text
    if key == "projection" and "," in text:
        widths = tuple(parse_value(kind, "hidden", part) for part in text.split(","))
        return widths if len(set(widths)) > 1 else widths[0]
    if key in kind.CHOICES and text not in kind.CHOICES[key]:
        raise ValueError(f"'{text}' is none of {', '.join(kind.CHOICES[key])}")
    if types[key] not in (int, object):
        return types[key](text)
    least = kind.LEAST.get(key, 1)
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise ValueError(f"'{text}' is not an integer of at least {least}")
    return int(text)


def parse_line(kind, words, place):
    if "=" in words[0]:
        raise ValueError(f"{place}: the line must start with a name, not with '{words[0]}'")
    values = {}
    for word in words[1:]:
        key, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"{place}: '{word}' is not of the form key=value")
        try:
            values["passes" if key == "pass" else key] = parse_value(kind, key, text)
        except ValueError as error:
            raise ValueError(f"{place}: {key}: {error}") from None
    shape = kind(words[0], **values)
    try:
        shape.check()
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return shape


def read_shapes(path, dtype=None, device=None, kind=Shape):
    """The shapes of a file, each with `dtype` and `device` instead of its own if given; no duplicates."""
    shapes = []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        changes = {key: value for key, value in (("dtype", dtype), ("device", device)) if value}
        shape = dataclasses.replace(parse_line(kind, words, f"{path}:{number}"), **changes)
        if shape not in shapes:
            shapes.append(shape)
    if not shapes:
        raise ValueError(f"{path} holds no shape")
    return shapes


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


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ", 1)[1]
    return "unknown"


def commit():
    """Of the benchmark, as `sluice bench` says it."""
    command = ["git", "-C", str(pathlib.Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        said = ""
    return said or "unknown"


def result_of(shape, pass_name, implementation, milliseconds, device, device_model, threads, library):
    """An object with the keys of `sluice bench`, and the library's version."""
    row = {key: value for key, value in dataclasses.asdict(shape).items() if key != "passes"}
    flops = shape.forward_flops() * (1 if pass_name == "forward" else 3)
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


def read_arguments(parser, implementations):
    arguments = parser.parse_args()
    arguments.implementations = (implementations if arguments.impl == "all"
                                 else arguments.impl.split(","))
    for name in arguments.implementations:
        if name not in implementations:
            parser.error(f"unknown implementation '{name}'; known are {', '.join(implementations)}")
    if arguments.repeats < 1:
        parser.error("--repeats must be at least 1")
    return arguments


def parse_arguments(description, implementations):
    parser = argument_parser(description, implementations)
    parser.add_argument("--cell", choices=[*GATES, "all"], default="all")
    parser.add_argument("--pass", dest="passes", choices=["all"] + PASSES, default="all")
    return read_arguments(parser, implementations)


def measure(arguments, contest_of, library, cells=("lstm", "gru")):
    """Runs every shape and pass, prints a row for each implementation and writes the JSON.

    contest_of(shape, pass) gives an object with `device`, `device_model`, `threads` and
    `runner(implementation)`, which returns a function that runs once and returns milliseconds, or
    raises Declined. `cells` are those that the library has. If it has refuse(shape), that says why
    it doesn't run a shape.
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
        print(f"{shape.name:<22} {shape.dtype:<9} {pass_name:<17} {name:<25} "
              f"{row['milliseconds']:>10.3f} {row['gflops']:>9.1f}", flush=True)
        rows.append(row)
    return rows
