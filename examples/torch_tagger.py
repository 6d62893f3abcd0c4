#!/usr/bin/env python3
"""A tagger of words in torch, a bidirectional LSTM on packed sequences; with --sluice the LSTM is Sluice's.

    examples/torch_tagger.py --train train.conll --valid dev.conll
    examples/torch_tagger.py --train train.conll --valid dev.conll --sluice

A line of these files is a word, a tab and a tag; an empty line ends a sentence. Without them it learns drawn sentences of
numbers, whose tags say whether a number is higher than both of its neighbours, lower than both, or neither.
"""

import argparse
import random
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

NO_TAG = -1  # after a sentence's end


class Tagger(nn.Module):
    def __init__(self, words, tags, width, layers):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, words, lengths):
        """Logits [rows, time, tags] for words [rows, time]."""
        packed = pack_padded_sequence(self.dropout(self.embed(words)), lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.dropout(y))


def read(path):
    """Sentences, each a list of (word, tag)."""
    sentence = []
    with open(path) as file:
        for line in [*file, ""]:
            if line.strip():
                word, tag = line.rstrip("\n").split("\t")
                sentence.append((word, tag))
            elif sentence:
                yield sentence
                sentence = []


def draw_sentences(draw, count):
    for _ in range(count):
        numbers = [draw.randrange(50) for _ in range(draw.randint(1, 30))]
        neighbours = zip([25, *numbers], numbers, [*numbers[1:], 25])
        tags = ["high" if number > max(left, right) else "low" if number < min(left, right) else "neither"
                for left, number, right in neighbours]
        yield [(str(number), tag) for number, tag in zip(numbers, tags)]


def batches_of(sentences, words, tags, size, device):
    """Padded words and tags [rows, time], and lengths on the CPU.

    Word 0 is any that the training data lack. Tags that they lack do not count.
    """
    batches = []
    for begin in range(0, len(sentences), size):
        batch = sentences[begin:begin + size]
        word_rows = [torch.tensor([words.get(word, 0) for word, _ in sentence]) for sentence in batch]
        tag_rows = [torch.tensor([tags.get(tag, NO_TAG) for _, tag in sentence]) for sentence in batch]
        batches.append((pad_sequence(word_rows, batch_first=True).to(device),
                        pad_sequence(tag_rows, batch_first=True, padding_value=NO_TAG).to(device),
                        torch.tensor([len(row) for row in word_rows])))
    return batches


def run(model, batches, args, optimizer=None):
    """Mean loss, and the share of tags that are right. Trains if there is an optimizer."""
    model.train(optimizer is not None)
    loss_sum, right, count = torch.zeros(3, device=args.device)
    for words, tags, lengths in batches:
        with torch.set_grad_enabled(optimizer is not None), \
                torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bfloat16"):
            logits = model(words, lengths)
            loss = cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=NO_TAG)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        known = (tags != NO_TAG).sum()
        loss_sum += loss.detach() * known
        right += (logits.argmax(2) == tags).sum()
        count += known
    return (loss_sum / count).item(), (right / count).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train")
    parser.add_argument("--valid")
    parser.add_argument("--sentences", type=int, default=2000, help="that are drawn without --train")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sluice", action="store_true")
    args = parser.parse_args()
    if bool(args.train) != bool(args.valid):
        parser.error("--train and --valid go together")

    torch.manual_seed(args.seed)
    draw = random.Random(args.seed)
    if args.train:
        train, valid = list(read(args.train)), list(read(args.valid))
    else:
        train, valid = list(draw_sentences(draw, args.sentences)), list(draw_sentences(draw, 500))
    words = {word: number for number, word in enumerate(sorted({word for row in train for word, _ in row}), start=1)}
    tags = {tag: number for number, tag in enumerate(sorted({tag for row in train for _, tag in row}))}
    valid = batches_of(valid, words, tags, args.rows, args.device)

    model = Tagger(len(words) + 1, len(tags), args.width, args.layers).to(args.device)
    if args.dtype == "float64":
        model.double()
    if args.sluice:
        import sluice.torch
        sluice.torch.replace(model)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(1, args.epochs + 1):
        draw.shuffle(train)
        batches = batches_of(train, words, tags, args.rows, args.device)
        begin = time.perf_counter()
        loss, _ = run(model, batches, args, optimizer)
        seconds = time.perf_counter() - begin
        valid_loss, share = run(model, valid, args)
        print(f"epoch {epoch}: loss {loss:.6f}, validation {valid_loss:.6f}, {share:.1%} right, {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
