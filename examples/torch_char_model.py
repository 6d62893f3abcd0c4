#!/usr/bin/env python3
"""A language model over characters in torch; with --sluice its LSTM is Sluice's.

    examples/torch_char_model.py --text FILE --epochs 5
    examples/torch_char_model.py --text FILE --epochs 5 --sluice

The last tenth of the text is for validation. Without --text it learns Sluice's own documentation.
"""

import argparse
import pathlib
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy


class CharModel(nn.Module):
    def __init__(self, characters, width, layers):
        super().__init__()
        self.embed = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, layers)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(width, characters)

    def forward(self, characters, state=None):
        """Logits of the characters that follow [time, rows], and the state after the last."""
        y, state = self.lstm(self.dropout(self.embed(characters)), state)
        return self.out(self.dropout(y)), state


def run(model, rows, args, optimizer=None):
    """Mean loss over rows [rows, time]; the state goes on from part to part of them. Trains if there is an optimizer."""
    model.train(optimizer is not None)
    characters = rows.t().contiguous()
    total, state = torch.zeros((), device=args.device), None
    for begin in range(0, len(characters) - 1, args.length):
        targets = characters[begin + 1:begin + 1 + args.length]
        with torch.set_grad_enabled(optimizer is not None), \
                torch.autocast(args.device, torch.bfloat16, enabled=args.dtype == "bfloat16"):
            logits, state = model(characters[begin:begin + len(targets)], state)
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        state = tuple(part.detach() for part in state)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        total += loss.detach() * len(targets)
    return (total / (len(characters) - 1)).item()


def read(path):
    if path:
        return path.read_text()
    pages = pathlib.Path(__file__).resolve().parents[1].glob("docs/*.md")
    return "".join(page.read_text() for page in sorted(pages))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--most", type=int, help="characters that are read of it")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--length", type=int, default=64, help="steps between two updates")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sluice", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    text = read(args.text)[:args.most]
    alphabet = sorted(set(text))
    numbers = {character: number for number, character in enumerate(alphabet)}
    data = torch.tensor([numbers[character] for character in text], device=args.device)
    split = len(data) * 9 // 10
    train, validation = (part[:len(part) // args.rows * args.rows].view(args.rows, -1) for part in (data[:split], data[split:]))

    model = CharModel(len(alphabet), args.width, args.layers).to(args.device)
    if args.dtype == "float64":
        model.double()
    if args.sluice:
        import sluice.torch
        sluice.torch.replace(model)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)
    for epoch in range(1, args.epochs + 1):
        begin = time.perf_counter()
        loss = run(model, train, args, optimizer)
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch}: loss {loss:.6f}, validation {run(model, validation, args):.6f}, {seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
