"""First and last states of a stack."""

import numpy as np

from ._arrays import as_array, checked


class States:
    """Arrays of h, or of c, of all layers and directions.

    Each is [layers*directions, rows, width]; or where layers differ in width a list with [directions, rows, width] for each
    layer, which in memory follow one another.
    """

    def __init__(self, widths, directions, dtype):
        self._widths = widths
        self._directions = directions
        self._dtype = dtype
        self._uniform = len(set(widths)) == 1
        self._total = directions * sum(widths)

    def _shape(self, rows):
        return (len(self._widths) * self._directions, rows, self._widths[0])

    def _shapes(self, rows):
        return [(self._directions, rows, width) for width in self._widths]

    def memory(self, rows):
        """For the engine to write to."""
        return np.empty(self._shape(rows) if self._uniform else rows * self._total, self._dtype)

    def given(self, state, name, rows, single):
        """The memory of a state that a caller gave. `single`: as of a single row, without its dimension."""
        if self._uniform:
            if single:
                state = as_array(state, name)
                state = state[:, None] if state.ndim == 2 else state
            return checked(state, name, self._shape(rows), self._dtype)
        shapes = self._shapes(rows)
        if not isinstance(state, (tuple, list)) or len(state) != len(shapes):
            raise ValueError(f"{name} must be a list of {len(shapes)} arrays, as the layers differ in width")
        return np.concatenate([checked(part, f"{name}[{i}]", shape, self._dtype).ravel()
                               for i, (part, shape) in enumerate(zip(state, shapes))])

    def returned(self, memory, rows, single):
        """What a caller gets for memory()."""
        if self._uniform:
            return memory[:, 0] if single else memory
        shapes = self._shapes(rows)
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        parts = [part.reshape(shape) for part, shape in zip(np.split(memory, ends[:-1]), shapes)]
        return [part[:, 0] for part in parts] if single else parts
