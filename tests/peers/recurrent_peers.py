#!/usr/bin/env python3
"""Tests bench/peers: its reading of shape files and what it writes, torch's layers, training steps and beam searches on
the CPU, and JAX's layers where it is installed.

    recurrent_peers.py --check
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
PEERS = ROOT / "bench/peers"
sys.path.insert(0, str(PEERS))
sys.dont_write_bytecode = True

import shape_files  # noqa: E402

TINY = """# a comment
tiny cell=gru time=3 batch=2 input=5 hidden=8
ragged time=3 batch=2 input=5 hidden=8 layers=2 directions=2 lengths=uniform seed=7 # behind a line
projected time=4 batch=2 input=5 hidden=8 projection=3 pass=forward
"""
TRAINED = """tiny vocabulary=50 embedding=8 hidden=12 batch=3 source_time=4 target_time=5
gru cell=gru directions=2 attention=multiplicative vocabulary=50 embedding=8 hidden=12 layers=1 dropout=0.1 batch=3
"""
SEARCHED = """tiny vocabulary=12 embedding=16 hidden=24 layers=2 inputs=3 beam=4 steps=30
gru cell=gru vocabulary=9 embedding=8 hidden=12 layers=1 inputs=2 beam=5 steps=6 seed=3
"""
REFUSED = {"a hiden=3": "a:1: hiden", "a time": "key=value", "a time=0": "at least 1",
           "a time=-1": "at least 1", "a time=1.5": "at least 1", "time=3": "start with a name",
           "a lengths=some": "full, uniform", "a directions=3": "1, 2", "a dtype=int8": "float32",
           "a pass=backward": "all, forward", "a cell=gru projection=3": "only the LSTM has a projection",
           "a name=b": "no such key", "# nothing": "no shape"}
# What bench/bench_json.cpp writes of cells with more than their equations, but for the rate of products of matrices and
# the versions of libraries.
KEYS = {"name", "cell", "time", "batch", "input", "hidden", "layers", "directions", "projection",
        "dtype", "lengths", "seed", "device", "device_model", "pass", "implementation", "peer",
        "default", "milliseconds", "gflops", "error", "speedup_over_peer", "threads", "cpu", "commit",
        "reset", "zoneout", "recurrent_dropout", "peepholes", "layer_norm"}
# What bench/train/train_json.cpp writes, likewise.
TRAIN_KEYS = {"name", "cell", "recurrent_cell", "vocabulary", "embedding", "hidden", "layers", "directions",
              "attention", "dropout", "batch", "source_time", "target_time", "dtype", "seed", "device",
              "device_model", "pass", "implementation", "peer", "default", "milliseconds", "pairs_per_second",
              "tokens_per_second", "peak_bytes", "parameters", "loss", "threads", "cpu", "commit"}
# What bench/decode/beam_bench.cpp writes, likewise.
BEAM_KEYS = {"name", "cell", "recurrent_cell", "vocabulary", "embedding", "hidden", "layers", "inputs", "beam", "steps",
             "dtype", "seed", "device", "device_model", "pass", "implementation", "peer", "default", "milliseconds",
             "tokens_per_second", "peak_bytes", "parameters", "best_score", "threads", "cpu", "commit"}
MODELS = ["beam.shapes", "chat.shapes"]  # files with shapes of whole models


def expect(condition, what):
    if not condition:
        sys.exit(f"bench/peers: {what}")


def check_parser(folder):
    path = folder / "a"
    for text, said in REFUSED.items():
        path.write_text(text)
        try:
            shape_files.read_shapes(path)
        except ValueError as error:
            expect(said in str(error), f"'{text}' is refused with '{error}', not with '{said}'")
        else:
            expect(False, f"'{text}' is taken")
    path.write_text("a dtype=bf16\na\n")
    expect([s.dtype for s in shape_files.read_shapes(path)] == ["bfloat16", "float32"], "dtypes")
    expect(len(shape_files.read_shapes(path, dtype="tf32")) == 1, "duplicates stay")
    counts = {p.name: len(shape_files.read_shapes(p))
              for p in sorted((ROOT / "bench/shapes").glob("*.shapes")) if p.name not in MODELS}
    expect(counts["deepbench.shapes"] == 110, f"{counts}")
    table = shape_files.read_shapes(ROOT / "bench/shapes/named.shapes")[0]
    expect(table.forward_flops() == 2 * 100 * 64 * 2048 * 1024, "FLOPs of table")


def run_program(folder, program, text):
    shapes, out = folder / "tiny.shapes", folder / f"{program}.json"
    shapes.write_text(text)
    subprocess.run([sys.executable, PEERS / program, "--shapes", shapes, "--json", out, "--repeats", "2",
                    "--device", "cpu"], check=True, stdout=subprocess.DEVNULL)
    sluice = ROOT / "build/sluice"
    if sluice.exists():
        subprocess.run([sluice, "bench", "report", out], check=True, stdout=subprocess.DEVNULL)
    return json.loads(out.read_text())


def check_program(folder, program, implementation, count=5):
    results = run_program(folder, program, TINY)
    expect(len(results) == count, f"{program} wrote {len(results)} results")
    for row in results:
        expect(set(row) == KEYS | {"library"}, f"{program} wrote the keys {sorted(row)}")
        expect(row["implementation"] == implementation and row["peer"] is True, f"{row}")
        expect(row["milliseconds"] > 0 and row["gflops"] > 0, f"{row}")


def check_turns(folder, peers):
    """Sluice and peers by turns, which compute the same: turns.py ends with an error otherwise."""
    sluice = ROOT / "build/sluice"
    if not sluice.exists():
        print("build/sluice is not there: turns.py goes untested")
        return
    shapes, out = folder / "turns.shapes", folder / "turns.json"
    shapes.write_text(TINY.replace(" pass=forward", "") + "stream cell=gru time=5 batch=1 input=5 hidden=8\n")
    for passes, count in (("all", 8), ("step", 1)):
        subprocess.run([sys.executable, PEERS / "turns.py", "--shapes", shapes, "--json", out, "--repeats", "2",
                        "--device", "cpu", "--pass", passes, "--peers", ",".join(peers), "--own", "auto"],
                       check=True, stdout=subprocess.DEVNULL)
        rows = json.loads(out.read_text())
        own = [row for row in rows if not row["peer"]]
        expect(len(own) == count, f"turns.py ran Sluice on {len(own)} of {count}")
        expect(all(row["speedup_over_peer"] > 0 and row["milliseconds"] > 0 for row in rows), f"{rows}")
        for peer in peers:
            errors = [row["error"] for row in rows if row["implementation"] == peer]
            expect(errors and 0 < max(errors) < 1e-4, f"{peer} is off by {errors}")
        subprocess.run([sluice, "bench", "report", out], check=True, stdout=subprocess.DEVNULL)


def check_training(folder):
    results = run_program(folder, "torch_seq2seq_train.py", TRAINED)
    expect([row["name"] for row in results] == ["tiny", "gru"], f"{results}")
    for row in results:
        expect(set(row) == TRAIN_KEYS | {"library"}, f"the keys {sorted(row)}")
        expect(row["milliseconds"] > 0 and abs(row["loss"] - math.log(50)) < 1, f"{row}")


def check_searches(folder):
    """With the same initial weights Sluice finds the same."""
    results = run_program(folder, "torch_beam_search.py", SEARCHED)
    expect([row["name"] for row in results] == ["tiny", "gru"], f"{results}")
    for row in results:
        expect(set(row) == BEAM_KEYS | {"library"}, f"the keys {sorted(row)}")
        expect(row["milliseconds"] > 0, f"{row}")
    sluice, out = ROOT / "build/sluice", folder / "own.json"
    if not sluice.exists():
        return
    subprocess.run([sluice, "bench", "beam", "--shapes", folder / "tiny.shapes", "--repeats", "1", "--json", out],
                   check=True, stdout=subprocess.DEVNULL)
    for own, row in zip(json.loads(out.read_text()), results):
        expect(set(own) == BEAM_KEYS, f"the keys {sorted(own)}")
        expect(math.isclose(own["best_score"], row["best_score"], rel_tol=1e-5), f"{own} and {row}")


def check_configurations(folder):
    """Steps of a training configuration, on ids as `sluice data ids` writes them."""
    (folder / "train.ids").write_text("# vocabulary 9 9\n" + "2 5 6\t5 6 3\n2 7\t7 3\n" * 4)
    config, out = folder / "texts.json", folder / "texts.out.json"
    config.write_text(json.dumps({
        "model": {"kind": "language_model", "embedding": 4, "hidden": 6, "layers": 2},
        "training": {"max_tokens": 12}}))
    subprocess.run([sys.executable, PEERS / "torch_config_train.py", "--config", config, "--ids", folder,
                    "--batches", "2", "--repeats", "2", "--json", out],
                   check=True, stdout=subprocess.DEVNULL)
    (row,) = json.loads(out.read_text())
    expect(row["name"] == "texts" and row["cell"] == "language_model" and row["batches"] == 2, f"{row}")
    expect(row["source_tokens"] == 0 and row["target_tokens"] > row["examples"] > 0, f"{row}")
    expect(row["milliseconds"] > 0 and abs(row["loss"] - math.log(9)) < 1, f"{row}")
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
        check_training(folder)
        check_searches(folder)
        check_configurations(folder)
        try:
            import onnxruntime  # noqa: F401
        except ImportError:
            print("ONNX Runtime is not installed: onnx_recurrent.py goes untested")
            check_turns(folder, ["torch"])
        else:
            check_program(folder, "onnx_recurrent.py", "onnxruntime", 2)
            check_turns(folder, ["torch", "onnxruntime"])
        try:
            import jax  # noqa: F401
        except ImportError:
            print("JAX is not installed: jax_recurrent.py goes untested")
            return
        subprocess.run([sys.executable, PEERS / "jax_recurrent.py", "--check"], check=True)
        check_program(folder, "jax_recurrent.py", "jax-scan")


if __name__ == "__main__":
    main()
