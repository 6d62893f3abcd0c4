"""Id files, and the order of examples and batches: src/data/shuffle.h and src/data/batches.cpp."""

import dataclasses
import sys

import torch

BOS, EOS = 2, 3
IGNORED = -100  # a target that is padding
WORD = (1 << 64) - 1


class SplitMix:
    """The generator that orders examples and batches."""

    def __init__(self, seed, stream):
        self.state = self.mix(seed) ^ self.mix(self.mix((stream + 0x9E3779B97F4A7C15) & WORD))

    @staticmethod
    def mix(word):
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB & WORD
        return word ^ (word >> 31)

    def below(self, bound):
        unfair = ((1 << 64) - bound) % bound
        while True:
            self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
            word = self.mix(self.state)
            if word >= unfair:
                return word % bound

    def shuffle(self, items):
        for left in range(len(items), 1, -1):
            other = self.below(left)
            items[left - 1], items[other] = items[other], items[left - 1]


@dataclasses.dataclass
class Examples:
    """Pairs of ids, as `sluice data ids` writes them for a kind of model."""

    kind: str
    vocabularies: tuple
    pairs: list
    rows_in_order: int = 0  # not 0: so many neighbours are a batch

    def __len__(self):
        return len(self.pairs)

    def columns(self, row):
        """(source, what is fed, what is wanted) of a row, each empty if the kind has none."""
        first, second = self.pairs[row]
        if self.kind == "seq2seq":
            return first, [BOS] + second, second + [EOS]
        if self.kind == "language_model":
            return [], first, second
        return first, [], second

    def lengths(self):
        columns = map(self.columns, range(len(self.pairs)))
        return [(len(source), len(wanted)) for source, _, wanted in columns]


def sort_by_length(order, lengths, phase):
    def key(index):
        source, target = lengths[index]
        length_bin = (source + phase) // 2
        return length_bin, target if length_bin % 2 == 0 else -target

    return sorted(order, key=key)


def cut(order, lengths, options):
    """Batches of neighbours whose padded tokens fit max_tokens."""
    batches, rows, most_source, most_target = [], [], 0, 0
    for index in order:
        own_source, own_target = lengths[index]
        source, target = max(most_source, own_source), max(most_target, own_target)
        count = len(rows) + 1
        if count > options["max_rows"] or count * (source + target) > options["max_tokens"]:
            batches.append(rows)
            rows, source, target = [], own_source, own_target
        most_source, most_target = source, target
        rows.append(index)
    return batches + [rows] if rows else batches


def in_order(examples):
    count = examples.rows_in_order
    return [list(range(begin, min(begin + count, len(examples))))
            for begin in range(0, len(examples), count)]


def batches_of_epoch(examples, options, epoch):
    if examples.rows_in_order:
        return in_order(examples)
    lengths = examples.lengths()
    order = list(range(len(examples)))
    random = SplitMix(options["seed"], 2 * epoch)
    random.shuffle(order)
    phase = random.below(2)
    batches = []
    for begin in range(0, len(order), options["pool"]):
        part = order[begin:begin + options["pool"]]
        batches += cut(sort_by_length(part, lengths, phase), lengths, options)
    SplitMix(options["seed"], 2 * epoch + 1).shuffle(batches)
    return batches


def sorted_batches(examples, options):
    """Those that are validated on."""
    if examples.rows_in_order:
        return in_order(examples)
    lengths = examples.lengths()
    return cut(sort_by_length(range(len(examples)), lengths, 0)[::-1], lengths, options)


def read_ids(path, kind):
    """The Examples of a file."""
    with open(path, encoding="ascii") as file:
        header = file.readline().split()
        if len(header) not in (4, 6) or header[:2] != ["#", "vocabulary"]:
            sys.exit(f"{path}: the first line must be '# vocabulary SOURCE TARGET [rows N]'")
        vocabularies, rows = (int(header[2]), int(header[3])), int(header[5]) if header[4:] else 0
        pairs = []
        for number, line in enumerate(file, start=2):
            columns = [list(map(int, side.split())) for side in line.rstrip("\n").split("\t")]
            # Of running text the last pieces of stretches may be empty.
            if len(columns) != 2 or not (rows or all(columns)):
                sys.exit(f"{path}, line {number}: not 'ids TAB ids'")
            for side, ids in enumerate(columns):
                if ids and (min(ids) < 0 or max(ids) >= vocabularies[side]):
                    sys.exit(f"{path}, line {number}: an id outside [0, {vocabularies[side]})")
            pairs.append(tuple(columns))
    if not pairs:
        sys.exit(f"{path} has no example")
    return Examples(kind, vocabularies, pairs, rows)


class Batch:
    """Padded tensors, time-major as in sluice; what the kind of model has no use for is None.

    source, target_in [time, rows]; target_out the same with IGNORED where there is none; padding
    [rows, source time] true where there is none, or None if there always is; source_lengths [rows]
    on the host, for packing, or None if all are equal; stops_by_masks: recurrent layers look at
    padding instead; begins: rows start anew.
    """

    TENSORS = ("source", "target_in", "target_out", "padding")

    def __init__(self, examples, rows, device, capacity=None, masks=False):
        """capacity (source time, target time, rows): pads to it and takes no lengths, for work that
        is captured once for many batches; with `masks` for right results, too. A row of padding then
        has one source token, or attention would have nothing to look at."""
        columns = [examples.columns(row) for row in rows]
        source, fed, wanted = ([column[side] for column in columns] for side in range(3))
        self.source_tokens, self.target_tokens = sum(map(len, source)), sum(map(len, wanted))
        self.rows, self.begins = len(rows), rows[0] < examples.rows_in_order
        times = capacity[:2] if capacity else (max(map(len, source)), max(map(len, wanted)))
        count = capacity[2] if capacity else len(rows)

        def matrix(lists, time, fill):
            if not any(lists):
                return None
            lists = lists + [[]] * (count - len(lists))
            return torch.tensor([ids + [fill] * (time - len(ids)) for ids in lists]).T.contiguous()

        self.source = matrix(source, times[0], 0)
        self.target_in = matrix(fed, times[1], 0)
        self.target_out = matrix(wanted, times[1], IGNORED)
        self.source_lengths = self.padding = None
        self.stops_by_masks = masks and self.source is not None
        lengths = [len(ids) for ids in source] + [1] * (count - len(rows))
        if capacity or len(set(lengths)) > 1:
            if self.source is not None:
                self.padding = torch.arange(times[0])[None, :] >= torch.tensor(lengths)[:, None]
            if not capacity:
                self.source_lengths = torch.tensor(lengths)
        self.to(device)

    def to(self, device):
        for name in self.TENSORS:
            if getattr(self, name) is not None:
                setattr(self, name, getattr(self, name).to(device, non_blocking=True))
        return self
