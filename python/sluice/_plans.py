"""Plans that are kept from call to call, and their memory."""

from collections import OrderedDict
from functools import lru_cache

from . import _native

_PARTS = 2  # Each plan has packed weights of its own, so few are better.


@lru_cache(maxsize=4096)
def rounded(size, parts):
    """The next size with `parts` steps (a power of 2) from a power of 2 to the next: runs of similar sizes find one plan.

    With 2 parts 1, 2, 3, 4, 6, 8, 12, 16, 24, ...: few plans. With 8 parts at most an eighth more than `size`.
    """
    step = max(1, (1 << max(0, size - 1).bit_length()) // (2 * parts))
    return -(-size // step) * step


class Entry:
    """A plan with its packed weights."""

    __slots__ = ("plan", "packed", "packed_version", "memory")

    def __init__(self, plan, allocate):
        self.plan = plan
        self.packed = allocate(plan.packed_bytes)
        self.packed_version = None  # whose weights `packed` has
        self.memory = _native.Memory(packed=self.packed.pointer)

    def pack(self, weights, version):
        """Lays out the weights, a list of _native.Weights, if they are of another version than those it has."""
        if self.packed_version != version:
            self.packed_version = None
            self.plan.pack(weights, self.memory)
            self.packed_version = version


class Plans:
    """The plans of one stack on one stream: one for each rounded number of time steps and rows.

    Scratch memory and what backward needs are shared, so one run, and its backward, at a time.
    allocate(bytes) returns an object that frees its memory when it goes and has an attribute `pointer`.
    """

    def __init__(self, stream, options, allocate, most=8):
        if most < 1:
            raise ValueError(f"plans is {most}; at least 1 is kept")
        self._stream = stream
        self._options = options
        self._allocate = allocate
        self._most = most
        self._entries = OrderedDict()
        self._last_key = self._last = None  # of get
        self._shared = {"workspace": (0, None), "reserve": (0, None)}
        self.made = 0

    def get(self, time, rows, **options):
        """The entry for a run of this extent and more options of Plan. Ends the run before: backward can't follow it."""
        key = (rounded(time, _PARTS), rounded(rows, _PARTS), *options.items())
        if key != self._last_key:
            self._last = self._find(key, options)
            self._share(self._last)
            self._last_key = key
        return self._last

    def plan(self, time, rows, **options):
        """The plan that get would find, without its memory."""
        return self._find((rounded(time, _PARTS), rounded(rows, _PARTS), *options.items()), options).plan

    def _find(self, key, options):
        entry = self._entries.get(key)
        if entry is None:
            plan = _native.Plan(self._stream, **self._options, time=key[0], rows=key[1], **options)
            entry = self._entries[key] = Entry(plan, self._allocate)
            self.made += 1
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)
        self._entries.move_to_end(key)
        return entry

    def _share(self, entry):
        """Points the entry to the shared memories, which grow to what the largest plan needs."""
        for name, wanted in (("workspace", entry.plan.workspace_bytes), ("reserve", entry.plan.reserve_bytes)):
            size, buffer = self._shared[name]
            if wanted > size:
                # What was there goes first, so that both need not fit.
                del buffer
                self._last_key, self._shared[name] = None, (0, None)
                buffer = self._allocate(wanted)
                self._shared[name] = (wanted, buffer)
            setattr(entry.memory, name, buffer.pointer if buffer is not None else 0)

    def __len__(self):
        return len(self._entries)
