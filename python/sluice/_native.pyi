"""The functions of sluice.h. Pointers are integers, 0 for none, and unchecked.

Each struct of sluice.h is a class: its members are attributes, and keyword arguments of its constructor. Members that are
not named are 0.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

Cell = Literal["lstm", "gru", "gru_reset_before", "rnn_tanh", "rnn_relu"]
DType = Literal["float64", "float32", "bfloat16", "float16"]

version: str

class Error(RuntimeError):
    """Sluice could not do what was asked."""

class DeviceError(Error):
    """A device, driver or library is missing or failed."""

class DeviceLost(DeviceError):
    """The GPU failed for good: restart the process."""

class Device:
    """A device: "cpu", "cuda" or "cuda:N"."""

    def __init__(self, name: str = "cpu") -> None: ...
    @property
    def name(self) -> str: ...

class Buffer:
    """Memory of a device, freed with the object."""

    def __init__(self, device: Device, bytes: int) -> None: ...
    @property
    def pointer(self) -> int: ...
    @property
    def bytes(self) -> int: ...

class Stream:
    """A queue of work. A CPU's does its work at once. Calls of a stream and its plans wait for each other."""

    @staticmethod
    def create(device: Device) -> Stream:
        """A stream of its own."""
    @staticmethod
    def wrap(
        device: Device,
        cuda_stream: int,
        allocate: Callable[[int], int | None] | None = None,
        release: Callable[[int, int], object] | None = None,
    ) -> Stream:
        """A CUDA stream of the caller's, by its cudaStream_t as an integer.

        allocate(bytes) returns an address aligned to 256 bytes, or None; release(address, bytes) frees it. Both or neither.
        """
    @property
    def device(self) -> Device: ...
    def synchronize(self) -> None:
        """Waits until all queued work is done."""
    def upload(self, device_pointer: int, host_pointer: int, bytes: int) -> None: ...
    def download(self, host_pointer: int, device_pointer: int, bytes: int) -> None: ...

class Tensor:
    """An array of another framework, from its DLPack capsule. Keeps its memory."""

    def __init__(self, capsule: object) -> None: ...
    @property
    def pointer(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> tuple[int, int]:
        """DLPack's device type, and the number of the device."""

class Weights:
    """Weights of one layer and direction, or their gradients: sluice_recurrent_weights."""

    weight_ih: int
    weight_hh: int
    bias_ih: int
    bias_hh: int
    weight_hr: int
    weight_peephole: int
    gain_ih: int
    gain_hh: int
    gain_c: int
    shift_c: int
    def __init__(self, **members: int) -> None: ...

class ForwardArgs:
    """Tensors of a run: sluice_recurrent_forward_args."""

    time: int
    rows: int
    x: int
    lengths: int
    resets: int
    h0: int
    c0: int
    y: int
    hn: int
    cn: int
    c_sequence: int
    x_time_stride: int
    x_row_stride: int
    y_time_stride: int
    y_row_stride: int
    row_ids: int
    seed: int
    step: int
    def __init__(self, **members: int) -> None: ...

class BackwardArgs:
    """Tensors of backward: sluice_recurrent_backward_args. Gradients of weights are an argument of Plan.backward."""

    dy: int
    dhn: int
    dcn: int
    dx: int
    dh0: int
    dc0: int
    accumulate: int
    dx_time_stride: int
    dx_row_stride: int
    dy_time_stride: int
    dy_row_stride: int
    def __init__(self, **members: int) -> None: ...

class Memory:
    """The three memories of a plan: sluice_recurrent_memory."""

    packed: int
    workspace: int
    reserve: int
    def __init__(self, **members: int) -> None: ...

class Plan:
    """A stack of recurrent layers for at most `time` steps and `rows` rows: sluice_recurrent_options."""

    def __init__(
        self,
        stream: Stream,
        cell: Cell,
        *,
        input: int,
        hidden: Sequence[int],
        projection: Sequence[int] | None = None,
        directions: int = 1,
        time: int,
        rows: int,
        dtype: DType = "float32",
        weight_dtype: DType | None = None,
        cell_dtype: DType | None = None,
        tf32: bool = False,
        training: bool = False,
        strided: bool = False,
        dropout: float = 0.0,
        resets: bool = False,
        peepholes: bool = False,
        layer_norm: bool = False,
        zoneout_h: float = 0.0,
        zoneout_c: float = 0.0,
        recurrent_dropout: float = 0.0,
        implementation: str = "auto",
        hard_sigmoid: bool = False,
    ) -> None: ...
    @property
    def stream(self) -> Stream: ...
    @property
    def implementation(self) -> str: ...
    @property
    def packed_layout(self) -> str:
        """Names the layout that pack writes: sluice_recurrent_packed_layout."""
    def explain(self) -> str:
        """A line for each implementation that declined: "name: reason"."""
    @property
    def packed_bytes(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def reserve_bytes(self) -> int: ...
    def pack(self, weights: Sequence[Weights], memory: Memory) -> None:
        """Lays out the weights [layers*directions]; again when they change."""
    def forward(self, args: ForwardArgs, memory: Memory) -> None: ...
    def backward(
        self, args: ForwardArgs, backward: BackwardArgs, gradients: Sequence[Weights] | None, memory: Memory
    ) -> None:
        """Once for each forward, with the arguments that forward was given."""

def address(object: object) -> int:
    """The address of a contiguous object with the buffer protocol."""

def export_dlpack(
    owner: object, pointer: int, shape: Sequence[int], dtype: str, device_type: int, device_id: int
) -> Any:
    """An object with __dlpack__ and __dlpack_device__ for contiguous memory of `owner`."""
