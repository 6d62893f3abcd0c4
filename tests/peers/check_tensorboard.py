#!/usr/bin/env python3
"""Reads the metrics of a run and of its resumption with TensorBoard itself.

The test program writes what a run leaves that was killed at step 40 after a checkpoint at step 20,
and what the resumed run writes from step 21 to 60 (MetricsLog.WritesARunForPeers). TensorBoard must
show one curve: the first run's values up to step 20 and the second's from there on. Each run ends
with a histogram of the squares of 0 to 100 and a picture of a red and a blue pixel.

usage: check_tensorboard.py --check
"""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

from tensorboard.backend.event_processing import event_accumulator

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write_run(folder):
    subprocess.run([ROOT / "dev", "build", "training_test"], check=True, cwd=ROOT,
                   stdout=subprocess.DEVNULL)
    subprocess.run([ROOT / "build" / "tests" / "training_test",
                    "--gtest_filter=MetricsLog.WritesARunForPeers"], check=True,
                   stdout=subprocess.DEVNULL,
                   env=dict(os.environ, SLUICE_TENSORBOARD_FOLDER=folder))


def expected_curves():
    offset = {step: 1 if step <= 20 else 2 for step in range(1, 61)}
    return {
        "train/loss": [(step, offset[step] + 1 / step) for step in range(1, 61)],
        "validation/perplexity": [(step, math.exp(offset[step])) for step in range(10, 61, 10)],
    }


def check_histogram(accumulator):
    numbers = [float(i * i) for i in range(101)]
    (event,) = accumulator.Histograms("weights/a")  # the killed run's was forgotten
    found = event.histogram_value
    assert event.step == 60 and found.num == 101, f"a histogram of {found.num} at {event.step}"
    assert (found.min, found.max) == (0, 10000)
    assert (found.sum, found.sum_squares) == (sum(numbers), sum(n * n for n in numbers))
    lower = -1.0
    for upper, count in zip(found.bucket_limit, found.bucket, strict=True):
        wanted = sum(lower < number <= upper for number in numbers)
        assert count == wanted, f"{count} numbers in ({lower}, {upper}], not {wanted}"
        lower = upper


def check_image(accumulator):
    (event,) = accumulator.Images("attention/1")
    assert (event.step, event.width, event.height) == (60, 2, 1)
    picture = event.encoded_image_string
    row = zlib.decompress(picture[picture.index(b"IDAT") + 4:-16])
    assert picture.startswith(b"\x89PNG") and row == b"\0\xff\0\0\0\0\xff", row


def check(folder):
    accumulator = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0,
                               event_accumulator.HISTOGRAMS: 0, event_accumulator.IMAGES: 0})
    accumulator.Reload()
    curves = expected_curves()
    tags = sorted(accumulator.Tags()["scalars"])
    assert tags == sorted(curves), f"TensorBoard sees the curves {tags}"
    for tag, expected in curves.items():
        found = [(event.step, event.value) for event in accumulator.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in expected], (
            f"{tag}: TensorBoard sees the steps {[step for step, _ in found]}")
        for (step, value), (_, wanted) in zip(found, expected):
            # Values are stored in float32.
            assert abs(value - wanted) <= 1e-6 * abs(wanted), f"{tag}: {value} at step {step}"
    check_histogram(accumulator)
    check_image(accumulator)
    print(f"TensorBoard reads {', '.join(f'{len(curves[tag])} values of {tag}' for tag in tags)}")


def main():
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        write_run(folder)
        check(folder)


if __name__ == "__main__":
    main()
