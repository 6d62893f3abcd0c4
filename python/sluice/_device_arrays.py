"""Arrays in the memory of a GPU."""

import math
import operator

import numpy as np

from . import _native
from ._arrays import address
from ._devices import LEGACY_STREAM, dlpack_device, full_name


class DeviceArray:
    """A contiguous array on a GPU: what sluice.numpy returns for arrays of a GPU.

    torch.from_dlpack, cupy.from_dlpack and jax.dlpack.from_dlpack take it without a copy, and what knows
    __cuda_array_interface__ does too. array[i] and array[i:j] along the first dimension are views. Its memory goes when the
    array, its views and what other frameworks made of it are gone.

    shape: a tuple. dtype: NumPy's, or ml_dtypes.bfloat16. device: "cuda:N". nbytes: bytes.
    """

    __slots__ = ("shape", "dtype", "pointer", "memory", "owner", "__weakref__")

    def __init__(self, shape, dtype, pointer, memory, owner):
        """`owner` keeps what `pointer` points to. The numbers are ready for work on the stream of `memory`."""
        self.shape = shape
        self.dtype = dtype
        self.pointer = pointer
        self.memory = memory
        self.owner = owner

    @staticmethod
    def from_numpy(array, device="cuda:0"):
        """Copies an array of the host to a device. `array` is what numpy.asarray takes."""
        from ._memory import DeviceMemory, shared_memory

        host = np.ascontiguousarray(array).reshape(np.shape(array))
        if not host.dtype.isnative or host.dtype.kind not in "biufc" and host.dtype.name != "bfloat16":
            raise TypeError(f"array is {host.dtype}; it must be of numbers in this machine's byte order")
        memory = shared_memory(DeviceMemory, full_name(device))
        return memory.upload(host)

    @property
    def device(self):
        return self.memory.device

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    def numpy(self):
        """A copy on the host. Waits for the work that makes the numbers."""
        host = np.empty(self.shape, self.dtype)
        if self.nbytes:
            self.memory.stream.download(address(host), self.pointer, self.nbytes)
        return host

    def reshape(self, *shape):
        """A view of another shape, of as many numbers. No extent may be -1."""
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        view = self._view(tuple(operator.index(extent) for extent in shape), 0)
        if view.size != self.size or min(view.shape, default=0) < 0:
            raise ValueError(f"an array of shape {self.shape} can't have shape {view.shape}")
        return view

    def __getitem__(self, index):
        if not self.shape:
            raise IndexError("an array without dimensions has no parts")
        count, *rest = self.shape
        step = self.nbytes // max(count, 1)
        if isinstance(index, slice):
            begin, end, stride = index.indices(count)
            if stride != 1:
                raise ValueError("parts of a DeviceArray are contiguous: a slice must have step 1")
            return self._view((max(end - begin, 0), *rest), begin * step)
        index = operator.index(index)
        if not -count <= index < count:
            raise IndexError(f"index {index} of a dimension of {count}")
        return self._view(tuple(rest), index % count * step)

    def _view(self, shape, offset):
        return DeviceArray(shape, self.dtype, self.pointer + offset, self.memory, self.owner)

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __repr__(self):
        return f"DeviceArray({list(self.shape)}, {self.dtype}, {self.device!r})"

    # --- other frameworks -----------------------------------------------------------------------------------------------

    def __array__(self, *arguments, **options):
        raise TypeError("a DeviceArray becomes a NumPy array by numpy(), never by itself")

    def __dlpack_device__(self):
        return dlpack_device(self.device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule. The numbers are ready for work on `stream`: None is CUDA's default stream, -1 asks for no order."""
        if stream != -1:
            self.memory.make_ready(stream or LEGACY_STREAM)
        self.share()
        tensor = _native.export_dlpack(self.owner, self.pointer, self.shape, self.dtype.name, *self.__dlpack_device__())
        return tensor.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    @property
    def __cuda_array_interface__(self):
        if self.device == "cpu" or self.dtype.kind == "V":
            # hasattr is then false, as for torch's tensors on the CPU. bfloat16 has no letter in the interface.
            raise AttributeError(f"{self!r} has no __cuda_array_interface__; it has __dlpack__")
        self.share()
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False), "strides": None,
                "version": 3, "stream": self.memory.pending}

    def share(self):
        """Says that work on other streams may use the memory."""
        if hasattr(self.owner, "shared"):
            self.owner.shared = True
