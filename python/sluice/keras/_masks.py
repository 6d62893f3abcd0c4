"""Masks of time steps, as lengths of rows whose masked steps were moved to their end."""

from keras import ops

from ._backend import backend


def _take(x, steps):
    """x [rows, time, features] at steps [rows, time]."""
    rows, time, features = ops.shape(x)
    flat = ops.expand_dims(ops.arange(rows, dtype="int32") * time, 1) + steps
    taken = ops.take(ops.reshape(x, (-1, features)), ops.reshape(flat, (-1,)), axis=0)
    return ops.reshape(taken, ops.shape(x))


class Mask:
    """A mask [rows, time], or [rows, time, 1], that is true where a step counts.

    A masked step passes the state and repeats the output before it, or puts out zero. So a row's steps that count can run
    first, one after the other, and each step finds its output afterwards by the number of steps that count up to it. Masks
    that end rows early, the usual ones, move nothing.
    """

    def __init__(self, mask, time, go_backwards):
        mask = ops.cast(mask, "bool")
        if len(mask.shape) == 3:
            mask = ops.squeeze(mask, 2)
        if go_backwards:
            mask = ops.flip(mask, 1)
        self._mask = mask
        self._go_backwards = go_backwards
        self._time = time
        self._counts = ops.cumsum(ops.cast(mask, "int32"), 1)  # steps that count, up to each
        self.lengths = self._counts[:, -1]
        self._places = ops.expand_dims(ops.arange(time, dtype="int32"), 0)
        # A row without gaps counts at each of its steps.
        self._in_place = ops.all(self._mask == (self._places < ops.expand_dims(self.lengths, 1)))

    def compact(self, x):
        """x [rows, time, features] with the steps that count first, in the order in which they run."""

        def moved():
            steps = ops.argsort(ops.where(self._mask, self._places, self._places + self._time), 1)
            steps = ops.cast(steps, "int32")
            return _take(x, self._time - 1 - steps if self._go_backwards else steps)

        return ops.cond(self._in_place, lambda: ops.flip(x, 1) if self._go_backwards else x, moved)

    def spread(self, y, h0, last, zeros):
        """The outputs of all steps, of y [rows, time, units] as the engine returns it: zero past a row's end.

        last: the last output of each row. zeros: masked steps put out zero.
        """
        visible = ops.expand_dims(self._mask if zeros else self._counts > 0, 2)
        before = self._before(h0, zeros)

        def in_place():
            if zeros:
                return y
            return ops.where(ops.expand_dims(self._mask, 2), y, ops.expand_dims(last, 1))

        def moved():
            return ops.where(visible, _take(y, ops.maximum(self._counts - 1, 0)), ops.expand_dims(before, 1))

        return ops.cond(self._in_place, in_place, moved)

    def last(self, hn, h0, zeros):
        """The output of the last step, of the last state hn [rows, units]."""
        if zeros:
            return ops.where(self._mask[:, -1:], hn, ops.zeros_like(hn))
        return ops.where(ops.expand_dims(self.lengths > 0, 1), hn, self._before(h0, zeros))

    def _before(self, h0, zeros):
        """A row's output before the first step that counts."""
        return h0 if backend.STARTS_FROM_STATE and not zeros else ops.zeros_like(h0)
