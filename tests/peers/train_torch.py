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
import math
import pathlib
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

BOS, EOS = 2, 3
WORD = (1 << 64) - 1

DEFAULTS = {
    "model": dict(cell="lstm", embedding=256, hidden=256, encoder_layers=1, decoder_layers=1,
                  bidirectional=True, attention="additive", dropout=0.2),
    "training": dict(optimizer="adam", learning_rate=1e-3, schedule="constant", warmup_steps=0,
                     plateau_factor=0.5, plateau_patience=2, min_learning_rate=0.0, beta1=0.9,
                     beta2=0.999, epsilon=1e-8, momentum=0.0, weight_decay=0.0, clip_norm=5.0,
                     label_smoothing=0.0, max_tokens=4096, max_rows=512, pool=8192, max_epochs=20,
                     max_steps=0, seed=1, validate_every=0, keep_best="loss", patience=0),
}


# --- the data: src/data/shuffle.h and src/data/batches.cpp ----------------------------------------

class SplitMix:
    """The generator that orders examples and batches."""

    def __init__(self, seed, stream):
        self.state = self.mix(seed) ^ self.mix(self.mix((stream + 0x9E3779B97F4A7C15) & WORD))

    @staticmethod
    def mix(word):
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        word = (word ^ (word >> 27)) * 0x94D049BB133111EB & WORD
        return word ^ (word >> 31)

    def below(self, bound):
        unfair = ((1 << 64) - bound) % bound
        while True:
            self.state = (self.state + 0x9E3779B97F4A7C15) & WORD
            word = self.mix(self.state)
            if word >= unfair:
                return word % bound

    def shuffle(self, items):
        for left in range(len(items), 1, -1):
            other = self.below(left)
            items[left - 1], items[other] = items[other], items[left - 1]


def sort_by_length(order, examples, phase):
    def key(index):
        source, target = examples[index]
        length_bin = (len(source) + phase) // 2
        return length_bin, len(target) if length_bin % 2 == 0 else -len(target)

    return sorted(order, key=key)


def cut(order, examples, options):
    """Batches of neighbours whose padded tokens fit max_tokens."""
    batches, rows, most_source, most_target = [], [], 0, 0
    for index in order:
        own_source, own_target = len(examples[index][0]), len(examples[index][1])
        source, target = max(most_source, own_source), max(most_target, own_target)
        count = len(rows) + 1
        if count > options["max_rows"] or count * (source + target + 1) > options["max_tokens"]:
            batches.append(rows)
            rows, source, target = [], own_source, own_target
        most_source, most_target = source, target
        rows.append(index)
    return batches + [rows] if rows else batches


def batches_of_epoch(examples, options, epoch):
    order = list(range(len(examples)))
    random = SplitMix(options["seed"], 2 * epoch)
    random.shuffle(order)
    phase = random.below(2)
    batches = []
    for begin in range(0, len(order), options["pool"]):
        part = order[begin:begin + options["pool"]]
        batches += cut(sort_by_length(part, examples, phase), examples, options)
    SplitMix(options["seed"], 2 * epoch + 1).shuffle(batches)
    return batches


def read_ids(path):
    """((source vocabulary, target vocabulary), [(source ids, target ids)])."""
    with open(path, encoding="ascii") as file:
        header = file.readline().split()
        if len(header) != 4 or header[:2] != ["#", "vocabulary"]:
            sys.exit(f"{path}: the first line must be '# vocabulary SOURCE TARGET'")
        vocabularies = int(header[2]), int(header[3])
        examples = []
        for number, line in enumerate(file, start=2):
            columns = [list(map(int, side.split())) for side in line.rstrip("\n").split("\t")]
            if len(columns) != 2 or not all(columns):
                sys.exit(f"{path}, line {number}: not 'source ids TAB target ids'")
            for side, ids in enumerate(columns):
                if min(ids) < 0 or max(ids) >= vocabularies[side]:
                    sys.exit(f"{path}, line {number}: an id outside [0, {vocabularies[side]})")
            examples.append(tuple(columns))
    if not examples:
        sys.exit(f"{path} has no example")
    return vocabularies, examples


class Batch:
    """Padded tensors, time-major as in sluice; lengths also on the host, for packing."""

    def __init__(self, examples, rows, device):
        def matrix(lists):
            longest = max(map(len, lists))
            return torch.tensor([ids + [0] * (longest - len(ids)) for ids in lists]).T.to(device)

        pairs = [examples[row] for row in rows]
        self.source = matrix([source for source, _ in pairs])
        self.target_in = matrix([[BOS] + target for _, target in pairs])
        self.target_out = matrix([target + [EOS] for _, target in pairs])
        self.source_lengths = torch.tensor([len(source) for source, _ in pairs])
        lengths = [len(target) + 1 for _, target in pairs]
        self.target_tokens = sum(lengths)
        self.source_tokens = int(self.source_lengths.sum())
        steps = torch.arange(max(lengths))[:, None]
        self.counts = (steps < torch.tensor(lengths)[None, :]).to(device)
        source_steps = torch.arange(self.source.shape[0])[None, :]
        self.padding = (source_steps >= self.source_lengths[:, None]).to(device)  # [rows, source]


# --- the model ------------------------------------------------------------------------------------

def initial_values(name, count, limit, seed):
    """As layers::Parameters::initialize: Philox4x32-10 keyed by seed and name, counted by element;
    uniform in [-limit, limit]."""
    if limit == 0:
        return torch.zeros(count)
    low32 = 0xFFFFFFFF
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & WORD
    key = seed ^ hashed
    k0, k1 = key & low32, key >> 32
    blocks = torch.arange((count + 3) // 4)
    c = [blocks & low32, blocks >> 32, torch.zeros_like(blocks), torch.zeros_like(blocks)]
    for _ in range(10):
        # Products of two 32-bit words wrap in int64; their bits are those of uint64.
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [((p1 >> 32) & low32) ^ c[1] ^ k0, p1 & low32,
             ((p0 >> 32) & low32) ^ c[3] ^ k1, p0 & low32]
        k0, k1 = (k0 + 0x9E3779B9) & low32, (k1 + 0xBB67AE85) & low32
    unit = (torch.stack(c, dim=1).reshape(-1)[:count].double() + 0.5) / 4294967296.0
    return ((2 * unit - 1) * limit).float()


class Decoder(nn.Module):
    """Recurrent layers with attention and input feeding, a step at a time."""

    def __init__(self, config):
        super().__init__()
        self.is_lstm = config["cell"] == "lstm"
        self.additive = config["attention"] == "additive"
        self.layers, self.dropout = config["decoder_layers"], config["dropout"]
        hidden, gates = config["hidden"], 4 if self.is_lstm else 3
        for layer in range(self.layers):
            width = config["embedding"] + hidden if layer == 0 else hidden
            for name, shape in [("weight_ih", (gates * hidden, width)),
                                ("weight_hh", (gates * hidden, hidden)),
                                ("bias_ih", (gates * hidden,)), ("bias_hh", (gates * hidden,))]:
                self.register_parameter(f"{name}_l{layer}", nn.Parameter(torch.empty(shape)))
        self.attention = nn.ParameterDict()
        if self.additive:
            self.attention["query_weight"] = nn.Parameter(torch.empty(hidden, hidden))
            self.attention["memory_weight"] = nn.Parameter(torch.empty(hidden, hidden))
            self.attention["score_vector"] = nn.Parameter(torch.empty(hidden))
        else:
            self.attention["bilinear_weight"] = nn.Parameter(torch.empty(hidden, hidden))
        self.attention["output_weight"] = nn.Parameter(torch.empty(hidden, 2 * hidden))
        self.attention["output_bias"] = nn.Parameter(torch.empty(hidden))

    def cell(self, layer, x, state):
        weights = [getattr(self, f"{name}_l{layer}")
                   for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        if self.is_lstm:
            return torch._VF.lstm_cell(x, state, *weights)
        return (torch._VF.gru_cell(x, state[0], *weights),)

    def forward(self, embedded, memory, padding, states):
        """embedded [time, rows, E], memory [rows, source, H], padding [rows, source], states: (h, c)
        or (h,) a layer -> attentional outputs [time, rows, H]."""
        weights = self.attention
        keys = memory @ weights["memory_weight" if self.additive else "bilinear_weight"].T
        a = torch.zeros_like(states[0][0])
        outputs = []
        for step in embedded:
            x = torch.cat([step, a], dim=1)
            for layer in range(self.layers):
                if layer > 0:
                    x = functional.dropout(x, self.dropout, self.training)
                states[layer] = self.cell(layer, x, states[layer])
                x = states[layer][0]
            if self.additive:
                query = (x @ weights["query_weight"].T)[:, None]
                scores = torch.tanh(query + keys) @ weights["score_vector"]
            else:
                scores = torch.bmm(keys, x[:, :, None])[:, :, 0]
            alpha = torch.softmax(scores.masked_fill(padding, -math.inf), dim=1)
            context = torch.bmm(alpha[:, None], memory)[:, 0]
            a = torch.tanh(functional.linear(torch.cat([context, x], dim=1),
                                             weights["output_weight"], weights["output_bias"]))
            outputs.append(a)
        return torch.stack(outputs)


class Seq2Seq(nn.Module):
    def __init__(self, config, source_vocabulary, target_vocabulary, seed):
        super().__init__()
        self.config = config
        embedding, hidden = config["embedding"], config["hidden"]
        directions = 2 if config["bidirectional"] else 1
        recurrent = nn.LSTM if config["cell"] == "lstm" else nn.GRU
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        layers = config["encoder_layers"]
        self.encoder = recurrent(embedding, hidden // directions, layers,
                                 bidirectional=config["bidirectional"],
                                 dropout=config["dropout"] if layers > 1 else 0)
        self.decoder = Decoder(config)
        self.output = nn.Linear(hidden, target_vocabulary)
        self.initialize(seed)

    def initialize(self, seed):
        hidden = self.config["hidden"]
        units = hidden // (2 if self.config["bidirectional"] else 1)
        for name, parameter in self.named_parameters():
            if name.endswith("embedding.weight"):
                limit = math.sqrt(3 / parameter.shape[1])
            elif name in ("output.bias", "decoder.attention.output_bias"):
                limit = 0
            elif name == "decoder.attention.output_weight":
                limit = 1 / math.sqrt(2 * hidden)
            else:
                limit = 1 / math.sqrt(units if name.startswith("encoder.") else hidden)
            values = initial_values(name, parameter.numel(), limit, seed)
            parameter.data.copy_(values.reshape(parameter.shape))

    def encode(self, batch):
        rate = self.config["dropout"]
        embedded = functional.dropout(self.source_embedding(batch.source), rate, self.training)
        packed = pack_padded_sequence(embedded, batch.source_lengths, enforce_sorted=False)
        outputs, finals = self.encoder(packed)
        memory = pad_packed_sequence(outputs)[0].transpose(0, 1).contiguous()
        finals = finals if isinstance(finals, tuple) else (finals,)
        # [layers * directions, rows, units] -> both directions side by side.
        layers, hidden = self.config["encoder_layers"], self.config["hidden"]
        joined = [final.reshape(layers, -1, final.shape[1], final.shape[2]).transpose(1, 2)
                  .reshape(layers, -1, hidden) for final in finals]
        zero = tuple(torch.zeros_like(part[0]) for part in joined)
        states = [tuple(part[layer] for part in joined) if layer < layers else zero
                  for layer in range(self.config["decoder_layers"])]
        return memory, states

    def forward(self, batch, label_smoothing):
        """(smoothed loss, -log p) summed over the batch's target tokens."""
        rate = self.config["dropout"]
        memory, states = self.encode(batch)
        embedded = functional.dropout(self.target_embedding(batch.target_in), rate, self.training)
        a = self.decoder(embedded, memory, batch.padding, states)
        kept = functional.dropout(a, rate, self.training)[batch.counts]
        logp = torch.log_softmax(self.output(kept), dim=1)
        nll = -logp.gather(1, batch.target_out[batch.counts][:, None]).sum()
        if label_smoothing == 0:
            return nll, nll.detach()
        uniform = -logp.mean(dim=1).sum()
        return (1 - label_smoothing) * nll + label_smoothing * uniform, nll.detach()


# --- the run: src/training/trainer.cpp ------------------------------------------------------------

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


# --- command line ---------------------------------------------------------------------------------

def read_config(path, assignments):
    """Sections [model] and [training] over their defaults; other sections say nothing here."""
    if path is None:
        given = {}
    elif path.suffix == ".json":
        given = json.loads(path.read_text(encoding="utf-8"))
    else:
        import tomllib  # Python 3.11; take a .json with older ones
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        section, _, key = name.partition(".")
        try:
            value = json.loads(value)
        except json.JSONDecodeError:
            pass  # a bare string
        given.setdefault(section, {})[key] = value
    config = {}
    for section, defaults in DEFAULTS.items():
        config[section] = dict(defaults)
        for key, value in given.get(section, {}).items():
            if key in defaults:
                config[section][key] = value
            elif key != "checkpoint_every":
                sys.exit(f"{path}: unknown key {section}.{key}")
    if config["training"]["keep_best"] != "loss":
        sys.exit("only training.keep_best = \"loss\" is known here")
    return config


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


# --- --check --------------------------------------------------------------------------------------

def check_goldens():
    """This model, batched and packed, against that of seq2seq_losses.py, a row and step at a time."""
    import seq2seq_losses as goldens
    for case in json.loads(goldens.GOLDEN.read_text())["cases"]:
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


def check_run():
    """Files in, perplexities out: a small copying task is learned."""
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
        check_run()
        return
    if not arguments.train or not arguments.valid:
        parser.error("--train and --valid are needed")
    compare(arguments)


if __name__ == "__main__":
    main()
