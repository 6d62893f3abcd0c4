"""The models of the *_losses.py scripts in the arithmetic of copies: the same cases, data and initial
weights, whole batches at a time. A model's loss(batch) is [copies], per target."""

import re

import torch

import language_model_losses
import losses
import seq2seq_losses
import stack_losses
import tagger_losses

from .arithmetic import Parameters
from .recurrent import Weights, run_stack, step, zero_states


def padded(rows, fill=0):
    """Lists of numbers or of lists of numbers, one a row -> [longest, rows, ...]"""
    return torch.nn.utils.rnn.pad_sequence([torch.as_tensor(row) for row in rows],
                                           padding_value=fill)


def lengths_of(rows):
    return torch.tensor([len(row) for row in rows])


class Model:
    def __init__(self, copies, case, reference):
        """`reference`: the script's model, for initial weights."""
        self.copies, self.case = copies, case
        self.parameters = Parameters(copies, {
            self.canonical(name): torch.nn.Parameter(value.data.repeat(copies.count, *[1] * value.dim()))
            for name, value in reference.named_parameters()})

    @staticmethod
    def canonical(name):
        return name.replace("weights.", "").replace("/", ".")

    def embed(self, name, tokens):
        """[...] -> [copies, ..., features]"""
        return self.copies.store(self.parameters[name][:, tokens])

    def linear(self, x, weight, bias):
        sums = self.copies.product(x, self.parameters.matrix(weight))
        bias = self.parameters[bias]
        return sums + bias.view(bias.shape[0], *[1] * (x.dim() - 2), -1)

    def stack(self, x, lengths, starts=None):
        return run_stack(self.copies, self.parameters, "recurrent", self.case, self.case["layers"], x,
                         lengths, starts)

    def cross_entropy(self, logits, targets, lengths):
        """Summed over what stands before rows' ends; targets [time, rows]."""
        smoothing, weights = self.case["label_smoothing"], self.case.get("class_weights")
        logp = torch.log_softmax(logits, dim=-1)
        own = -logp.gather(-1, targets.expand(logits.shape[0], *targets.shape)[..., None])[..., 0]
        if weights:
            own = own * torch.tensor(weights)[targets]
        loss = (1 - smoothing) * own - smoothing * logp.mean(dim=-1)
        alive = torch.arange(targets.shape[0])[:, None] < lengths
        return torch.where(alive, loss, torch.zeros(())).sum(dim=(1, 2))


class LanguageModel(Model):
    def __init__(self, copies, case):
        super().__init__(copies, case, language_model_losses.LanguageModel(case))

    def starts(self, features):
        """The states that feature vectors [rows, features] become: h is stored, c is not."""
        features = self.copies.store(features.expand(self.copies.count, *features.shape))
        starts = []
        for layer in range(self.case["layers"]):
            names = ["start_h", "start_c"][:2 if self.case["cell"] == "lstm" else 1]
            states = [torch.tanh(self.linear(features, f"{name}_l{layer}.weight",
                                             f"{name}_l{layer}.bias")) for name in names]
            starts.append([self.copies.store(states[0]), *states[1:]])
        return starts

    def batch(self, index):
        """(features, fed, wanted) tokens of each row."""
        if self.case["bptt"] == 0:
            return zip(*language_model_losses.ragged_rows(self.case, index))
        bptt = self.case["bptt"]
        part = slice(index * bptt, (index + 1) * bptt)
        rows = language_model_losses.stretches(self.case)
        return [[]] * len(rows), [fed[part] for fed, _ in rows], [wanted[part] for _, wanted in rows]

    def loss(self, index):
        features, fed, wanted = self.batch(index)
        starts, lengths = None, lengths_of(wanted)
        if self.case["features"]:
            starts = self.starts(torch.tensor(features))
        elif self.case["bptt"] and index > 0:
            starts = self.carried
        y, states = self.stack(self.embed("embedding.weight", padded(fed)), lengths, starts)
        self.carried = [[state.detach() for state in layer] for layer in states]
        output = "embedding.weight" if self.case["tied"] else "output.weight"
        logits = self.linear(y, output, "output.bias")
        return self.cross_entropy(logits, padded(wanted), lengths) / lengths.sum()


class Tagger(Model):
    def __init__(self, copies, case):
        super().__init__(copies, case, tagger_losses.Tagger(case))

    def loss(self, index):
        tokens, labels = zip(*tagger_losses.sentences(self.case, index))
        lengths, labels = lengths_of(tokens), padded(labels)
        y, _ = self.stack(self.embed("embedding.weight", padded(tokens)), lengths)
        emissions = self.linear(y, "output.weight", "output.bias")
        sums = self.cross_entropy if self.case["output"] == "softmax" else self.crf_loss
        return sums(emissions, labels, lengths) / lengths.sum()

    def crf_loss(self, emissions, labels, lengths):
        transitions, start, end = (self.parameters[f"crf.{name}"]
                                   for name in ("transitions", "start", "end"))
        alpha = start[:, None] + emissions[:, 0]
        own = emissions.gather(-1, labels.expand(emissions.shape[0], *labels.shape)[..., None])[..., 0]
        score = start[:, labels[0]] + own[:, 0]
        last = labels[lengths - 1, torch.arange(len(lengths))]
        for t in range(1, len(labels)):
            longer = torch.logsumexp(alpha[..., None] + transitions[:, None], dim=2) + emissions[:, t]
            alive = (t < lengths)[None]
            alpha = torch.where(alive[..., None], longer, alpha)
            move = transitions[:, labels[t - 1], labels[t]] + own[:, t]
            score = score + torch.where(alive, move, torch.zeros(()))
        partition = torch.logsumexp(alpha + end[:, None], dim=-1)
        return (partition - score - end[:, last]).sum(dim=1)


class Stack(Model):
    """Classifier and features model."""

    def __init__(self, copies, case):
        reference = stack_losses.Model(case)
        super().__init__(copies, case, reference)
        self.mean, self.scale = (getattr(reference, name, None) for name in ("mean", "scale"))

    @staticmethod
    def canonical(name):
        return re.sub(r"layers\.(\d+)\.(\w+)_l0", r"recurrent.\2_l\1", name)

    def loss(self, index):
        case, copies = self.case, self.copies
        sources, targets = zip(*stack_losses.examples(case, index))
        lengths = lengths_of(sources)
        if case["model"] == "classifier":
            x = self.embed("embedding", padded(sources))
        else:
            frames = (padded(sources) - self.mean) * self.scale
            x = copies.store(frames.expand(copies.count, *frames.shape))
        outputs = self.pooled(self.stack(x, lengths)[0], lengths)
        if case["output_layer"]:
            outputs = self.linear(outputs, "weight", "bias")
        steps, targets = lengths_of(targets), padded(targets)
        if case["target"] == "classes":
            return self.cross_entropy(outputs, targets, steps) / steps.sum()
        errors = ((outputs - targets) ** 2).mean(dim=-1)
        alive = torch.arange(targets.shape[0])[:, None] < steps
        return torch.where(alive, errors, torch.zeros(())).sum(dim=(1, 2)) / steps.sum()

    def pooled(self, y, lengths):
        """[copies, time, rows, features] -> the same with a single step, but without pooling."""
        kind = self.case["pooling"]
        if kind == "none":
            return y
        alive = (torch.arange(y.shape[1])[:, None] < lengths)[None, ..., None]
        if kind == "last":
            half = y.shape[-1] // (2 if self.case["bidirectional"] else 1)
            ends = y[:, lengths - 1, torch.arange(len(lengths))]
            result = torch.cat([ends[..., :half], y[:, 0, :, half:]], dim=-1)
        elif kind == "mean":
            result = y.sum(dim=1) / lengths[:, None]  # y is zero past a row's end
        elif kind == "max":
            result = y.masked_fill(~alive, -torch.inf).max(dim=1).values
        else:
            scores = (y * self.parameters["query"][:, None, None]).sum(dim=-1, keepdim=True)
            result = (torch.softmax(scores.masked_fill(~alive, -torch.inf), dim=1) * y).sum(dim=1)
        return self.copies.store(result)[:, None]


class Seq2Seq(Model):
    def __init__(self, copies, case):
        super().__init__(copies, case, seq2seq_losses.Seq2Seq(case))

    def decoder(self, layer):
        return Weights(self.parameters, "decoder", f"l{layer}")

    def loss(self, index):
        case, copies = self.case, self.copies
        sources, targets = zip(*seq2seq_losses.tokens(case, index))
        lengths = lengths_of(sources)
        memory, states = run_stack(copies, self.parameters, "encoder", case, case["encoder_layers"],
                                   self.embed("source_embedding.weight", padded(sources)), lengths)
        fed = self.embed("target_embedding.weight", padded([[2] + row for row in targets]))
        wanted = padded([row + [3] for row in targets])
        rows = len(sources)
        states = [states[layer] if layer < len(states) else
                  zero_states(copies, self.decoder(layer), case["cell"], rows)
                  for layer in range(case["decoder_layers"])]
        attention = Attention(self, memory, lengths) if case["attention"] != "none" else None
        a, outputs = torch.zeros(copies.count, rows, case["hidden"]), []
        for t in range(len(wanted)):
            x = fed[:, t] if attention is None else torch.cat([fed[:, t], a], dim=-1)
            for layer in range(case["decoder_layers"]):
                states[layer] = step(copies, self.decoder(layer), case["cell"], x, states[layer])
                x = states[layer][0]
            a = x if attention is None else attention(x)
            outputs.append(a)
        logits = self.linear(torch.stack(outputs, dim=1), "output.weight", "output.bias")
        steps = lengths_of(targets) + 1
        return self.cross_entropy(logits, wanted, steps) / steps.sum()


class Attention:
    def __init__(self, model, memory, lengths):
        """memory [copies, source time, rows, features]"""
        self.model, self.copies, self.memory = model, model.copies, memory
        self.additive = model.case["attention"] == "additive"
        kind = "memory_weight" if self.additive else "bilinear_weight"
        self.keys = self.copies.store(self.copies.product(memory, self.matrix(kind)))
        self.past = ~(torch.arange(memory.shape[1])[:, None] < lengths)[None, ..., None]

    def matrix(self, name):
        return self.model.parameters.matrix(f"decoder.attention.{name}")

    def vector(self, name):
        return self.model.parameters[f"decoder.attention.{name}"][:, None]

    def __call__(self, h):
        """[copies, rows, hidden] -> the attentional output, of the same shape."""
        if self.additive:
            query = self.copies.store(self.copies.product(h, self.matrix("query_weight")))
            scores = torch.tanh(query[:, None] + self.keys) * self.vector("score_vector")[:, None]
        else:
            scores = self.keys * h[:, None]
        scores = scores.sum(dim=-1, keepdim=True).masked_fill(self.past, -torch.inf)
        context = self.copies.store((torch.softmax(scores, dim=1) * self.memory).sum(dim=1))
        sums = self.copies.product(torch.cat([context, h], dim=-1), self.matrix("output_weight"))
        return self.copies.store(torch.tanh(sums + self.vector("output_bias")))


# The model of each script.
MODELS = [(language_model_losses, LanguageModel), (tagger_losses, Tagger), (stack_losses, Stack),
          (seq2seq_losses, Seq2Seq)]
