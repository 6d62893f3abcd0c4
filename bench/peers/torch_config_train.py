#!/usr/bin/env python3
"""Measures whole training steps in torch of what `sluice bench train --config` measures.

The models are those of tests/peers/torch_models, the batches the first ones of the first epoch, the
same as there; they lie ready in pinned memory, and a round is a step on each. Implementations:

  torch        eager; batches as they are, rows packed where a layer runs in both directions
  torch+graph  on a GPU: a step is a CUDA graph. As packing takes lengths on the host, batches are
               padded (times to multiples of 4, rows of 16, as Sluice pads) and layers run over the
               padding, for one graph to serve all batches of a shape. That is other numbers where
               layers run backwards, at the cost of what would be right.

  torch+compile
               only if --impl names it: forward and backward by torch.compile, on a GPU in graphs as
               torch+graph; it compiles for minutes

A step clips and runs fused Adam; bfloat16 and float16 are autocast over float32 weights (float16
without loss scaling). Times are by CUDA events, medians of rounds.

    sluice data ids examples/smiles.toml -o smiles.ids
    torch_config_train.py --config examples/smiles.toml --ids smiles.ids --device cuda --json torch.json
"""

import argparse
import contextlib
import copy
import math
import os
import pathlib
import sys

import torch

import common
import shape_files
import torch_common

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests/peers"))

from torch_models.config import read_config  # noqa: E402
from torch_models.data import Batch, batches_of_epoch, read_ids  # noqa: E402
from torch_models.training import make_model, make_optimizer  # noqa: E402

IMPLEMENTATIONS = ["torch", "torch+graph"]
NAMED = ["torch+compile"]
AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}
TIME_STEP, ROW_STEP = 4, 16


def round_up(number, step):
    return (number + step - 1) // step * step


def capacity_of(batch):
    """(source time, target time, rows) that the batch is padded to."""
    times = [0 if tensor is None else len(tensor) for tensor in (batch.source, batch.target_out)]
    return (*(time if time <= 1 else round_up(time, TIME_STEP) for time in times),
            round_up(batch.rows, ROW_STEP))


class Training:
    """A model, its optimiser and the batches of a round."""

    def __init__(self, arguments, config, examples):
        self.options, self.dtype = config["training"], arguments.dtype
        self.device = torch.device(arguments.device)
        self.on_gpu = self.device.type == "cuda"
        torch.manual_seed(self.options["seed"])
        self.model = make_model(config, examples.vocabularies).to(self.device).train()
        self.forward = self.model
        self.optimizer = make_optimizer(self.model.parameters(), self.options,
                                        **({"fused": True} if self.on_gpu else {}))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options["learning_rate"]
            group["capturable"] = self.on_gpu
        self.examples = examples
        rows = batches_of_epoch(examples, self.options, 0)[:arguments.batches]
        self.rows, self.batches = rows, [self.pinned(Batch(examples, own, "cpu")) for own in rows]
        # Of its own, so that no replay of another graph writes over it.
        self.loss = torch.zeros((), device=self.device)

    def pinned(self, batch):
        for name in batch.TENSORS if self.on_gpu else ():
            if getattr(batch, name) is not None:
                setattr(batch, name, getattr(batch, name).pin_memory())
        return batch

    def step(self, batch, scale):
        self.optimizer.zero_grad(set_to_none=True)
        reduced = AUTOCAST.get(self.dtype)
        with torch.autocast(self.device.type, reduced) if reduced else contextlib.nullcontext():
            loss = self.forward(batch, self.options["label_smoothing"])[0] * scale
        loss.backward()
        if self.options["clip_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options["clip_norm"])
        self.optimizer.step()
        self.loss.copy_(loss.detach())

    def eager_round(self):
        for batch in self.batches:
            self.step(copy.copy(batch).to(self.device), 1 / batch.target_tokens)

    def captured_round(self):
        """A function that runs the round out of graphs."""
        if not self.on_gpu:
            raise common.Declined("CUDA graphs are a GPU's")
        graphs, pool, steps = {}, torch.cuda.graph_pool_handle(), []
        for rows, batch in zip(self.rows, self.batches):
            capacity = capacity_of(batch)
            host = self.pinned(Batch(self.examples, rows, "cpu", capacity))
            host.begins = False  # of running text, as all but one batch of an epoch
            if capacity not in graphs:
                graphs[capacity] = self.capture(host, pool)
            scale = torch.tensor(1 / host.target_tokens).pin_memory()
            steps.append((*graphs[capacity], host, scale))

        def run():
            for graph, batch, factor, host, scale in steps:
                for name in host.TENSORS:
                    if getattr(host, name) is not None:
                        getattr(batch, name).copy_(getattr(host, name), non_blocking=True)
                factor.copy_(scale, non_blocking=True)
                graph.replay()

        return run

    def capture(self, host, pool):
        """(graph, its batch and the factor of its loss on the device)"""
        batch = copy.copy(host).to(self.device)
        factor = torch.tensor(1 / host.target_tokens, device=self.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as torch asks for before a capture
            for _ in range(2):
                self.step(batch, factor)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self.step(batch, factor)
        return graph, batch, factor


def run(arguments, path, config, examples, implementation):
    training = Training(arguments, config, examples)
    if training.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    if implementation == "torch+compile":
        training.forward = torch_common.compiled(training.model)
    graphed = implementation == "torch+graph" or implementation == "torch+compile" and training.on_gpu
    action = training.captured_round() if graphed else training.eager_round
    times = [torch_common.milliseconds_of(action, training.on_gpu)
             for _ in range(common.WARM_UP + arguments.repeats)][common.WARM_UP:]
    milliseconds, batches = common.median(times), training.batches
    loss = training.loss.item()
    if not math.isfinite(loss):
        sys.exit(f"{path} in {arguments.dtype}: the loss is {loss}")
    source, target = (sum(tokens) for tokens in zip(*((batch.source_tokens, batch.target_tokens)
                                                      for batch in batches)))
    count = sum(batch.rows for batch in batches)
    return {
        "name": path.stem, "cell": config["model"]["kind"], "batches": len(batches),
        "examples": count, "source_tokens": source, "target_tokens": target,
        "dtype": arguments.dtype, "milliseconds": milliseconds / len(batches),
        "examples_per_second": count / milliseconds * 1e3, "device": str(training.device),
        "device_model": torch.cuda.get_device_name() if training.on_gpu else str(training.device),
        "pass": "training step", "implementation": implementation, "peer": True, "default": False,
        "tokens_per_second": (source + target) / milliseconds * 1e3,
        "peak_bytes": torch.cuda.max_memory_allocated() if training.on_gpu else None,
        "parameters": sum(parameter.numel() for parameter in training.model.parameters()),
        "loss": loss, "threads": torch.get_num_threads(), "cpu": common.cpu_model(),
        "commit": common.commit(), "library": torch_common.name_and_version()}


def print_row(row):
    print(f"{row['name']:<16} {row['dtype']:<9} {row['implementation']:<30} "
          f"{row['milliseconds']:>10.3f} {row['examples_per_second']:>11.0f} "
          f"{row['tokens_per_second']:>12.0f} {torch_common.mebibytes(row['peak_bytes']):>9} "
          f"{row['loss']:>8.3f}", flush=True)


def measure(arguments):
    results = []
    print(f"{'configuration':<16} {'dtype':<9} {torch_common.name_and_version():<30} {'ms':>10} "
          f"{'pairs/s':>11} {'tokens/s':>12} {'peak MiB':>9} {'loss':>8}")
    for path, folder in zip(arguments.config, arguments.ids):
        config = read_config(path, arguments.set)
        examples = read_ids(folder / "train.ids", config["model"]["kind"])
        for implementation in arguments.implementations:
            try:
                row = run(arguments, path, config, examples, implementation)
            except common.Declined as error:
                print(f"# {path.stem}: {implementation} declines: {error}")
                continue
            print_row(row)
            results.append(row)
            if arguments.json:
                common.write_results(arguments.json, results)
    if not results:
        sys.exit("no configuration could run")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=pathlib.Path, action="append", required=True,
                        help="training configuration; may be repeated")
    parser.add_argument("--ids", type=pathlib.Path, action="append", required=True,
                        help="folder of its ids, for each configuration")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="override one key of all configurations")
    parser.add_argument("--batches", type=int, default=100, help="of the first epoch that are a round")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--dtype", choices=shape_files.DTYPES, default="float32")
    parser.add_argument("--impl", default="all", help="all, or some of " + ", ".join(IMPLEMENTATIONS))
    parser.add_argument("--repeats", type=int, default=15, help="timed rounds")
    parser.add_argument("--json", help="file for the results")
    arguments = common.read_arguments(parser, IMPLEMENTATIONS, NAMED)
    if len(arguments.config) != len(arguments.ids):
        parser.error("--ids names a folder for each --config")
    if arguments.device.startswith("cuda"):
        if not torch.cuda.is_available():
            sys.exit("torch finds no GPU here; use --device cpu")
        device = torch.device(arguments.device)
        arguments.device = f"cuda:{device.index or 0}"
        torch.cuda.set_device(device.index or 0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    torch.backends.cudnn.allow_tf32 = arguments.dtype == "tf32"
    measure(arguments)


if __name__ == "__main__":
    main()
