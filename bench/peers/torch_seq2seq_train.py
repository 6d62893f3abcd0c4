#!/usr/bin/env python3
"""Measures whole training steps of a seq2seq model in torch on the shape files of `sluice bench train`.

The model is that of tests/peers/torch_models: nn.LSTM or nn.GRU as the encoder, torch's fused cells in the
decoder's loop. Implementations: torch (eager) and, on a GPU, torch+graph (the step captured in a
CUDA graph); torch+compile (forward and backward by torch.compile, on a GPU captured as well), only if
--impl names it: it compiles for minutes. A step takes new random tokens to the device and runs forward with dropout, backward,
clipping to a norm of 5 and fused Adam; bfloat16 and float16 are autocast over float32 weights (float16
without loss scaling). GPU times are by CUDA events, medians.

Under torchrun each process trains on a batch of its own, with torch's DistributedDataParallel; the process of rank 0 prints.

    torch_seq2seq_train.py --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16 --json torch.json
    torchrun --nproc-per-node 2 torch_seq2seq_train.py --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import sys

import torch
import torch.distributed

import common
import shape_files
import torch_common

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/peers"))

from torch_models.data import BOS, EOS  # noqa: E402
from torch_models.seq2seq import Seq2Seq  # noqa: E402

IMPLEMENTATIONS = ["torch", "torch+graph"]
NAMED = ["torch+compile"]
AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
FIRST_PIECE = 4
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
DDP_WARM_UP = 11  # steps before a capture, as torch asks for


@dataclasses.dataclass(frozen=True)
class TrainShape:
    """A line of a shape file; bench/train/train_shape.h explains the keys."""

    CHOICES = {"cell": ["lstm", "gru"], "dtype": shape_files.DTYPES, "directions": ["1", "2"],
               "attention": ["additive", "multiplicative"]}
    LEAST = {"seed": 0, "vocabulary": FIRST_PIECE + 1}

    name: str
    cell: str = "lstm"
    vocabulary: int = 32000
    embedding: int = 1024
    hidden: int = 1024
    layers: int = 2
    directions: int = 1
    attention: str = "additive"
    dropout: float = 0.5
    batch: int = 64
    source_time: int = 20
    target_time: int = 20
    dtype: str = "float32"
    seed: int = 1
    device: str = "cpu"

    def check(self):
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}; it must be in [0, 1)")
        if self.directions == 2 and self.hidden % 2:
            raise ValueError(f"hidden is {self.hidden}; an encoder of two directions halves it")

    def config(self):
        return dict(cell=self.cell, embedding=self.embedding, hidden=self.hidden,
                    encoder_layers=self.layers, decoder_layers=self.layers,
                    bidirectional=self.directions == 2, attention=self.attention, dropout=self.dropout)


class Tokens:
    """A batch on the device, always in the same memory, without padding."""

    source_lengths = padding = None
    stops_by_masks = False

    def __init__(self, shape, device):
        self.shape = shape
        self.target_tokens = shape.batch * shape.target_time
        sizes = [shape.source_time, shape.target_time, shape.target_time]
        self.host = [torch.empty(time, shape.batch, dtype=torch.int64) for time in sizes]
        if device.type == "cuda":
            self.host = [tensor.pin_memory() for tensor in self.host]
        self.source, self.target_in, self.target_out = (tensor.to(device) for tensor in self.host)

    def draw(self):
        """Other tokens, on the host."""
        source, target_in, target_out = self.host
        source.random_(FIRST_PIECE, self.shape.vocabulary)
        target_out.random_(FIRST_PIECE, self.shape.vocabulary)
        target_out[-1] = EOS
        target_in[0] = BOS
        target_in[1:] = target_out[:-1]

    def upload(self):
        for host, tensor in zip(self.host, (self.source, self.target_in, self.target_out)):
            tensor.copy_(host, non_blocking=True)


class Training:
    """A model and its optimiser on the shape's device."""

    def __init__(self, shape):
        self.shape = shape
        device = torch.device(shape.device)
        if device.type == "cuda":
            if not torch.cuda.is_available():
                sys.exit("torch finds no GPU here; use --device cpu")
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", device.index or 0)))
            torch.cuda.set_device(device)
        self.device, self.on_gpu = device, device.type == "cuda"
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = shape.dtype == "tf32"
        torch.manual_seed(shape.seed)
        with device if self.on_gpu else contextlib.nullcontext():  # weights are drawn there
            self.model = Seq2Seq(shape.config(), shape.vocabulary, shape.vocabulary, shape.seed)
        self.model.train()
        fused = {"fused": True, "capturable": True} if self.on_gpu else {}
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, **fused)
        self.forward = self.model
        if RANKS > 1:
            self.forward = self.parallel()
            torch.manual_seed(shape.seed + RANK)  # of tokens and dropout
        self.tokens = Tokens(shape, device)
        self.loss = None

    def parallel(self):
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl" if self.on_gpu else "gloo")
        if not self.on_gpu:
            return torch.nn.parallel.DistributedDataParallel(self.model)
        side = torch.cuda.Stream()  # made where it may be captured later
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model = torch.nn.parallel.DistributedDataParallel(
                self.model, device_ids=[self.device.index], gradient_as_bucket_view=True, static_graph=True)
        torch.cuda.current_stream().wait_stream(side)
        return model

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        reduced = AUTOCAST.get(self.shape.dtype)
        with torch.autocast(self.device.type, reduced) if reduced else contextlib.nullcontext():
            loss = self.forward(self.tokens, 0)[0] / self.tokens.target_tokens
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        self.loss = loss.detach()

    def capture(self):
        if not self.on_gpu:
            raise common.Declined("CUDA graphs are a GPU's")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as torch asks for before a capture
            for _ in range(DDP_WARM_UP if RANKS > 1 else common.WARM_UP):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph

    def milliseconds_of(self, action):
        self.tokens.draw()

        def step():
            self.tokens.upload()
            action()

        return torch_common.milliseconds_of(step, self.on_gpu)


def run(shape, implementation, repeats):
    training = Training(shape)
    training.tokens.draw()
    training.tokens.upload()
    if training.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    if implementation == "torch+compile":
        training.forward = torch_common.compiled(training.model)
    graphed = implementation == "torch+graph" or implementation == "torch+compile" and training.on_gpu
    graph = training.capture() if graphed else None
    action = graph.replay if graph else training.step
    for _ in range(common.WARM_UP):
        training.milliseconds_of(action)
    milliseconds = common.median([training.milliseconds_of(action) for _ in range(repeats)])
    loss = training.loss.item()
    if not math.isfinite(loss):
        sys.exit(f"{shape.name} in {shape.dtype}: the loss is {loss}")
    row = {key: value for key, value in dataclasses.asdict(shape).items() if key != "cell"}
    row.update({
        "cell": "seq2seq", "recurrent_cell": shape.cell, "device": str(training.device),
        "device_model": torch.cuda.get_device_name() if training.on_gpu else str(training.device),
        "pass": "training step", "implementation": implementation, "peer": True, "default": False,
        "milliseconds": milliseconds, "pairs_per_second": RANKS * shape.batch / milliseconds * 1e3,
        "tokens_per_second":
            RANKS * shape.batch * (shape.source_time + shape.target_time) / milliseconds * 1e3,
        "peak_bytes": torch.cuda.max_memory_allocated() if training.on_gpu else None,
        "parameters": sum(parameter.numel() for parameter in training.model.parameters()),
        "loss": loss, "threads": torch.get_num_threads(), "cpu": common.cpu_model(),
        "commit": common.commit(), "library": torch_common.name_and_version()})
    if RANKS > 1:
        row["ranks"] = RANKS
    return row


def main():
    arguments = common.read_arguments(common.argument_parser(__doc__, IMPLEMENTATIONS), IMPLEMENTATIONS, NAMED)
    if RANK > 0:
        arguments.json = None
        sys.stdout = open(os.devnull, "w")
    print(f"{'shape':<16} {'dtype':<9} {torch_common.name_and_version():<30} {'ms':>10} {'pairs/s':>10} "
          f"{'peak MiB':>9} {'loss':>8}")
    try:
        shapes = shape_files.read_shapes(arguments.shapes, arguments.dtype, arguments.device, TrainShape)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    common.run_shapes(arguments, shapes, run, lambda row: (
        f"{row['milliseconds']:>10.3f} {row['pairs_per_second']:>10.0f} "
        f"{torch_common.mebibytes(row['peak_bytes']):>9} {row['loss']:>8.3f}"))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
