#!/usr/bin/env python3
"""Trains in torch what `sluice train` trains, to compare how good the models are.

Models are those of docs/equations.md (seq2seq, language_model, tagger, classifier) with the same
initial weights, the batches come in the same order, and optimiser, clipping, schedule and label smoothing
read the same configuration; only dropout draws other masks. It needs torch alone, on a CPU or a GPU.

    sluice data ids examples/zh_chat.toml -o zh.ids
    train_torch.py --train zh.ids/train.ids --valid zh.ids/valid.ids --config examples/zh_chat.toml \\
                   --device cuda --json torch.json
    train_torch.py --check      first 100 losses against the goldens, and small runs

`sluice data ids --help` says what the files hold. --test measures the best model on further
examples; a tagger's F1 takes --labels, the file labels.txt beside the ids.
"""

import argparse
import json
import pathlib
import sys

import torch

from torch_models.check import (check_crf, check_goldens, check_masks, check_padded,
                                check_run, check_tagger_run)
from torch_models.config import read_config
from torch_models.data import read_ids
from torch_models.training import Run


def compare(arguments):
    assignments = list(arguments.set)
    if arguments.epochs is not None:
        assignments.append(f"training.max_epochs={arguments.epochs}")
    config = read_config(arguments.config, assignments)
    kind = config["model"]["kind"]
    paths = [path for path in (arguments.train, arguments.valid, arguments.test) if path]
    train, valid, *test = [read_ids(path, kind) for path in paths]
    if any(examples.vocabularies != train.vocabularies for examples in (valid, *test)):
        sys.exit("the id files have different vocabularies")
    labels = arguments.labels.read_text().splitlines() if arguments.labels else None
    if config["training"]["keep_best"] == "f1" and not labels:
        sys.exit("training.keep_best is f1, which takes --labels")
    device = torch.device(arguments.device)
    if arguments.captured and (device.type != "cuda" or config["training"]["bptt"]):
        sys.exit("--captured wants a GPU, and examples whose states don't go on")
    dtype = torch.bfloat16 if arguments.dtype == "bfloat16" else None
    run = Run(config, train, valid, device, labels, arguments.captured, dtype)
    run.run()
    report(run, len(valid))
    results = dict(final=run.validations[-1], best=run.best)
    if test:
        run.restore_best()
        results["test"] = run.evaluate(test[0])
        print("test:", ", ".join(f"{name} {value:.4f}" for name, value in results["test"].items()))
    if arguments.json:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        arguments.json.write_text(json.dumps(dict(
            torch=torch.__version__, device=name, dtype=arguments.dtype, config=config, vocabularies=train.vocabularies,
            parameters=sum(p.numel() for p in run.model.parameters()), train_examples=len(train),
            valid_examples=len(valid), tokens_per_second=run.tokens / run.seconds, **results,
            validations=run.validations), indent=1))


def report(run, examples):
    key, last = run.options["keep_best"], run.validations[-1]
    key = "perplexity" if key == "loss" else key
    print(f"{key} on {examples} held-out examples: {last[key]:.4f} after step {last['step']}, best "
          f"{run.best[key]:.4f} after step {run.best['step']}")


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, help="id file to train on")
    parser.add_argument("--valid", type=pathlib.Path, help="id file to validate on")
    parser.add_argument("--test", type=pathlib.Path, help="id file to measure the best model on")
    parser.add_argument("--labels", type=pathlib.Path, help="names of a tagger's labels")
    parser.add_argument("--config", type=pathlib.Path, help="a training's .toml, or the same as .json")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="override one key of the configuration")
    parser.add_argument("--epochs", type=int, help="as --set training.max_epochs=N")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", choices=("float32", "tf32", "bfloat16"), default="float32",
                        help="tf32: of a GPU's products; bfloat16: autocast over float32 weights")
    parser.add_argument("--captured", action="store_true",
                        help="steps as CUDA graphs, the same but for the order of sums")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the figures there")
    parser.add_argument("--check", action="store_true", help="test this program and stop")
    arguments = parser.parse_args(argv)
    # As in sluice, float32 is float32 throughout.
    torch.backends.cuda.matmul.allow_tf32 = arguments.dtype == "tf32"
    torch.backends.cudnn.allow_tf32 = arguments.dtype == "tf32"
    if arguments.check:
        torch.set_num_threads(1)
        check_goldens()
        check_crf()
        check_padded()
        check_masks()
        check_run(main)
        check_tagger_run(main)
        return
    if not arguments.train or not arguments.valid:
        parser.error("--train and --valid are needed")
    compare(arguments)


if __name__ == "__main__":
    main()
