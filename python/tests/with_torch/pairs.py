"""Random layers of torch's with Sluice's beside them."""

import random

import sluice.torch
import torch

KINDS = [("LSTM", {}), ("GRU", {}), ("RNN", {"nonlinearity": "tanh"}), ("RNN", {"nonlinearity": "relu"})]


class Case:
    """Hyper-parameters and inputs; the same for the same seed."""

    def __init__(self, seed, dtype=torch.float64, most=24):
        draw = random.Random(seed)
        self.kind, kind_options = draw.choice(KINDS)
        self.options = {"num_layers": draw.randint(1, 3), "bias": draw.random() < 0.8, "batch_first": draw.random() < 0.5,
                        "bidirectional": draw.random() < 0.4, **kind_options}
        self.input, self.hidden = draw.randint(1, most), draw.randint(2, most)
        if self.kind == "LSTM" and draw.random() < 0.3:
            self.options["proj_size"] = draw.randint(1, self.hidden - 1)
        self.time, self.rows = draw.randint(1, 12), draw.randint(1, 9)
        self.dtype = dtype
        self.batched = draw.random() < 0.8
        self.has_state = draw.random() < 0.6
        self.generator = torch.Generator().manual_seed(seed)

    def __repr__(self):
        return f"{self.kind}({self.input}, {self.hidden}, {self.options}), time {self.time}, rows {self.rows}"

    def modules(self, device="cpu", own_dtype=None):
        """torch's in float64 on the CPU, and Sluice's with the same weights."""
        reference = getattr(torch.nn, self.kind)(self.input, self.hidden, dtype=torch.float64, **self.options)
        own = getattr(sluice.torch, self.kind)(self.input, self.hidden, dtype=own_dtype or self.dtype, device=device, **self.options)
        own.load_state_dict(reference.state_dict())
        reference.load_state_dict(own.state_dict())  # as rounded
        return reference, own

    def draw(self, *shape):
        return torch.rand(shape, generator=self.generator, dtype=torch.float64) * 2 - 1

    def inputs(self):
        """x, and the state or None."""
        shape = (self.time, self.rows, self.input)
        if self.options["batch_first"]:
            shape = (self.rows, self.time, self.input)
        if not self.batched:
            shape = (self.time, self.input)
        return self.draw(*shape), self.state() if self.has_state else None

    def state(self):
        states = self.options["num_layers"] * (2 if self.options["bidirectional"] else 1)
        rows = (self.rows,) if self.batched else ()
        h = self.draw(states, *rows, self.options.get("proj_size") or self.hidden)
        return (h, self.draw(states, *rows, self.hidden)) if self.kind == "LSTM" else h


def to(value, device, dtype):
    """A leaf on the device, or a tuple of them, or None."""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple(to(part, device, dtype) for part in value)
    return value.to(device=device, dtype=dtype).clone().requires_grad_()


def flat(value):
    """The tensors of nested tuples."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [] if value is None else [tensor for part in value for tensor in flat(part)]


def run_with_gradients(module, x, state, seed=1, **options):
    """Outputs, and gradients of x, the state and the weights for fixed random gradients of the outputs."""
    outputs = flat(module(x, state, **options))
    generator = torch.Generator().manual_seed(seed)
    factors = [torch.rand(output.shape, generator=generator, dtype=torch.float64).to(output) - 0.5 for output in outputs]
    inputs = [*flat(x), *flat(state), *module.parameters()]
    gradients = torch.autograd.grad(outputs, inputs, factors)
    return [output.detach() for output in outputs], list(gradients)


def assert_close(own, reference, tolerance):
    """Each tensor's largest difference is at most `tolerance` times its largest value, or that much where it is small."""
    assert len(own) == len(reference)
    for index, (a, b) in enumerate(zip(own, reference)):
        assert a.shape == b.shape, index
        bound = tolerance * max(1.0, b.abs().max().item() if b.numel() else 0)
        difference = (a.double().cpu() - b.double().cpu()).abs().max().item() if b.numel() else 0
        assert difference <= bound, f"tensor {index}: {difference} is more than {bound}"


def largest_error(found, expected):
    """As assert_close measures it."""
    return max((a.double().cpu() - b).abs().max().item() / max(1.0, b.abs().max().item()) for a, b in zip(found, expected) if b.numel())
