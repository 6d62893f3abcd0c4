"""Lengths, resets and packed sequences as the engine takes them."""

import torch
from torch.nn.utils.rnn import PackedSequence


def _check_integers(tensor, name, shape):
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.as_tensor(tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        raise TypeError(f"{name} is {tensor.dtype}; it must be of integers")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, not {shape}")
    return tensor


def checked_lengths(lengths, rows, time, device):
    """int32 on the device. Values are checked on the CPU; on a GPU, whose values are not read, they are limited."""
    lengths = _check_integers(lengths, "lengths", (rows,))
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        if rows and (int(lengths.min()) < 0 or int(lengths.max()) > time):
            raise ValueError(f"lengths has {int(lengths.min())} to {int(lengths.max())}; with {time} time steps they are 0 "
                             f"to {time}")
    else:
        lengths = lengths.clamp(0, time)
    return lengths.to(device=device, dtype=torch.int32, non_blocking=True).contiguous()


def checked_resets(resets, time, rows, batch_first, device):
    """int32 [time, rows] on the device."""
    resets = _check_integers(resets, "resets", (rows, time) if batch_first else (time, rows)).to(device, non_blocking=True)
    if batch_first:
        resets = resets.t()
    # Not 0 must stay not 0 in fewer bits.
    return (resets if resets.dtype == torch.bool else resets != 0).to(torch.int32).contiguous()


class PackedLayout:
    """Where a PackedSequence's values lie in a tensor [time, rows, features]."""

    def __init__(self, packed):
        self._source = packed
        sizes = packed.batch_sizes  # on the CPU, and falling
        self._time, self._rows = len(sizes), int(sizes[0])
        device = packed.data.device
        steps = torch.repeat_interleave(torch.arange(self._time), sizes)
        begins = torch.cumsum(sizes, 0) - sizes
        rows = torch.arange(len(steps)) - begins[steps]
        self._places = (steps * self._rows + rows).to(device, non_blocking=True)
        lengths = (sizes[:, None] > torch.arange(self._rows)).sum(0)
        self.lengths = lengths.to(device=device, dtype=torch.int32, non_blocking=True)

    def padded(self):
        data = self._source.data
        memory = data.new_zeros((self._time * self._rows, data.shape[1]))
        return memory.index_copy(0, self._places, data).view(self._time, self._rows, -1)

    def packed(self, y):
        source = self._source
        values = y.reshape(self._time * self._rows, -1).index_select(0, self._places)
        return PackedSequence(values, source.batch_sizes, source.sorted_indices, source.unsorted_indices)

    def sort(self, state):
        """A caller's state [states, rows, width] in the order of the packed rows."""
        order = self._source.sorted_indices
        return state if order is None else state.index_select(1, order)

    def unsort(self, state):
        order = self._source.unsorted_indices
        return state if order is None else state.index_select(1, order)
