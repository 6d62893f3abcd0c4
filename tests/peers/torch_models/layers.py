"""What the models share."""

import torch
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .data import IGNORED


def dropout(model, x):
    return functional.dropout(x, model.config["dropout"], model.training)


def run_recurrent(recurrent, x, batch):
    """Outputs and final states of x [time, rows, features]; rows end at the batch's lengths where it
    has them on the host or says that they stop by masks, and go on over padding where not."""
    if batch.stops_by_masks:
        return run_masked(recurrent, x, ~batch.padding.T)
    if batch.source_lengths is None:
        return recurrent(x)
    packed = pack_padded_sequence(x, batch.source_lengths, enforce_sorted=False)
    outputs, finals = recurrent(packed)
    return pad_packed_sequence(outputs, total_length=x.shape[0])[0], finals


def run_masked(recurrent, x, present):
    """The same, a step at a time; `present` [time, rows] is true where a row has a step. It takes no
    lengths on the host, so it can be captured."""
    finals = []
    for layer in range(recurrent.num_layers):
        if layer > 0:
            x = functional.dropout(x, recurrent.dropout, recurrent.training)
        directions = []
        for suffix in ["", "_reverse"] if recurrent.bidirectional else [""]:
            outputs, state = run_direction(recurrent, f"_l{layer}{suffix}", x, present)
            directions.append(outputs)
            finals.append(state)
        x = torch.cat(directions, dim=2)
    finals = tuple(map(torch.stack, zip(*finals)))
    return x, finals if len(finals) > 1 else finals[0]


def run_direction(recurrent, suffix, x, present):
    weights = [getattr(recurrent, name + suffix)
               for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    is_lstm = recurrent.mode == "LSTM"
    zero = x.new_zeros(x.shape[1], recurrent.hidden_size)
    state, outputs = (zero, zero) if is_lstm else (zero,), [None] * len(x)
    for time in reversed(range(len(x))) if suffix.endswith("reverse") else range(len(x)):
        there = present[time, :, None]
        if is_lstm:
            new = torch._VF.lstm_cell(x[time], state, *weights)
        else:
            new = (torch._VF.gru_cell(x[time], state[0], *weights),)
        state = tuple(torch.where(there, *pair) for pair in zip(new, state))
        outputs[time] = torch.where(there, new[0], zero)
    return torch.stack(outputs), state


def cross_entropy_sums(logits, batch, label_smoothing):
    """(smoothed loss, -log p) summed over the batch's targets; logits [time, rows, classes]."""
    logits, targets = logits.flatten(0, 1), batch.target_out.flatten()
    loss = functional.cross_entropy(logits, targets, reduction="sum", ignore_index=IGNORED,
                                    label_smoothing=label_smoothing)
    if label_smoothing == 0:
        return loss, loss.detach()
    return loss, functional.cross_entropy(logits.detach(), targets, reduction="sum",
                                          ignore_index=IGNORED)
