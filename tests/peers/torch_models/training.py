"""The run: what src/training/trainer.cpp does."""

import math
import sys
import time

import torch
from torch import nn

from .captured import CapturedSteps
from .classifier import Classifier
from .data import IGNORED, Batch, batches_of_epoch, sorted_batches
from .entities import f1
from .language_model import LanguageModel
from .seq2seq import Seq2Seq
from .tagger import Tagger


def make_model(config, vocabularies):
    model, seed = config["model"], config["training"]["seed"]
    if model["kind"] == "language_model":
        return LanguageModel(model, vocabularies[1], seed, carries=config["training"]["bptt"] > 0)
    kinds = dict(seq2seq=Seq2Seq, tagger=Tagger, classifier=Classifier)
    return kinds[model["kind"]](model, *vocabularies, seed)


class LearningRate:
    def __init__(self, options):
        self.options, self.factor, self.best, self.stalled = options, 1.0, None, 0

    def at(self, step):
        options = self.options
        rate, warmup = options["learning_rate"], options["warmup_steps"]
        if step <= warmup:
            rate *= step / warmup
        elif options["schedule"] == "inverse_sqrt":
            rate *= math.sqrt(warmup / step)
        elif options["schedule"] == "cosine":
            least, done = options["min_learning_rate"], (step - warmup) / options["decay_steps"]
            rate = least + (rate - least) * (1 + math.cos(math.pi * min(done, 1))) / 2
        if options["schedule"] != "plateau":
            return rate
        return max(rate * self.factor, min(rate, options["min_learning_rate"]))

    def validated(self, metric):
        if self.best is None or metric < self.best:
            self.best, self.stalled = metric, 0
            return
        self.stalled += 1
        if self.stalled >= self.options["plateau_patience"]:
            self.stalled = 0
            self.factor *= self.options["plateau_factor"]


def make_optimizer(parameters, options, **how):
    """`how` says to torch which of its implementations to take."""
    if options["optimizer"] == "adam":
        return torch.optim.AdamW(parameters, betas=(options["beta1"], options["beta2"]),
                                 eps=options["epsilon"], weight_decay=options["weight_decay"], **how)
    return torch.optim.SGD(parameters, lr=1.0, momentum=options["momentum"],
                           weight_decay=options["weight_decay"], **how)


def update(model, optimizer, batch, options, factor):
    """A step; the batch's loss times `factor` before it, on the device."""
    optimizer.zero_grad(set_to_none=True)
    loss = model(batch, options["label_smoothing"])[0] * factor
    loss.backward()
    if options["clip_norm"] > 0:
        nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
    optimizer.step()
    return loss.detach()


def train_step(model, optimizer, batch, options, learning_rate):
    """The loss per target token before the update, on the device."""
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    return update(model, optimizer, batch, options, 1 / batch.target_tokens)


def labels_of(batch, given, names):
    """Names of the wanted and of the given labels [time, rows], row by row."""
    counts = (batch.target_out != IGNORED).sum(0).tolist()
    for row, (count, wanted, own) in enumerate(zip(counts, batch.target_out.T.tolist(),
                                                   given.T.tolist())):
        if row < batch.rows:
            yield [names[label] for label in wanted[:count]], [names[label] for label in own[:count]]


def validate(model, examples, options, device, labels=None):
    """Per target, without smoothing: loss (-log p) and what follows from it; the accuracy of a
    classifier; with the names of labels the F1 of entities, too."""
    model.eval()
    total, tokens, correct, tagged = 0.0, 0, 0, []
    with torch.no_grad():
        for rows in sorted_batches(examples, options):
            batch = Batch(examples, rows, device)
            total += model(batch, 0)[1].double()
            tokens += batch.target_tokens
            if examples.kind == "classifier":
                correct += (model.best_labels(batch) == batch.target_out).sum().item()
            if labels:
                tagged += labels_of(batch, model.best_labels(batch), labels)
    loss = float(total) / tokens
    metrics = dict(loss=loss, perplexity=math.exp(loss), bits_per_token=loss / math.log(2))
    if examples.kind == "classifier":
        metrics["accuracy"] = correct / tokens
    if labels:
        metrics["f1"] = f1(*zip(*tagged))
    return metrics


class Run:
    def __init__(self, config, train, valid, device, labels=None, captured=False, dtype=None):
        """`labels`: names of a tagger's. `captured`: steps are CUDA graphs. `dtype`: what autocast
        computes the model's losses in, over float32 weights."""
        self.options = config["training"]
        self.train, self.valid, self.device, self.labels = train, valid, device, labels
        torch.manual_seed(self.options["seed"])
        self.model = make_model(config, train.vocabularies).to(device)
        if dtype:
            self.model.forward = torch.autocast(device.type, dtype)(self.model.forward)
        self.optimizer = make_optimizer(self.model.parameters(), self.options)
        self.learning_rate = LearningRate(self.options)
        self.captured = CapturedSteps(self.update, self.optimizer, device) if captured else None
        self.pieces = {}  # of running text, by their first row: the same batches in every epoch
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.validations, self.best, self.best_weights = [], None, None
        self.stalled, self.step_losses = 0, []

    def done(self):
        most, patience = self.options["max_steps"], self.options["patience"]
        return (most and self.step >= most) or (patience and self.stalled >= patience)

    def run(self):
        options = self.options
        every, epochs = options["validate_every"], options["max_epochs"]
        epoch = 0
        self.losses, self.begin = [], time.perf_counter()
        while not self.done() and (epochs == 0 or epoch < epochs):
            epoch += 1
            batches = batches_of_epoch(self.train, options, epoch - 1)
            for number, rows in enumerate(batches, start=1):
                self.train_rows(rows)
                if self.step % every == 0 if every else number == len(batches):
                    self.note(epoch)
                if self.done():
                    break
        if self.losses:
            self.note(epoch, scheduled=False)

    def update(self, batch, factor):
        return update(self.model, self.optimizer, batch, self.options, factor)

    def train_rows(self, rows):
        self.step += 1
        rate = self.learning_rate.at(self.step)
        if self.captured:
            self.model.train()
            loss = self.captured(self.train, rows, rate)
        else:
            loss = train_step(self.model, self.optimizer, self.batch(rows), self.options, rate)
        self.losses.append(loss)
        self.tokens += sum(len(column) for row in rows for column in self.train.columns(row)[::2])

    def batch(self, rows):
        if not self.train.rows_in_order:
            return Batch(self.train, rows, self.device)
        if rows[0] not in self.pieces:
            self.pieces[rows[0]] = Batch(self.train, rows, self.device)
        return self.pieces[rows[0]]

    def minimised(self, metrics):
        key = self.options["keep_best"]
        return -metrics[key] if key in ("f1", "accuracy") else metrics[key]

    def note(self, epoch, scheduled=True):
        """Validates; off the schedule, at the end of a run, with no bearing on rate and patience."""
        losses = torch.stack(self.losses).tolist()  # waits for the device
        self.seconds += time.perf_counter() - self.begin
        train_loss = sum(losses) / len(losses)
        self.step_losses += losses
        metrics = self.evaluate(self.valid)
        if not math.isfinite(metrics["loss"]):
            sys.exit(f"the validation loss after step {self.step} is {metrics['loss']}: training "
                     "diverged")
        rate = self.learning_rate.at(self.step)
        improved = self.best is None or self.minimised(metrics) < self.minimised(self.best)
        self.validations.append(dict(epoch=epoch, step=self.step, train_loss=train_loss,
                                     learning_rate=rate, training_seconds=self.seconds, **metrics))
        if improved:
            self.best = self.validations[-1]
            self.best_weights = {name: value.clone()
                                 for name, value in self.model.state_dict().items()}
        if scheduled:
            self.stalled = 0 if improved else self.stalled + 1
            if self.options["schedule"] == "plateau":
                self.learning_rate.validated(self.minimised(metrics))
        told = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        print(f"epoch {epoch}, step {self.step}: training loss {train_loss:.4f}, held-out {told}, "
              f"learning rate {rate:.3g}, {self.tokens / self.seconds:.0f} tokens/s", flush=True)
        self.losses, self.begin = [], time.perf_counter()

    def evaluate(self, examples):
        return validate(self.model, examples, self.options, self.device, self.labels)

    def restore_best(self):
        self.model.load_state_dict(self.best_weights)
