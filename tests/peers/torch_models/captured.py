"""Steps of a training as CUDA graphs, a graph for each shape that batches are padded to.

What is computed is that of eager steps: recurrent layers stop at a row's end by masks. Only
dropout's masks and the order of sums differ. Running text, whose states go from batch to batch, has
one shape and is left to eager steps.
"""

import copy

import torch

from .data import Batch

TIME_STEP, ROW_STEP = 8, 32


def round_up(number, step):
    return (number + step - 1) // step * step


def padded(examples, rows, device):
    """The batch of these rows, padded to a capacity that few graphs serve."""
    lengths = [examples.columns(row) for row in rows]
    times = [max(len(columns[side]) for columns in lengths) for side in (0, 2)]
    capacity = (*(round_up(time, TIME_STEP) for time in times), round_up(len(rows), ROW_STEP))
    return capacity, Batch(examples, rows, device, capacity, masks=True)


class CapturedSteps:
    def __init__(self, step, optimizer, device):
        """step(batch, factor) -> the loss times the factor, and an update; `optimizer` has a group
        whose rate becomes a number on the device."""
        self.step, self.device, self.graphs = step, device, {}
        self.pool, self.side = torch.cuda.graph_pool_handle(), torch.cuda.Stream()
        for group in optimizer.param_groups:
            group["capturable"] = True
            group["lr"] = torch.zeros((), device=device)
        self.rates = [group["lr"] for group in optimizer.param_groups]
        # Of its own: what graphs of one pool allocate, others write over.
        self.loss = torch.zeros((), device=device)

    def __call__(self, examples, rows, rate):
        """The loss per target token before the update, on the device."""
        capacity, host = padded(examples, rows, "cpu")
        for own in self.rates:
            own.fill_(rate)
        if capacity not in self.graphs:  # the first time as it is, which makes what a capture can't
            self.graphs[capacity] = None
            batch, factor = self.on_device(host)
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.side):
                self.loss.copy_(self.step(batch, factor))
            torch.cuda.current_stream().wait_stream(self.side)
            return self.loss.clone()
        if self.graphs[capacity] is None:
            self.graphs[capacity] = self.capture(host)
        graph, batch, factor = self.graphs[capacity]
        for name in host.TENSORS:
            if getattr(host, name) is not None:
                getattr(batch, name).copy_(getattr(host, name))
        factor.fill_(1 / host.target_tokens)
        graph.replay()
        return self.loss.clone()

    def on_device(self, host):
        return copy.copy(host).to(self.device), torch.tensor(1 / host.target_tokens,
                                                             device=self.device)

    def capture(self, host):
        batch, factor = self.on_device(host)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            self.loss.copy_(self.step(batch, factor))
        return graph, batch, factor
