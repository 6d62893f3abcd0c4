"""What the models share."""

from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .data import IGNORED


def dropout(model, x):
    return functional.dropout(x, model.config["dropout"], model.training)


def run_recurrent(recurrent, x, batch):
    """Outputs and final states of x [time, rows, features]; rows end at the batch's lengths where it
    has them on the host, and go on over padding where not."""
    if batch.source_lengths is None:
        return recurrent(x)
    packed = pack_padded_sequence(x, batch.source_lengths, enforce_sorted=False)
    outputs, finals = recurrent(packed)
    return pad_packed_sequence(outputs, total_length=x.shape[0])[0], finals


def cross_entropy_sums(logits, batch, label_smoothing):
    """(smoothed loss, -log p) summed over the batch's targets; logits [time, rows, classes]."""
    logits, targets = logits.flatten(0, 1), batch.target_out.flatten()
    loss = functional.cross_entropy(logits, targets, reduction="sum", ignore_index=IGNORED,
                                    label_smoothing=label_smoothing)
    if label_smoothing == 0:
        return loss, loss.detach()
    return loss, functional.cross_entropy(logits.detach(), targets, reduction="sum",
                                          ignore_index=IGNORED)
