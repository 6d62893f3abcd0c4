"""The configuration of a training, read as `sluice train` reads it."""

import json
import sys

DEFAULTS = {
    "model": dict(kind="seq2seq", cell="lstm", embedding=256, hidden=256, layers=1,
                  encoder_layers=1, decoder_layers=1, bidirectional=True, attention="additive",
                  output="crf", pooling="auto", tie_embeddings="none", dropout=0.2),
    "training": dict(optimizer="adam", learning_rate=1e-3, schedule="constant", warmup_steps=0,
                     plateau_factor=0.5, plateau_patience=2, decay_steps=0, min_learning_rate=0.0,
                     beta1=0.9, beta2=0.999, epsilon=1e-8, momentum=0.0, weight_decay=0.0,
                     clip_norm=5.0, label_smoothing=0.0, bptt=0, max_tokens=4096, max_rows=512,
                     pool=8192, max_epochs=20, max_steps=0, seed=1, validate_every=0,
                     keep_best="loss", patience=0),
}
KINDS = ("seq2seq", "language_model", "tagger", "classifier")


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
            elif key not in ("checkpoint_every", "bleu_tokenizer"):
                sys.exit(f"{path}: unknown key {section}.{key}")
    check(config)
    return config


def check(config):
    kind = config["model"]["kind"]
    if kind not in KINDS:
        sys.exit(f"models of the kind {kind} are not known here, only {', '.join(KINDS)}")
    known = ["loss", "perplexity", "bits_per_token",
             *dict(tagger=["f1"], classifier=["accuracy"]).get(kind, [])]
    if config["training"]["keep_best"] not in known:
        sys.exit(f"training.keep_best may only be {', '.join(known)} here")
    if config["training"]["schedule"] == "step":
        sys.exit("the schedule step is not known here")
