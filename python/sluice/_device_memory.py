"""Memory and streams of a GPU, and the arrays in them."""

import math
from collections import deque

import numpy as np

from . import _native
from ._arrays import DTYPES, address, check, checked_lengths, checked_resets, checked_stream, dtype_of
from ._device_arrays import DeviceArray
from ._devices import ALIGNMENT, ANY_GPU, LEGACY_STREAM, device_of, mixed, open_device

# Taking memory from CUDA and giving it back makes the GPU wait, so arrays that went leave theirs to the next.
_MOST_FREE_BLOCKS = 16


class _Block:
    """Memory of an array and its views. The next array gets it when they are gone."""

    __slots__ = ("buffer", "shared", "_free")

    def __init__(self, buffer, free):
        self.buffer = buffer
        self.shared = False  # other streams may still use it: CUDA waits for them when it frees it
        self._free = free

    def __del__(self):
        if not self.shared:
            self._free.append(self.buffer)


class DeviceMemory:
    """A device, a stream, and arrays that are ready for work on that stream.

    stream: a cudaStream_t of the caller's as an integer: work is queued there, and calls return before it is done. None: a
    stream of its own, and calls wait for their work.

    "cpu" is a device too.
    """

    def __init__(self, device, stream=None):
        self.device = device
        self.dtypes = DTYPES if device == "cpu" else (*DTYPES, "float16")
        self.array_type = None  # array() looks at all: they may be of another stream
        self._opened = open_device(device)
        self._free = deque(maxlen=_MOST_FREE_BLOCKS)
        self.pending = None  # the caller's stream, as DLPack numbers it, where work on arrays may not be done; None: it is
        self._default_stream = None
        if stream is not None:
            self.pending = checked_stream(stream)
            self.stream = _native.Stream.wrap(self._opened, 0 if self.pending == LEGACY_STREAM else self.pending)
        else:
            self.stream = _native.Stream.create(self._opened)
            if device != "cpu":
                # Other frameworks can't make arrays ready for a stream whose number is unknown. They do so for CUDA's
                # default stream, and this waits for it.
                self._default_stream = _native.Stream.wrap(self._opened, 0)

    # --- the order of work ----------------------------------------------------------------------------------------------

    def finish(self):
        """Ends a call."""
        if self.pending is None:
            self.stream.synchronize()

    def make_ready(self, stream):
        """Returns when work on `stream` may use the arrays; None is a stream that nothing is known of."""
        # sluice.h has no events, so that this waits where the stream could.
        if self.pending is not None and stream != self.pending:
            self.stream.synchronize()

    # --- memory ---------------------------------------------------------------------------------------------------------

    def allocate(self, bytes):
        try:
            return _native.Buffer(self._opened, bytes)
        except MemoryError:
            self._free.clear()
        return _native.Buffer(self._opened, bytes)

    def _block(self, bytes):
        free = self._free
        for _ in range(len(free)):
            try:
                buffer = free.popleft()
            except IndexError:  # another thread was faster
                break
            if bytes <= buffer.bytes <= 2 * bytes:
                return _Block(buffer, free)
            free.append(buffer)
        return _Block(self.allocate(bytes), free)

    def empty(self, shape, dtype):
        block = self._block(math.prod(shape) * dtype.itemsize)
        return DeviceArray(shape, dtype, block.buffer.pointer, self, block)

    def upload(self, host):
        """A copy of a contiguous NumPy array. Waits."""
        array = self.empty(host.shape, host.dtype)
        if host.nbytes:
            self.stream.upload(array.pointer, address(host), host.nbytes)
        return array

    # --- arrays that callers give ---------------------------------------------------------------------------------------

    def array(self, value, name):
        """The DeviceArray of a contiguous array of this device, ready for work on the stream."""
        if isinstance(value, DeviceArray):
            if value.device != self.device:
                raise mixed(name, value.device, self.device)
            if value.memory is not self:
                value.memory.make_ready(self.pending)
                value.share()
            return value
        device = device_of(value, name)
        if device != self.device and (device != ANY_GPU or self.device == "cpu"):
            raise mixed(name, device, self.device)
        return self._from_interface(value, name) if device == ANY_GPU else self._from_dlpack(value, name)

    def _from_dlpack(self, value, name):
        stream = {} if self.device == "cpu" else {"stream": self.pending or LEGACY_STREAM}
        try:
            try:
                capsule = value.__dlpack__(max_version=(1, 0), **stream)
            except TypeError:  # of before DLPack 1.0
                capsule = value.__dlpack__(**stream)
        except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
            raise TypeError(f"{name} can't be read as an array: {error}") from error
        try:
            tensor = _native.Tensor(capsule)
        except TypeError:
            raise TypeError(f"{name} can't be read as an array: its __dlpack__ returns no capsule") from None
        if self._default_stream is not None:
            self._default_stream.synchronize()
        dtype = dtype_of(tensor.dtype, name)
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides)
        return self._foreign(name, tensor.shape, strides, dtype, tensor.pointer, tensor)

    def _from_interface(self, value, name):
        interface = value.__cuda_array_interface__
        if interface.get("mask") is not None:
            raise TypeError(f"{name} has a mask, which arrays here can't have")
        stream = interface.get("stream")
        if stream is not None and stream != self.pending:
            _native.Stream.wrap(self._opened, stream).synchronize()
        return self._foreign(name, tuple(interface["shape"]), interface.get("strides"), np.dtype(interface["typestr"]),
                             interface["data"][0], value)

    def _foreign(self, name, shape, strides, dtype, pointer, owner):
        expected = dtype.itemsize
        for extent, stride in zip(reversed(shape), reversed(strides or ())):
            if extent != 1 and stride != expected:
                raise ValueError(f"{name} is not contiguous; arrays on a GPU must be")
            expected *= extent
        return DeviceArray(shape, dtype, pointer, self, owner)

    def contiguous(self, array, name):
        """The array, if kernels can read it."""
        if array.pointer % ALIGNMENT:
            raise ValueError(f"{name} begins at an address that is no multiple of {ALIGNMENT} bytes; give a copy")
        return array

    def checked(self, value, name, shape, dtype):
        """The array, if shape and dtype are right."""
        array = self.array(value, name)
        check(array, name, shape, dtype)
        return self.contiguous(array, name)

    def keep(self, array):
        """Returns the weight itself: a stack keeps no copy."""
        return array

    @staticmethod
    def address(array):
        return array.pointer

    def joined(self, parts):
        """One array of the numbers of several. Those of the last states of a run lie next to each other already."""
        end = parts[0].pointer
        for part in parts:
            if part.pointer != end or parts[0].pointer % ALIGNMENT:
                # sluice.h copies to the host and from it only.
                return self.upload(np.concatenate([part.numpy().ravel() for part in parts]))
            end += part.nbytes
        return DeviceArray((sum(part.size for part in parts),), parts[0].dtype, parts[0].pointer, self, parts)

    def lengths(self, lengths, rows, time):
        """int32 [rows]. Only those of the host are checked."""
        if not self._holds(lengths, "lengths"):
            return self.upload(checked_lengths(lengths, rows, time))
        return self._int32(lengths, "lengths", (rows,))

    def resets(self, resets, time, rows, batch_first):
        """int32 [time, rows]."""
        if self._holds(resets, "resets"):
            resets = self._int32(resets, "resets", (rows, time) if batch_first else (time, rows))
            if not batch_first:
                return resets
            # No function of sluice.h transposes.
            resets = resets.numpy()
        return self.upload(checked_resets(resets, time, rows, batch_first))

    def _holds(self, value, name):
        return isinstance(value, DeviceArray) or device_of(value, name) != "cpu"

    def _int32(self, value, name, shape):
        array = self.array(value, name)
        check(array, name, shape, np.dtype(np.int32))
        return array
