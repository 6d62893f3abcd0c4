#!/usr/bin/env python3
"""Measures whole beam searches of a language model in torch on the shape files of `sluice bench beam`.

The model is that of tests/peers/torch_models, with the weights that Sluice draws from the same seed: nn.LSTM
or nn.GRU between an embedding and an output layer. All beams of all inputs are rows of one batch; choosing,
reordering and tracing back are operations on the device, and nothing waits for the host. Implementations:
torch (eager) and, on a GPU, torch+graph (the whole search captured in a CUDA graph). In bfloat16 and
float16 the whole model is of that type; scores are float32. GPU times are by CUDA events, medians.

    torch_beam_search.py --shapes bench/shapes/beam.shapes --device cuda --dtype bfloat16 --json torch.json
"""

import dataclasses
import math
import os
import pathlib
import sys
import warnings

import torch

import common
import shape_files
import torch_common

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/peers"))

from torch_models.data import BOS, EOS  # noqa: E402
from torch_models.language_model import LanguageModel  # noqa: E402

IMPLEMENTATIONS = ["torch", "torch+graph"]
TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16,
         "float16": torch.float16}
FIRST_PIECE = 4


@dataclasses.dataclass(frozen=True)
class BeamShape:
    """A line of a shape file; bench/decode/beam_shape.h explains the keys."""

    CHOICES = {"cell": ["lstm", "gru"], "dtype": shape_files.DTYPES}
    LEAST = {"seed": 0, "vocabulary": FIRST_PIECE + 1, "steps": 2}

    name: str
    cell: str = "lstm"
    vocabulary: int = 40
    embedding: int = 384
    hidden: int = 384
    layers: int = 3
    inputs: int = 32
    beam: int = 32
    steps: int = 128
    dtype: str = "float32"
    seed: int = 1
    device: str = "cpu"

    def check(self):
        pass

    def config(self):
        return dict(cell=self.cell, embedding=self.embedding, hidden=self.hidden, layers=self.layers,
                    dropout=0, tie_embeddings="none")


class Search:
    """A shape's model on its device, and what the last search found."""

    def __init__(self, shape):
        self.shape = shape
        device = torch.device(shape.device)
        if device.type == "cuda":
            if not torch.cuda.is_available():
                sys.exit("torch finds no GPU here; use --device cpu")
            device = torch.device("cuda", device.index or 0)
            torch.cuda.set_device(device)
        self.device, self.on_gpu = device, device.type == "cuda"
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = shape.dtype == "tf32"
        self.model = LanguageModel(shape.config(), shape.vocabulary, shape.seed)
        self.model.to(device, TYPES[shape.dtype]).eval()
        self.model.recurrent.flatten_parameters()
        # torch leaves bfloat16 as it is, and says so at every call.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous")
        pieces = torch.arange(shape.inputs) % (shape.vocabulary - FIRST_PIECE)
        self.prompt = (pieces + FIRST_PIECE).to(device)
        self.first_row = (torch.arange(shape.inputs) * shape.beam)[:, None].to(device)
        self.forbidden = torch.zeros(shape.vocabulary, device=device)
        self.forbidden[:FIRST_PIECE] = -math.inf
        # At first all beams of an input are one.
        self.begin = torch.full((shape.inputs, shape.beam), -math.inf, device=device)
        self.begin[:, 0] = 0
        self.tokens = self.scores = None

    def log_p(self, tokens, states):
        """float32 [rows, vocabulary] of what follows the tokens [rows], and the states there."""
        y, states = self.model.recurrent(self.model.embedding(tokens)[None], states)
        return torch.log_softmax(self.model.output(y[0]).float(), -1), states

    def reorder(self, states, rows):
        if isinstance(states, tuple):
            return tuple(state.index_select(1, rows) for state in states)
        return states.index_select(1, rows)

    @torch.no_grad()
    def run(self):
        shape = self.shape
        inputs, beam = shape.inputs, shape.beam
        bos = torch.full((inputs,), BOS, device=self.device)
        _, states = self.log_p(bos, None)
        states = self.reorder(states, torch.arange(inputs, device=self.device).repeat_interleave(beam))
        tokens = self.prompt.repeat_interleave(beam)
        scores = self.begin
        chosen, parents = [], []
        for _ in range(shape.steps - 1):
            log_p, states = self.log_p(tokens, states)
            totals = scores[:, :, None] + (log_p + self.forbidden).view(inputs, beam, -1)
            scores, best = totals.view(inputs, -1).topk(beam)
            parent, token = best // shape.vocabulary, best % shape.vocabulary
            states = self.reorder(states, (self.first_row + parent).view(-1))
            tokens = token.view(-1)
            chosen.append(token)
            parents.append(parent)
        log_p, _ = self.log_p(tokens, states)  # nothing but the end is allowed
        scores, at = (scores + log_p[:, EOS].view(inputs, beam)).sort(dim=1, descending=True)
        traced = []
        for token, parent in zip(reversed(chosen), reversed(parents)):
            traced.append(token.gather(1, at))
            at = parent.gather(1, at)
        self.tokens, self.scores = torch.stack(traced[::-1], -1), scores

    def capture(self):
        if not self.on_gpu:
            raise common.Declined("CUDA graphs are a GPU's")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as torch asks for before a capture
            for _ in range(common.WARM_UP):
                self.run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.run()
        return graph


def run(shape, implementation, repeats):
    search = Search(shape)
    if search.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    graph = search.capture() if implementation == "torch+graph" else None
    action = graph.replay if graph else search.run
    for _ in range(common.WARM_UP):
        torch_common.milliseconds_of(action, search.on_gpu)
    milliseconds = common.median([torch_common.milliseconds_of(action, search.on_gpu)
                                  for _ in range(repeats)])
    row = {key: value for key, value in dataclasses.asdict(shape).items() if key != "cell"}
    row.update({
        "cell": "language_model", "recurrent_cell": shape.cell, "device": str(search.device),
        "device_model": torch.cuda.get_device_name() if search.on_gpu else str(search.device),
        "pass": "beam search", "implementation": implementation, "peer": True, "default": False,
        "milliseconds": milliseconds,
        "tokens_per_second": shape.inputs * shape.beam * shape.steps / milliseconds * 1e3,
        "peak_bytes": torch.cuda.max_memory_allocated() if search.on_gpu else None,
        "parameters": sum(parameter.numel() for parameter in search.model.parameters()),
        "best_score": search.scores[:, 0].double().mean().item(), "threads": torch.get_num_threads(),
        "cpu": common.cpu_model(), "commit": common.commit(),
        "library": torch_common.name_and_version()})
    return row


def main():
    arguments = common.read_arguments(common.argument_parser(__doc__, IMPLEMENTATIONS), IMPLEMENTATIONS)
    print(f"{'shape':<16} {'dtype':<9} {torch_common.name_and_version():<30} {'ms':>10} {'tokens/s':>12} "
          f"{'peak MiB':>9} {'best score':>11}")
    try:
        shapes = shape_files.read_shapes(arguments.shapes, arguments.dtype, arguments.device, BeamShape)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
    common.run_shapes(arguments, shapes, run, lambda row: (
        f"{row['milliseconds']:>10.3f} {row['tokens_per_second']:>12.0f} "
        f"{torch_common.mebibytes(row['peak_bytes']):>9} {row['best_score']:>11.4f}"))


if __name__ == "__main__":
    main()
