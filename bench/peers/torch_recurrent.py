#!/usr/bin/env python3
"""Measures torch's nn.LSTM and nn.GRU on the shape files of `sluice bench`, for `sluice bench report`.

Implementations: torch (eager) and, on a GPU, torch+graph (the same captured in a CUDA graph);
torch+compile (by torch.compile, on a GPU captured as well), only if --impl names it: it compiles for
seconds to minutes. The forward pass is inference; forward+backward gives gradients of x, h0, c0 and all weights. Each turn
takes another copy of inputs and outputs, so that none of them is in a cache. GPU times are by CUDA
events, medians.

    torch_recurrent.py --shapes bench/shapes/named.shapes --device cuda --dtype bfloat16 --json torch.json
"""

import sys
import warnings

import numpy
import torch

import common
import torch_common

IMPLEMENTATIONS = ["torch", "torch+graph"]
NAMED = ["torch+compile"]
TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16,
         "float16": torch.float16}


class Set:
    """One copy of a shape's inputs; what a run gave is kept, so that the next gets other memory."""

    def __init__(self, shape, generator, device, backward):
        stack = shape.layers * shape.directions

        def draw(*sizes, grad=backward):
            values = 2 * torch.rand(sizes, generator=generator) - 1
            return values.to(device, TYPES[shape.dtype]).requires_grad_(grad)

        self.x = draw(shape.time, shape.batch, shape.input)
        self.h0 = draw(stack, shape.batch, shape.output)
        self.c0 = draw(stack, shape.batch, shape.hidden)
        self.dy = draw(shape.time, shape.batch, shape.directions * shape.output, grad=False)
        self.dhn, self.dcn = torch.ones_like(self.h0), torch.ones_like(self.c0)
        self.lengths = None
        if shape.lengths == "uniform":
            self.lengths = torch.randint(1, shape.time + 1, (shape.batch,), generator=generator)
        self.kept = None


name_and_version = torch_common.name_and_version
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
KINDS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN,
         "rnn_relu": torch.nn.RNN}


def make_module(shape, device):
    kind = KINDS[shape.cell]
    more = {"proj_size": shape.projection} if shape.projection else {}
    if kind is torch.nn.RNN:
        more["nonlinearity"] = shape.cell.removeprefix("rnn_")
    module = kind(shape.input, shape.hidden, shape.layers, bidirectional=shape.directions == 2,
                  **more)
    module.to(device, TYPES[shape.dtype])
    module.flatten_parameters()
    # torch leaves bfloat16 as it is, and says so at every call.
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
    return module


class Contest:
    def __init__(self, shape, pass_name):
        self.shape = shape
        self.pass_name = pass_name
        self.backward = pass_name == "forward+backward"
        self.calls = 1  # of a step that are timed together
        device = torch.device(shape.device)
        if device.type == "cuda" and not torch.cuda.is_available():
            sys.exit("torch finds no GPU here; use --device cpu")
        if device.type == "cuda":
            device = torch.device("cuda", device.index or 0)
            torch.cuda.set_device(device)
        self.target = device
        self.device = str(device)
        self.on_gpu = device.type == "cuda"
        self.device_model = torch.cuda.get_device_name(device) if self.on_gpu else self.device
        torch.set_num_threads(1 if pass_name == "step" else common.thread_count())
        self.threads = torch.get_num_threads()
        torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = shape.dtype == "tf32"
        self.sets = self.module = None

    def prepare(self):
        generator = torch.Generator().manual_seed(self.shape.seed)
        torch.manual_seed(self.shape.seed)
        self.module = self.make_module()
        self.module.train(self.backward)
        count = common.set_count(self.shape, self.cache_bytes())
        self.sets = [Set(self.shape, generator, self.target, self.backward) for _ in range(count)]

    def make_module(self):
        return make_module(self.shape, self.target)

    def cache_bytes(self):
        if not self.on_gpu:
            return common.host_cache_bytes()
        return getattr(torch.cuda.get_device_properties(self.target), "L2_cache_size", 50 << 20)

    def run(self, one, module):
        state = (one.h0, one.c0) if self.shape.cell == "lstm" else one.h0
        x = one.x
        if one.lengths is not None:
            x = torch.nn.utils.rnn.pack_padded_sequence(x, one.lengths, enforce_sorted=False)
        with torch.set_grad_enabled(self.backward):
            y, last = module(x, state)
            if one.lengths is not None:
                y, _ = torch.nn.utils.rnn.pad_packed_sequence(y, total_length=self.shape.time)
            gradients = self.differentiate(one, y, last) if self.backward else ()
            # Without their history, whose nodes belong to this stream: a later capture is on another.
            one.kept = [tensor.detach() for tensor in (y, *(last if isinstance(last, tuple) else (last,)))]
            one.kept += gradients

    def differentiate(self, one, y, last):
        if self.shape.cell == "lstm":
            outputs, gradients = [y, *last], [one.dy, one.dhn, one.dcn]
            inputs = [one.x, one.h0, one.c0]
        else:
            outputs, gradients, inputs = [y, last], [one.dy, one.dhn], [one.x, one.h0]
        # Plain gradients, not added to .grad: torch's faster way.
        return torch.autograd.grad(outputs, inputs + list(self.module.parameters()), gradients)

    def capture(self, module):
        """A graph for each set; they share what memory is free between runs."""
        if not self.on_gpu:
            raise common.Declined("CUDA graphs are a GPU's")
        if self.shape.lengths == "uniform":
            raise common.Declined("packed sequences read lengths on the host")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as torch asks for before a capture
            for _ in range(common.WARM_UP):
                self.run(self.sets[0], module)
        torch.cuda.current_stream().wait_stream(side)
        pool = torch.cuda.graph_pool_handle()
        graphs = []
        for one in self.sets:
            one.kept = None
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.run(one, module)
            graphs.append((graph, one.kept))  # eager runs replace kept
        return graphs

    def runner(self, implementation):
        try:
            if self.sets is None:
                self.prepare()
            if self.pass_name == "step":
                return self.step_runner()
            actions = self.actions(implementation)
            actions[0]()
            if self.on_gpu:
                torch.cuda.synchronize()
        except (RuntimeError, NotImplementedError) as error:
            raise common.Declined(str(error).split("\n")[0]) from None
        turn = [0]

        def run_once():
            turn[0] = (turn[0] + 1) % len(actions)
            return self.milliseconds_of(actions[turn[0]])

        return run_once

    def actions(self, implementation):
        """A function for each set, which runs it."""
        compiles = implementation == "torch+compile"
        module = torch_common.compiled(self.module) if compiles else self.module
        if implementation == "torch+graph" or compiles and self.on_gpu:
            return [graph.replay for graph, _ in self.capture(module)]
        return [lambda one=one: self.run(one, module) for one in self.sets]

    def milliseconds_of(self, action):
        return torch_common.milliseconds_of(action, self.on_gpu)

    def use(self, tensors):
        """Takes these numbers, flat, by the names of turns.py, instead of drawn ones."""
        self.prepare()

        def fill(target, values):
            with torch.no_grad():
                target.copy_(torch.from_numpy(values).reshape(target.shape))

        for index, layer in enumerate(self.module.all_weights):
            for name, parameter in zip(WEIGHTS, layer):
                fill(parameter, tensors[f"{name}.{index}"])
        for one in self.sets:
            for name in ("x", "h0", "c0", "dy", "dhn", "dcn"):
                if name in tensors:
                    fill(getattr(one, name), tensors[name])
            if one.lengths is not None:
                one.lengths = torch.from_numpy(tensors["lengths"]).long()

    def results(self):
        """Outputs and gradients of the first set, flat, by the names of turns.py; of steps y alone."""
        one = self.sets[0]
        if self.pass_name == "step":
            return {"y": numpy.concatenate([y.reshape(-1) for y in self.steps()])}
        self.run(one, self.module)
        names = ["y", "hn", "cn"] if self.shape.cell == "lstm" else ["y", "hn"]
        if self.backward:
            names += ["dx", "dh0", "dc0"] if self.shape.cell == "lstm" else ["dx", "dh0"]
            for index, layer in enumerate(self.module.all_weights):
                names += [f"d_{name}.{index}" for name, _ in zip(WEIGHTS, layer)]
        return {name: tensor.float().cpu().numpy().reshape(-1) for name, tensor in zip(names, one.kept)}

    def stepped(self):
        """The layer that is called for each step, and the frames that it gets."""
        return self.module, self.sets[0].x.detach().split(1)

    def steps(self):
        """The answers to the frames, one call each, from the start of a sequence."""
        layer, frames = self.stepped()
        state = None
        with torch.inference_mode():
            for frame in frames:
                y, state = layer(frame, state)
                yield numpy.asarray(y)

    def step_runner(self):
        layer, frames = self.stepped()
        state, turn = None, 0

        def run_steps():
            nonlocal state, turn
            with torch.inference_mode():
                for _ in range(self.calls):
                    turn = turn + 1 if turn + 1 < len(frames) else 0
                    _, state = layer(frames[turn], state)

        return lambda: self.milliseconds_of(run_steps) / self.calls


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS, NAMED)
    try:
        common.measure(arguments, Contest, name_and_version(), tuple(KINDS))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
