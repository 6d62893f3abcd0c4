"""First and last states of a stack."""

from ._arrays import check


class States:
    """Arrays of h, or of c, of all layers and directions.

    Each is [layers*directions, rows, width]; or where layers differ in width a list with [directions, rows, width] for each
    layer, which in memory follow one another.
    """

    def __init__(self, widths, directions, dtype, memory):
        self._widths = widths
        self._directions = directions
        self._dtype = dtype
        self._memory = memory
        self._empty, self._checked = memory.empty, memory.checked
        self._uniform = len(set(widths)) == 1
        self._total = directions * sum(widths)

    def _shape(self, rows):
        return (len(self._widths) * self._directions, rows, self._widths[0])

    def _shapes(self, rows):
        return [(self._directions, rows, width) for width in self._widths]

    def empty(self, rows):
        """For the engine to write to."""
        return self._empty(self._shape(rows) if self._uniform else (rows * self._total,), self._dtype)

    def given(self, state, name, rows, single):
        """The memory of a state that a caller gave. `single`: as of a single row, without its dimension."""
        if self._uniform:
            if single:
                state = self._memory.array(state, name)
                if len(state.shape) == 2:
                    state = state.reshape((state.shape[0], 1, state.shape[1]))
            return self._checked(state, name, self._shape(rows), self._dtype)
        shapes = self._shapes(rows)
        if not isinstance(state, (tuple, list)) or len(state) != len(shapes):
            raise ValueError(f"{name} must be a list of {len(shapes)} arrays, as the layers differ in width")
        parts = [self._memory.array(part, f"{name}[{i}]") for i, part in enumerate(state)]
        for i, (part, shape) in enumerate(zip(parts, shapes)):
            check(part, f"{name}[{i}]", shape, self._dtype)
        return self._memory.joined(parts)

    def returned(self, state, rows, single):
        """The state in a caller's shape: an array, or a list with one for each layer."""
        if self._uniform:
            return state.reshape((state.shape[0], state.shape[2])) if single else state
        parts, begin = [], 0
        for directions, rows, width in self._shapes(rows):
            end = begin + directions * rows * width
            parts.append(state[begin:end].reshape((directions, width) if single else (directions, rows, width)))
            begin = end
        return parts
