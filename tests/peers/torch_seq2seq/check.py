"""Tests of this peer itself."""

import json
import pathlib
import tempfile

import torch

from .config import DEFAULTS
from .data import Batch, SplitMix, batches_of_epoch, read_ids
from .model import Seq2Seq
from .training import make_optimizer, train_step

GOLDEN = pathlib.Path(__file__).parents[1] / "goldens" / "seq2seq_losses.json"


def check_goldens():
    """This model, batched and packed, against that of seq2seq_losses.py, a row and step at a time."""
    import seq2seq_losses as goldens
    for case in json.loads(GOLDEN.read_text())["cases"]:
        config = {"model": {**DEFAULTS["model"], "dropout": 0.0}, "training": dict(DEFAULTS["training"])}
        for section in config.values():
            section.update({key: case[key] for key in section if key in case})
        model = Seq2Seq(config["model"], case["source_vocabulary"], case["target_vocabulary"],
                        case["seed"])
        options = config["training"]
        optimizer = make_optimizer(model.parameters(), options)
        worst = 0
        for step, wanted in enumerate(case["losses"]):
            examples = goldens.tokens(case, step % case["batches"])
            batch = Batch(examples, range(len(examples)), torch.device("cpu"))
            loss = train_step(model, optimizer, batch, options, options["learning_rate"])
            worst = max(worst, abs(loss.item() / wanted - 1))
        print(f"{case['name']}: largest relative difference of {len(case['losses'])} losses "
              f"{worst:.2e}")
        # float32 in two orders of summing, over 100 steps.
        assert worst < 1e-4, case["name"]


def check_run(main):
    """Files in, perplexities out: `main`, the command line, learns a small copying task."""
    random = SplitMix(5, 0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("train.ids", "valid.ids", "out.json")]
        for path, count in zip(paths, (600, 50)):
            lines = ["# vocabulary 12 12"]
            for _ in range(count):
                ids = " ".join(str(4 + random.below(8)) for _ in range(1 + random.below(5)))
                lines.append(f"{ids}\t{ids}")
            path.write_text("\n".join(lines) + "\n")
        examples = read_ids(paths[0])[1]
        options = {**DEFAULTS["training"], "max_tokens": 150, "pool": 100}
        rows = [row for batch in batches_of_epoch(examples, options, 3) for row in batch]
        assert sorted(rows) == list(range(600)), "an epoch is not every example once"
        main(["--train", str(paths[0]), "--valid", str(paths[1]), "--json", str(paths[2]),
              "--epochs", "6", "--set", "model.hidden=32", "--set", "model.embedding=16",
              "--set", "model.dropout=0.05", "--set", "training.max_tokens=150", "--set",
              "training.learning_rate=0.01", "--set", "training.schedule=plateau", "--set",
              "training.label_smoothing=0.05"])
        result = json.loads(paths[2].read_text())
        assert len(result["validations"]) == 6 and result["final"]["perplexity"] < 2, result
