#!/usr/bin/env python3
"""Tests bench/peers: its reading of shape files and what it writes, torch's layers on the CPU, and JAX's where it is installed.

    recurrent_peers.py --check
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PEERS = ROOT / "bench/peers"
sys.path.insert(0, str(PEERS))
sys.dont_write_bytecode = True

import common  # noqa: E402

TINY = """# a comment
tiny cell=gru time=3 batch=2 input=5 hidden=8
ragged time=3 batch=2 input=5 hidden=8 layers=2 directions=2 lengths=uniform seed=7 # behind a line
projected time=4 batch=2 input=5 hidden=8 projection=3 pass=forward
"""
REFUSED = {"a hiden=3": "a:1: hiden", "a time": "key=value", "a time=0": "at least 1",
           "a time=-1": "at least 1", "a time=1.5": "at least 1", "time=3": "start with a name",
           "a lengths=some": "full, uniform", "a directions=3": "1, 2", "a dtype=int8": "float32",
           "a pass=backward": "all, forward", "a cell=gru projection=3": "no projection",
           "a name=b": "no such key", "# nothing": "no shape"}
# What bench/bench_json.cpp writes.
KEYS = {"name", "cell", "time", "batch", "input", "hidden", "layers", "directions", "projection",
        "dtype", "lengths", "seed", "device", "device_model", "pass", "implementation", "peer",
        "default", "milliseconds", "gflops", "error", "speedup_over_peer", "threads", "cpu", "commit"}


def expect(condition, what):
    if not condition:
        sys.exit(f"bench/peers: {what}")


def check_parser(folder):
    path = folder / "a"
    for text, said in REFUSED.items():
        path.write_text(text)
        try:
            common.read_shapes(path)
        except ValueError as error:
            expect(said in str(error), f"'{text}' is refused with '{error}', not with '{said}'")
        else:
            expect(False, f"'{text}' is taken")
    path.write_text("a dtype=bf16\na\n")
    expect([s.dtype for s in common.read_shapes(path)] == ["bfloat16", "float32"], "dtypes")
    expect(len(common.read_shapes(path, dtype="tf32")) == 1, "duplicates stay")
    counts = {p.name: len(common.read_shapes(p)) for p in sorted((ROOT / "bench/shapes").glob("*.shapes"))}
    expect(counts["deepbench.shapes"] == 110, f"{counts}")
    table = common.read_shapes(ROOT / "bench/shapes/named.shapes")[0]
    expect(table.forward_flops() == 2 * 100 * 64 * 2048 * 1024, "FLOPs of table")


def check_program(folder, program, implementation):
    shapes, out = folder / "tiny.shapes", folder / f"{program}.json"
    shapes.write_text(TINY)
    subprocess.run([sys.executable, PEERS / program, "--shapes", shapes, "--json", out, "--repeats", "2",
                    "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
    results = json.loads(out.read_text())
    expect(len(results) == 5, f"{program} wrote {len(results)} results")
    for row in results:
        expect(set(row) == KEYS | {"library"}, f"{program} wrote the keys {sorted(row)}")
        expect(row["implementation"] == implementation and row["peer"] is True, f"{row}")
        expect(row["milliseconds"] > 0 and row["gflops"] > 0, f"{row}")
    sluice = ROOT / "build/sluice"
    if sluice.exists():
        subprocess.run([sluice, "bench", "report", out], check=True, stdout=subprocess.DEVNULL)


def main():
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_parser(folder)
        check_program(folder, "torch_recurrent.py", "torch")
        try:
            import jax  # noqa: F401
        except ImportError:
            print("JAX is not installed: jax_recurrent.py goes untested")
            return
        subprocess.run([sys.executable, PEERS / "jax_recurrent.py", "--check"], check=True)
        check_program(folder, "jax_recurrent.py", "jax-scan")


if __name__ == "__main__":
    main()
