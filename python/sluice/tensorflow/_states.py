"""First and last states of a stack."""

import tensorflow as tf


class States:
    """Tensors of h, or of c, of all layers and directions.

    Each is [layers*directions, rows, width]; or where layers differ in width a list with [directions, rows, width] for each
    layer, which the op takes and returns one after the other.
    """

    def __init__(self, widths, directions):
        self._widths = widths
        self._directions = directions
        self._uniform = len(set(widths)) == 1

    def _checked(self, state, name, dtype, states, rows, width, single):
        tensor = tf.convert_to_tensor(state)
        if tensor.dtype != dtype:
            raise TypeError(f"{name} is {tensor.dtype.name}; here it must be {dtype.name}")
        if single and tensor.shape.rank == 2:
            tensor = tf.expand_dims(tensor, 1)
        if not tensor.shape.is_compatible_with([states, rows, width]):
            raise ValueError(f"{name} has shape {tensor.shape}, not {tf.TensorShape([states, rows, width])}")
        return tensor

    def given(self, state, name, dtype, rows, single):
        """The op's tensor for a state that a caller gave. `single`: as of a single row, without its dimension."""
        if self._uniform:
            states = len(self._widths) * self._directions
            return self._checked(state, name, dtype, states, rows, self._widths[0], single)
        if not isinstance(state, (tuple, list)) or len(state) != len(self._widths):
            raise ValueError(f"{name} must be a list of {len(self._widths)} tensors, as the layers differ in width")
        parts = [self._checked(part, f"{name}[{i}]", dtype, self._directions, rows, width, single)
                 for i, (part, width) in enumerate(zip(state, self._widths))]
        return tf.concat([tf.reshape(part, [-1]) for part in parts], 0)

    def returned(self, state, single):
        """An op's tensor in a caller's shape: a tensor, or a list with one for each layer."""
        if self._uniform:
            return tf.squeeze(state, 1) if single else state
        rows = tf.size(state) // (self._directions * sum(self._widths))
        sizes = tf.stack([rows * self._directions * width for width in self._widths])
        parts = [tf.reshape(part, [self._directions, -1, width])
                 for part, width in zip(tf.split(state, sizes, num=len(self._widths)), self._widths)]
        return [tf.squeeze(part, 1) for part in parts] if single else parts
