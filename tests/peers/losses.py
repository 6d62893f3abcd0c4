"""What the scripts of first losses have in common: start, data's generator, training loop, golden file.

Each case of such a script names its own architecture, initial weights, data, optimiser and clipping
in the golden file, so that a test of tests/unit/models can train the same model and compare every
loss. Run with --check they compute again and compare with the file.
"""

import argparse
import json
import pathlib

import numpy
import torch

STEPS = 100
# Blocks of a cell's weights.
GATES = dict(lstm=4, gru=3, gru_reset_before=3, rnn_tanh=1, rnn_relu=1)


class Numbers:
    """A linear congruential generator of a batch's data."""

    def __init__(self, batch):
        self.state = (1000003 * (batch + 1) + 17) % 2147483647

    def draw(self, below):
        self.state = self.state * 48271 % 2147483647
        return self.state % below


def philox(key, counter0, counter1):
    """Philox4x32-10 of counters (counter0, counter1, 0, 0): uint32 [n, 4]."""
    mask = numpy.uint64(0xFFFFFFFF)
    c = [counter0.astype(numpy.uint64), counter1.astype(numpy.uint64),
         numpy.zeros_like(counter0, dtype=numpy.uint64),
         numpy.zeros_like(counter0, dtype=numpy.uint64)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0 = numpy.uint64(0xD2511F53) * c[0]
        p1 = numpy.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> numpy.uint64(32)) ^ c[1] ^ numpy.uint64(k0), p1 & mask,
             (p0 >> numpy.uint64(32)) ^ c[3] ^ numpy.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return numpy.stack(c, axis=1)


def uniform(name, shape, limit, seed):
    """The start of a parameter as layers::Parameters::initialize draws it: Philox keyed by seed and name."""
    count = int(numpy.prod(shape))
    if limit == 0:
        return torch.zeros(shape)
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    blocks = numpy.arange((count + 3) // 4, dtype=numpy.uint64)
    words = philox(seed ^ hashed, blocks & numpy.uint64(0xFFFFFFFF), blocks >> numpy.uint64(32))
    unit = (words.reshape(-1)[:count].astype(numpy.float64) + 0.5) / 4294967296.0
    return torch.from_numpy(((2 * unit - 1) * limit).astype(numpy.float32)).reshape(shape)


def train(case, model, loss_of_step):
    """The loss per target of each step, before its update."""
    optimizer = (torch.optim.Adam if case["optimizer"] == "adam" else torch.optim.SGD)(
        model.parameters(), lr=case["learning_rate"])
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), case["clip_norm"])
        optimizer.step()
        losses.append(float(f"{loss.item():.9g}"))  # which tells any two numbers of float32 apart
    return losses


def golden_path(script):
    return pathlib.Path(script).parent / "goldens" / f"{pathlib.Path(script).stem}.json"


def golden_of(script):
    """What main() has written for a script."""
    return json.loads(golden_path(script).read_text())


def main(script, description, cases, losses_of):
    """Writes, or compares with, goldens/SCRIPT.json the losses of all cases; the process' exit status."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    golden = golden_path(script)
    torch.set_num_threads(1)
    results = []
    for case in cases:
        losses = losses_of(case)
        print(f"{case['name']}: {losses[0]:.6f} -> {losses[-1]:.6f}")
        results.append({**case, "losses": losses})
    if not arguments.check:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(json.dumps({"torch": torch.__version__, "cases": results}, indent=1))
        return 0
    worst = max(abs(new / old - 1)
                for a, b in zip(results, golden_of(script)["cases"])
                for new, old in zip(a["losses"], b["losses"]))
    print(f"largest relative difference from {golden.name}: {worst:.2e}")
    return 0 if worst < 1e-5 else 1


def check_philox():
    """The known answer of Random123 for a zero key and zero counters."""
    zero = numpy.zeros(1, dtype=numpy.uint64)
    words = [int(word) for word in philox(0, zero, zero)[0]]
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], words


if __name__ == "__main__":
    check_philox()
