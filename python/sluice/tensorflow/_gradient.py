"""The gradient of the op SluiceRecurrent."""

import tensorflow as tf

from ._library import ops

_SHARED = ("cell", "hidden", "projection", "directions", "weight_kinds", "batch_first", "training", "dropout", "zoneout_h",
           "zoneout_c", "recurrent_dropout", "hard_sigmoid", "implementation")


def attributes_of(op):
    """Those that both ops have, as the op's function takes them."""
    values = {name: op.get_attr(name) for name in _SHARED}
    for name in ("cell", "implementation"):
        values[name] = tf.compat.as_str(values[name])
    values["weight_kinds"] = [tf.compat.as_str(kind) for kind in values["weight_kinds"]]
    return values


def _split(inputs, counts):
    """x, weights, h0, c0, lengths, resets and seed: all but the first and last are lists."""
    parts, begin = [], 1
    for count in counts:
        parts.append(list(inputs[begin:begin + count]))
        begin += count
    return inputs[0], *parts, inputs[begin]


@tf.RegisterGradient("SluiceRecurrent")
def _gradient(op, dy, dhn, dcn, *_):
    attributes = attributes_of(op)
    if not attributes["training"] and (attributes["zoneout_h"] or attributes["zoneout_c"]):
        raise NotImplementedError("without training zoneout takes its expectation, which has no gradient; pass training=True")
    counts = [op.get_attr(f"{name}_count") for name in ("weight", "h0", "c0", "lengths", "resets")]
    skipped = set(op.skip_input_indices or ()) if hasattr(op, "skip_input_indices") else set()
    need_weights = not skipped.issuperset(range(1, 1 + counts[0]))
    inputs = _split(op.inputs, counts)
    dx, dweights, dh0, dc0 = ops().sluice_recurrent_grad(*inputs, *op.outputs, dy, dhn, dcn, need_x=0 not in skipped,
                                                         need_weights=need_weights, **attributes)
    return [dx if 0 not in skipped else None, *(dweights if need_weights else [None] * counts[0]), *dh0, *dc0,
            *[None] * (counts[3] + counts[4] + 1)]


@tf.RegisterGradient("SluiceRecurrentGrad")
def _refuse(op, *_):
    raise NotImplementedError("Sluice's layers have no second derivative and no forward mode (tf.autodiff.ForwardAccumulator)")
