"""Id files, and the order of examples and batches: src/data/shuffle.h and src/data/batches.cpp."""

import sys

import torch

BOS, EOS = 2, 3
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


def sort_by_length(order, examples, phase):
    def key(index):
        source, target = examples[index]
        length_bin = (len(source) + phase) // 2
        return length_bin, len(target) if length_bin % 2 == 0 else -len(target)

    return sorted(order, key=key)


def cut(order, examples, options):
    """Batches of neighbours whose padded tokens fit max_tokens."""
    batches, rows, most_source, most_target = [], [], 0, 0
    for index in order:
        own_source, own_target = len(examples[index][0]), len(examples[index][1])
        source, target = max(most_source, own_source), max(most_target, own_target)
        count = len(rows) + 1
        if count > options["max_rows"] or count * (source + target + 1) > options["max_tokens"]:
            batches.append(rows)
            rows, source, target = [], own_source, own_target
        most_source, most_target = source, target
        rows.append(index)
    return batches + [rows] if rows else batches


def batches_of_epoch(examples, options, epoch):
    order = list(range(len(examples)))
    random = SplitMix(options["seed"], 2 * epoch)
    random.shuffle(order)
    phase = random.below(2)
    batches = []
    for begin in range(0, len(order), options["pool"]):
        part = order[begin:begin + options["pool"]]
        batches += cut(sort_by_length(part, examples, phase), examples, options)
    SplitMix(options["seed"], 2 * epoch + 1).shuffle(batches)
    return batches


def read_ids(path):
    """((source vocabulary, target vocabulary), [(source ids, target ids)])."""
    with open(path, encoding="ascii") as file:
        header = file.readline().split()
        if len(header) != 4 or header[:2] != ["#", "vocabulary"]:
            sys.exit(f"{path}: the first line must be '# vocabulary SOURCE TARGET'")
        vocabularies = int(header[2]), int(header[3])
        examples = []
        for number, line in enumerate(file, start=2):
            columns = [list(map(int, side.split())) for side in line.rstrip("\n").split("\t")]
            if len(columns) != 2 or not all(columns):
                sys.exit(f"{path}, line {number}: not 'source ids TAB target ids'")
            for side, ids in enumerate(columns):
                if min(ids) < 0 or max(ids) >= vocabularies[side]:
                    sys.exit(f"{path}, line {number}: an id outside [0, {vocabularies[side]})")
            examples.append(tuple(columns))
    if not examples:
        sys.exit(f"{path} has no example")
    return vocabularies, examples


class Batch:
    """Padded tensors, time-major as in sluice; lengths also on the host, for packing."""

    def __init__(self, examples, rows, device):
        def matrix(lists):
            longest = max(map(len, lists))
            return torch.tensor([ids + [0] * (longest - len(ids)) for ids in lists]).T.to(device)

        pairs = [examples[row] for row in rows]
        self.source = matrix([source for source, _ in pairs])
        self.target_in = matrix([[BOS] + target for _, target in pairs])
        self.target_out = matrix([target + [EOS] for _, target in pairs])
        self.source_lengths = torch.tensor([len(source) for source, _ in pairs])
        lengths = [len(target) + 1 for _, target in pairs]
        self.target_tokens = sum(lengths)
        self.source_tokens = int(self.source_lengths.sum())
        self.counts = self.padding = None  # where there is no padding
        if len(set(lengths)) > 1:
            steps = torch.arange(max(lengths))[:, None]
            self.counts = (steps < torch.tensor(lengths)[None, :]).to(device)
        if len(set(self.source_lengths.tolist())) > 1:
            source_steps = torch.arange(self.source.shape[0])[None, :]
            self.padding = (source_steps >= self.source_lengths[:, None]).to(device)  # [rows, source]
