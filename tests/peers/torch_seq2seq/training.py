"""The run: what src/training/trainer.cpp does."""

import math
import sys
import time

import torch
from torch import nn

from .data import Batch, batches_of_epoch, cut, sort_by_length
from .model import Seq2Seq


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


def make_optimizer(parameters, options):
    if options["optimizer"] == "adam":
        return torch.optim.AdamW(parameters, betas=(options["beta1"], options["beta2"]),
                                 eps=options["epsilon"], weight_decay=options["weight_decay"])
    return torch.optim.SGD(parameters, lr=1.0, momentum=options["momentum"],
                           weight_decay=options["weight_decay"])


def train_step(model, optimizer, batch, options, learning_rate):
    """The loss per target token before the update, on the device."""
    model.train()
    optimizer.zero_grad(set_to_none=True)
    loss = model(batch, options["label_smoothing"])[0] / batch.target_tokens
    loss.backward()
    if options["clip_norm"] > 0:
        nn.utils.clip_grad_norm_(model.parameters(), options["clip_norm"])
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.step()
    return loss.detach()


def validate(model, examples, options, device):
    """-log p per target token, end of sentence counted, without smoothing."""
    model.eval()
    order = sort_by_length(range(len(examples)), examples, 0)[::-1]
    total, tokens = 0.0, 0
    with torch.no_grad():
        for rows in cut(order, examples, options):
            batch = Batch(examples, rows, device)
            total += model(batch, 0)[1].double()
            tokens += batch.target_tokens
    return float(total) / tokens


class Run:
    def __init__(self, config, vocabularies, train, valid, device):
        self.options = config["training"]
        self.train, self.valid, self.device = train, valid, device
        torch.manual_seed(self.options["seed"])
        self.model = Seq2Seq(config["model"], *vocabularies, self.options["seed"]).to(device)
        self.optimizer = make_optimizer(self.model.parameters(), self.options)
        self.learning_rate = LearningRate(self.options)
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self.validations, self.best = [], None
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
                self.train_batch(Batch(self.train, rows, self.device))
                if self.step % every == 0 if every else number == len(batches):
                    self.note(epoch)
                if self.done():
                    break
        if self.losses:
            self.note(epoch, scheduled=False)

    def train_batch(self, batch):
        self.step += 1
        self.losses.append(train_step(self.model, self.optimizer, batch, self.options,
                                      self.learning_rate.at(self.step)))
        self.tokens += batch.source_tokens + batch.target_tokens

    def note(self, epoch, scheduled=True):
        """Validates; off the schedule, at the end of a run, with no bearing on rate and patience."""
        losses = torch.stack(self.losses).tolist()  # waits for the device
        self.seconds += time.perf_counter() - self.begin
        train_loss = sum(losses) / len(losses)
        self.step_losses += losses
        loss = validate(self.model, self.valid, self.options, self.device)
        if not math.isfinite(loss):
            sys.exit(f"the validation loss after step {self.step} is {loss}: training diverged")
        rate = self.learning_rate.at(self.step)
        improved = self.best is None or loss < self.best["loss"]
        self.validations.append(dict(epoch=epoch, step=self.step, train_loss=train_loss, loss=loss,
                                     perplexity=math.exp(loss), learning_rate=rate,
                                     training_seconds=self.seconds))
        if improved:
            self.best = self.validations[-1]
        if scheduled:
            self.stalled = 0 if improved else self.stalled + 1
            if self.options["schedule"] == "plateau":
                self.learning_rate.validated(loss)
        print(f"epoch {epoch}, step {self.step}: training loss {train_loss:.4f}, held-out loss "
              f"{loss:.4f}, perplexity {math.exp(loss):.3f}, learning rate {rate:.3g}, "
              f"{self.tokens / self.seconds:.0f} tokens/s", flush=True)
        self.losses, self.begin = [], time.perf_counter()
