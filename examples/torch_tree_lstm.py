#!/usr/bin/env python3
"""A child-sum Tree-LSTM (Tai, Socher and Manning 2015) that learns to compute nested expressions.

    examples/torch_tree_lstm.py --epochs 20

The data are random trees such as max(3, sum(1, 4), min(2, 0, 4)), all of different shapes; a sum is modulo 5. The model is
trained on the value of every node. It runs all nodes of a batch that have the same depth at once, in one call of
sluice.torch.LSTMCell, from the deepest to the roots.
"""

import argparse
import random
import time
from typing import NamedTuple

import torch
from sluice.torch import LSTMCell
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

VALUES = 5
OPERATORS = (min, max, lambda values: sum(values) % VALUES)


class Tree(NamedTuple):
    symbol: int  # a value, or VALUES plus the number of an operator
    value: int
    children: list


def grow(draw, depth):
    if depth == 0 or draw.random() < 0.2:
        value = draw.randrange(VALUES)
        return Tree(value, value, [])
    operator = draw.randrange(len(OPERATORS))
    children = [grow(draw, depth - 1) for _ in range(draw.randint(2, 3))]
    return Tree(VALUES + operator, OPERATORS[operator]([child.value for child in children]), children)


class Level(NamedTuple):
    """All nodes of one depth, of all trees."""

    symbols: Tensor  # [nodes]
    values: Tensor  # [nodes]
    parents: Tensor  # [nodes] places of their parents in the level above


def levels_of(trees, device="cpu"):
    """Roots first."""
    levels, nodes, parents = [], trees, [0] * len(trees)
    while nodes:
        columns = [node.symbol for node in nodes], [node.value for node in nodes], parents
        levels.append(Level(*(torch.tensor(column, device=device) for column in columns)))
        parents = [place for place, node in enumerate(nodes) for _ in node.children]
        nodes = [child for node in nodes for child in node.children]
    return levels


class TreeLSTM(nn.Module):
    """i, g, o from the node's x and the sum of its children's h; one f for each child, from x and that child's h:

        c = i * g + sum of f_child * c_child,    h = o * tanh(c)

    An LSTM cell has one f for all of its c. So the children's f * c are summed here, and the cell, which gets the sum as its
    c, has a forget gate that stays open: its weights are 0 and its bias is 40, so that the sigmoid is 1 to the last bit. Then
    the gate's gradient f * (1 - f) is 0, and an optimizer without weight decay leaves the gate as it is.
    """

    def __init__(self, symbols, classes, width):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.forget_x = nn.Linear(width, width)
        self.forget_h = nn.Linear(width, width, bias=False)
        self.cell = LSTMCell(width, width)
        self.out = nn.Linear(width, classes)
        gate = slice(width, 2 * width)  # the order is i, f, g, o
        with torch.no_grad():
            for parameter in self.cell.parameters():
                parameter[gate] = 0
            self.cell.bias_ih[gate] = 40

    def forward(self, levels):
        """Logits [nodes, classes] of each level."""
        h = c = self.embed.weight.new_zeros(0, self.cell.hidden_size)
        parents = levels[0].parents[:0]
        outputs = []
        for level in reversed(levels):
            x = self.embed(level.symbols)
            forget = torch.sigmoid(self.forget_x(x)[parents] + self.forget_h(h))
            zero = torch.zeros_like(x)
            h, c = self.cell(x, (zero.index_add(0, parents, h), zero.index_add(0, parents, forget * c)))
            outputs.append(self.out(h))
            parents = level.parents
        return outputs[::-1]


def loss_of(model, levels):
    return cross_entropy(torch.cat(model(levels)), torch.cat([level.values for level in levels]))


def share_right(model, levels):
    """The share of trees whose root is right."""
    with torch.no_grad():
        return (model(levels)[0].argmax(1) == levels[0].values).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=int, default=2000, help="of an epoch; each draws others")
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    draw = random.Random(args.seed)
    held_out = levels_of([grow(draw, args.depth) for _ in range(500)], args.device)
    model = TreeLSTM(VALUES + len(OPERATORS), VALUES, args.width).to(args.device)
    optimizer = torch.optim.Adam(model.parameters(), args.lr)

    most_common = held_out[0].values.bincount().max().item() / 500
    print(f"the most common value is right for {most_common:.1%} of the trees held out")
    for epoch in range(1, args.epochs + 1):
        trees = [grow(draw, args.depth) for _ in range(args.trees)]
        begin, total = time.perf_counter(), torch.zeros((), device=args.device)
        batches = [trees[i:i + args.batch] for i in range(0, len(trees), args.batch)]
        for batch in batches:
            loss = loss_of(model, levels_of(batch, args.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        mean = total.item() / len(batches)
        seconds = time.perf_counter() - begin
        print(f"epoch {epoch}: loss {mean:.4f}, {share_right(model, held_out):.1%} of the trees held out are right, {seconds:.1f} s",
              flush=True)


if __name__ == "__main__":
    main()
