#!/usr/bin/env python3
"""Trains in torch what `sluice train` trains, to compare the perplexity of held-out text.

The model is that of docs/equations.md with the same initial weights, the batches come in the same
order, and optimiser, clipping, schedule and label smoothing read the same configuration; only
dropout draws other masks. It needs torch alone, on a CPU or a GPU.

    train_torch.py --train train.ids --valid valid.ids --config examples/zh_chat.toml \\
                   --device cuda --json torch.json
    train_torch.py --check      first 100 losses against the goldens, and a small run

An id file has the header line `# vocabulary SOURCE TARGET` (ids of each side, special ones
included) and then an example a line: source ids, a TAB, target ids, decimal with single spaces
between, in the order of the data set and without beginning and end of sentence.
"""

import argparse
import json
import pathlib
import sys

import torch

from torch_seq2seq.check import check_goldens, check_run
from torch_seq2seq.config import read_config
from torch_seq2seq.data import read_ids
from torch_seq2seq.training import Run


def compare(arguments):
    vocabularies, train = read_ids(arguments.train)
    valid_vocabularies, valid = read_ids(arguments.valid)
    if vocabularies != valid_vocabularies:
        sys.exit("the two id files have different vocabularies")
    assignments = list(arguments.set)
    if arguments.epochs is not None:
        assignments.append(f"training.max_epochs={arguments.epochs}")
    config = read_config(arguments.config, assignments)
    device = torch.device(arguments.device)
    run = Run(config, vocabularies, train, valid, device)
    run.run()
    last = run.validations[-1]
    print(f"perplexity on {len(valid)} held-out examples: {last['perplexity']:.4f} after step "
          f"{last['step']}, best {run.best['perplexity']:.4f} after step {run.best['step']}")
    if arguments.json:
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        arguments.json.write_text(json.dumps(dict(
            torch=torch.__version__, device=name, config=config, vocabularies=vocabularies,
            parameters=sum(p.numel() for p in run.model.parameters()), train_examples=len(train),
            valid_examples=len(valid), tokens_per_second=run.tokens / run.seconds, final=last,
            best=run.best, validations=run.validations), indent=1))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, help="id file to train on")
    parser.add_argument("--valid", type=pathlib.Path, help="id file to validate on")
    parser.add_argument("--config", type=pathlib.Path, help="a training's .toml, or the same as .json")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE",
                        help="override one key of the configuration")
    parser.add_argument("--epochs", type=int, help="as --set training.max_epochs=N")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the figures there")
    parser.add_argument("--check", action="store_true", help="test this program and stop")
    arguments = parser.parse_args(argv)
    # float32 throughout, as in sluice: no TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if arguments.check:
        torch.set_num_threads(1)
        check_goldens()
        check_run(main)
        return
    if not arguments.train or not arguments.valid:
        parser.error("--train and --valid are needed")
    compare(arguments)


if __name__ == "__main__":
    main()
