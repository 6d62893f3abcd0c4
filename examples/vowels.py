#!/usr/bin/env python3
"""Japanese vowels (UCI; 640 utterances of nine speakers) as NumPy files, and what answers are worth. Takes NumPy.

    vowels.py convert JapaneseVowels_TRAIN.ts data/vowels/train
    vowels.py score data/vowels/test_targets.npz answers/

A line of the .ts files, which the packages sktime and aeon bring along, is an utterance: 12 columns of
frames between colons, then the speaker from 1 on. `convert` writes PREFIX.npz, an array [time, 12] an
utterance, and PREFIX_targets.npz, the speaker from 0 on for each frame. `score` takes the probabilities
that `sluice run` wrote for each frame, and looks at them after the first frames and at the end.
"""

import pathlib
import sys


def utterances(path):
    """(frames [time, 12], speaker) of each line."""
    import numpy
    lines = pathlib.Path(path).read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line[0] in "#@":
            continue
        *columns, speaker = line.split(":")
        columns = [[float(value) for value in column.split(",")] for column in columns]
        if len({len(column) for column in columns}) != 1:
            sys.exit(f"{path}, line {number}: the columns have different lengths")
        yield numpy.array(columns, dtype=numpy.float32).T.copy(), int(speaker) - 1


def convert(path, prefix):
    import numpy
    frames, targets = {}, {}
    for number, (own, speaker) in enumerate(utterances(path)):
        frames[f"utterance{number:03}"] = own
        targets[f"utterance{number:03}"] = numpy.full(len(own), speaker)
    if not frames:
        sys.exit(f"{path} has no utterance")
    pathlib.Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    numpy.savez(f"{prefix}.npz", **frames)
    numpy.savez(f"{prefix}_targets.npz", **targets)
    print(f"{len(frames)} utterances, {sum(map(len, targets.values()))} frames")


def score(targets, answers):
    import numpy
    wanted = numpy.load(targets)
    given = {name: numpy.load(pathlib.Path(answers) / f"{name}.npy").argmax(1) for name in wanted.files}
    for frame, what in [(2, "after 3 frames"), (4, "after 5 frames"), (-1, "at the end")]:
        right = sum(int(given[name][frame] == wanted[name][frame]) for name in wanted.files)
        print(f"speaker {what:<14} {right} of {len(wanted.files)} right: {right / len(wanted.files):.2%}")


def main():
    commands = {"convert": convert, "score": score}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
