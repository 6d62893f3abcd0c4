"""Many copies of a model side by side, each of which rounds in a way of its own.

Every tensor has the copies as its first axis. The first copy is float32; the others are what anyone
would write first for a precision: what layers hand to each other, and its gradient, is rounded to
the type of storage, factors of products are rounded to the type of the product, and sums, biases,
cell states, parameters and their gradients stay float32.

A single copy says little of how far rounding may carry a loss: its error may be small by chance. So
each precision has some copies, whose numbers are as dense as the type's, but stand elsewhere: copy k
of n rounds x * 2^(k/n), and divides by that again. The first of them has the type's own numbers.
"""

import torch

PRECISIONS = ("tf32", "bfloat16", "float16")


def cut_to_tf32(x):
    """As tensor cores read float32: the last thirteen bits are cut off."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


ROUND = dict(tf32=cut_to_tf32, bfloat16=lambda x: x.bfloat16().float(),
             float16=lambda x: x.half().float())


class Copies:
    def __init__(self, draws):
        """`draws`: copies of each precision."""
        self.draws, self.count = draws, 1 + draws * len(PRECISIONS)
        grids = [2 ** (draw / draws) for draw in range(draws)]
        self.grid = torch.tensor([1.0] + grids * len(PRECISIONS))

    def of(self, precision):
        """The places of its copies."""
        begin = 1 + self.draws * PRECISIONS.index(precision)
        return slice(begin, begin + self.draws)

    def along(self, values, like):
        """A number of each copy, to be broadcast over the other axes of `like`."""
        return values.view(-1, *[1] * (like.dim() - 1))

    def rounded(self, x, precisions):
        grid, result = self.along(self.grid, x), x.clone()
        for precision in precisions:
            own = self.of(precision)
            result[own] = ROUND[precision](x[own] * grid[own]) / grid[own]
        return result

    def storage(self, x):
        return self.rounded(x, ("bfloat16", "float16"))

    def store(self, x):
        """What goes to another layer or step."""
        return Store.apply(self, x)

    def matrix(self, weight):
        """A parameter as products read it; its gradient is not rounded."""
        return weight + (self.rounded(weight.detach(), PRECISIONS) - weight.detach())

    def product(self, x, matrix):
        """[copies, ..., in], which has been stored, by [copies, out, in] -> [copies, ..., out]"""
        flat = x.reshape(x.shape[0], -1, x.shape[-1])
        return Product.apply(self, flat, matrix).reshape(*x.shape[:-1], matrix.shape[1])


class Store(torch.autograd.Function):
    @staticmethod
    def forward(ctx, copies, x):
        ctx.copies = copies
        return copies.storage(x)

    @staticmethod
    def backward(ctx, gradient):
        return None, ctx.copies.storage(gradient)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, copies, x, matrix):
        x = copies.rounded(x, ("tf32",))
        ctx.copies = copies
        ctx.save_for_backward(x, matrix)
        return x @ matrix.transpose(1, 2)

    @staticmethod
    def backward(ctx, gradient):
        x, matrix = ctx.saved_tensors
        gradient = ctx.copies.rounded(gradient, PRECISIONS)
        return None, gradient @ matrix, gradient.transpose(1, 2) @ x


class Parameters:
    """Of all copies, by canonical name."""

    def __init__(self, copies, values):
        self.copies, self.values, self.matrices = copies, values, {}

    def __getitem__(self, name):
        return self.values[name]

    def __contains__(self, name):
        return name in self.values

    def matrix(self, name):
        """Rounded, once a step."""
        if name not in self.matrices:
            self.matrices[name] = self.copies.matrix(self.values[name])
        return self.matrices[name]

    def have_changed(self):
        self.matrices = {}
