"""Tests of this peer itself."""

import itertools
import json
import pathlib
import tempfile

import torch

from .captured import padded
from .config import DEFAULTS
from .data import Batch, Examples, SplitMix, batches_of_epoch, read_ids
from .tagger import Crf
from .training import make_model, make_optimizer, train_step


def same_losses(model, case, batches):
    """Trains on `batches`, over and over, and compares with the losses of the case."""
    options = {**DEFAULTS["training"], **{key: case[key] for key in DEFAULTS["training"] if key in case}}
    optimizer = make_optimizer(model.parameters(), options)
    worst = 0
    for step, wanted in enumerate(case["losses"]):
        batch = batches[step % case["batches"]]
        loss = train_step(model, optimizer, batch, options, options["learning_rate"])
        worst = max(worst, abs(loss.item() / wanted - 1))
    print(f"{case['name']}: largest relative difference of {len(case['losses'])} losses {worst:.2e}")
    # float32 in two orders of summing, over 100 steps.
    assert worst < 1e-4, case["name"]


def config_of(case, kind):
    config = {"model": {**DEFAULTS["model"], "kind": kind, "dropout": 0.0},
              "training": dict(DEFAULTS["training"])}
    for section in config.values():
        section.update({key: case[key] for key in section if key in case})
    return config


def check_goldens():
    """These models, batched and packed, against those of the goldens, a row and step at a time."""
    import language_model_losses
    import losses
    import seq2seq_losses
    import stack_losses
    import tagger_losses
    for kind, goldens, batches_of in [("seq2seq", seq2seq_losses, pair_batches),
                                      ("language_model", language_model_losses, text_batches),
                                      ("tagger", tagger_losses, tagged_batches),
                                      ("classifier", stack_losses, classified_batches)]:
        for case in losses.golden_of(goldens.__file__)["cases"]:
            if case.get("features") or case.get("projections") or case.get("class_weights"):
                continue  # these models read tokens, start from zero, and have neither of the others
            if case["cell"] not in ("lstm", "gru"):
                continue
            config = config_of(case, kind)
            config["model"]["tie_embeddings"] = "decoder" if case.get("tied") else "none"
            examples = batches_of(goldens, case)
            model = make_model(config, examples.vocabularies)
            rows = examples.rows_in_order or case["rows"]
            batches = [Batch(examples, list(range(begin, begin + rows)), torch.device("cpu"))
                       for begin in range(0, len(examples), rows)]
            same_losses(model, case, batches)


def pair_batches(goldens, case):
    pairs = [pair for batch in range(case["batches"]) for pair in goldens.tokens(case, batch)]
    return Examples("seq2seq", (case["source_vocabulary"], case["target_vocabulary"]), pairs)


def text_batches(goldens, case):
    vocabularies, bptt = (case["vocabulary"],) * 2, case["bptt"]
    if bptt:
        pieces = [[side[batch * bptt:(batch + 1) * bptt] for side in stretch]
                  for batch in range(case["batches"]) for stretch in goldens.stretches(case)]
        return Examples("language_model", vocabularies, pieces, case["rows"])
    pairs = [row[1:] for batch in range(case["batches"]) for row in goldens.ragged_rows(case, batch)]
    return Examples("language_model", vocabularies, pairs)


def tagged_batches(goldens, case):
    pairs = [pair for batch in range(case["batches"]) for pair in goldens.sentences(case, batch)]
    return Examples("tagger", (case["vocabulary"], case["labels"]), pairs)


def classified_batches(goldens, case):
    pairs = [tuple(side.tolist() for side in row) for batch in range(case["batches"])
             for row in goldens.examples(case, batch)]
    return Examples("classifier", (case["vocabulary"], case["outputs"]), pairs)


def check_crf():
    """Partition and best path against all paths, one by one; rows of many lengths."""
    torch.manual_seed(3)
    crf = Crf(3)
    for parameter in crf.parameters():
        parameter.data.normal_()
    emissions, lengths = torch.randn(4, 5, 3), [4, 1, 2, 3, 4]
    counts = torch.arange(4)[:, None] < torch.tensor(lengths)[None, :]
    partition, best = crf.log_partition(emissions, counts), crf.best(emissions, counts)
    for row, length in enumerate(lengths):
        paths = list(itertools.product(range(3), repeat=length))
        scores = torch.stack([crf.start[path[0]] + crf.end[path[-1]]
                              + sum(emissions[t, row, label] for t, label in enumerate(path))
                              + sum(crf.transitions[a, b] for a, b in zip(path, path[1:]))
                              for path in paths])
        assert abs(torch.logsumexp(scores, 0) - partition[row]) < 1e-4
        assert tuple(best[:length, row].tolist()) == paths[int(scores.argmax())]


def check_padded():
    """A batch padded to a capacity has the loss of the one without, where no layer runs backwards."""
    one_way = dict(hidden=8, embedding=4, bidirectional=False)
    same_when_padded(one_way, "language_model", [([2, 5, 6], [5, 6, 3]), ([2, 7], [7, 3])], (0, 4, 16))
    tagged, classified = [([5, 6, 4], [1, 0, 2]), ([7], [2])], [([5, 6, 4], [1]), ([7], [2])]
    for output in ("crf", "softmax"):
        same_when_padded({**one_way, "output": output}, "tagger", tagged, (4, 4, 16))
    for pooling in ("last", "mean", "max", "attention"):
        same_when_padded({**one_way, "pooling": pooling}, "classifier", classified, (4, 1, 16))


def same_when_padded(case, kind, pairs, padded):
    examples = Examples(kind, (9, 9), pairs)
    model = make_model(config_of(case, kind), examples.vocabularies)
    cpu = torch.device("cpu")
    losses = [model(Batch(examples, [0, 1], cpu, capacity), 0)[0] for capacity in (None, padded)]
    assert losses[0] > 0 and abs(losses[0] / losses[1] - 1) < 1e-6, case


def check_masks():
    """So has one with masks, in both directions: loss and gradients of sentences and of pairs."""
    cpu = torch.device("cpu")
    pairs = [([5, 6, 4, 7], [1, 0, 2, 1]), ([4, 8], [0, 2]), ([6], [1])]
    for kind, own in [("tagger", dict(layers=2)), ("tagger", dict(cell="gru", output="softmax")),
                      ("seq2seq", dict(encoder_layers=2, decoder_layers=2))]:
        examples = Examples(kind, (9, 9 if kind == "seq2seq" else 3), pairs)
        config = config_of(dict(hidden=8, embedding=4, **own), kind)
        model = make_model(config, examples.vocabularies)
        found = []
        for batch in (Batch(examples, [0, 1, 2], cpu), padded(examples, [0, 1, 2], cpu)[1]):
            loss = model(batch, 0)[0]
            found.append([loss.detach()[None], *(gradient.flatten() for gradient in
                                                 torch.autograd.grad(loss, [*model.parameters()]))])
        assert all(torch.allclose(*both, rtol=1e-4, atol=1e-6) for both in zip(*found)), own


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
        examples = read_ids(paths[0], "seq2seq")
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


def check_tagger_run(main):
    """Labels and F1: a tagger learns that some tokens are entities."""
    random = SplitMix(6, 0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder) / name for name in ("train.ids", "valid.ids", "out.json", "labels")]
        paths[3].write_text("B-x\nI-x\nO\n")
        for path, count in zip(paths, (300, 40)):
            lines = ["# vocabulary 12 3"]
            for _ in range(count):
                tokens = [4 + random.below(8) for _ in range(1 + random.below(7))]
                inside = [token < 7 for token in tokens]
                labels = [2 if not own else 1 if before else 0
                          for own, before in zip(inside, [False, *inside])]
                lines.append(" ".join(map(str, tokens)) + "\t" + " ".join(map(str, labels)))
            path.write_text("\n".join(lines) + "\n")
        main(["--train", str(paths[0]), "--valid", str(paths[1]), "--test", str(paths[1]), "--labels",
              str(paths[3]), "--json", str(paths[2]), "--epochs", "10", "--set", "model.kind=tagger",
              "--set", "model.hidden=16", "--set", "model.embedding=8", "--set",
              "training.max_tokens=200", "--set", "training.learning_rate=0.02", "--set",
              "training.keep_best=f1"])
        result = json.loads(paths[2].read_text())
        assert result["test"]["f1"] > 0.95 and result["test"]["f1"] == result["best"]["f1"], result
