"""Runs of a stack on torch tensors: plans, memory and streams.

Memory of results, scratch memory and what backward needs come from torch's allocator, so they obey its streams, its
captures and its limits. What outlives a run does not: torch's pool for a captured graph must hold nothing that stays.
"""

import threading
import weakref

import torch

from .. import _native
from .._devices import ALIGNMENT, open_device
from .._plans import rounded
from ._config import config_of

_NAMES = {torch.float64: "float64", torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
_BETWEEN = 256  # Memories within one tensor begin at multiples of this.
_PARTS = 8  # a plan has room for at most an eighth more than its run
_MOST_PLANS = 512  # of one stream; a plan takes some kilobytes of the host
_MOST_PACKED = 8  # of one stack; each as large as its weights
_SMALL = 1 << 20  # bytes of scratch memory that a stream of a GPU keeps


# --- streams ------------------------------------------------------------------------------------------------------------

_streams = {}  # of GPUs. They stay, for captured graphs use their memory.
_lock = threading.Lock()
_of_thread = threading.local()  # streams of the CPU, whose calls wait for each other


class _Stream:
    """A native stream and what was made for it."""

    def __init__(self, device, raw):
        if device.type == "cpu":
            self.native = _native.Stream.create(open_device("cpu"))
        else:
            self.native = _native.Stream.wrap(open_device(f"cuda:{device.index}"), raw)
        self.plans = {}
        self._scratch = None  # Runs on one stream follow each other.

    def scratch(self, count, device):
        """Something that holds `count` bytes of scratch memory, and their address. Good for one native call: threads share it."""
        if device.type == "cuda":
            if count > _SMALL or torch.cuda.is_current_stream_capturing():
                memory = torch.empty(count, dtype=torch.uint8, device=device)
                return memory, memory.data_ptr()
            count = _SMALL
        if self._scratch is None or self._scratch.bytes < count:
            self._scratch = None
            self._scratch = _native.Buffer(self.native.device, count)
        return self._scratch, self._scratch.pointer


def _stream_of(device):
    """Of torch's current stream."""
    if device.type == "cuda":
        raw = torch._C._cuda_getCurrentRawStream(device.index)
        stream = _streams.get((device.index, raw))
        if stream is None:
            with _lock:
                stream = _streams.setdefault((device.index, raw), _Stream(device, raw))
        return stream
    if device.type != "cpu":
        raise NotImplementedError(f"x is on {device}; Sluice runs on CPUs and on NVIDIA GPUs")
    if not hasattr(_of_thread, "stream"):
        _of_thread.stream = _Stream(device, 0)
    return _of_thread.stream


def allows_tf32():
    """Whether torch would let a recurrent layer in float32 multiply in TF32."""
    try:
        return torch.backends.cudnn.rnn.fp32_precision == "tf32"
    except AttributeError:
        return torch.backends.cudnn.allow_tf32


# --- plans --------------------------------------------------------------------------------------------------------------


def _aligned(size):
    return -(-size // _BETWEEN) * _BETWEEN


class _Plan:
    """A native plan of a stream, and where its memories lie in one tensor.

    key: equal for plans that were made alike on one device, whatever their streams.
    """

    def __init__(self, stream, config, dtype, weight_dtype, training, tf32, resets, time, rows):
        self.stream = stream
        self.config = config
        options = {"cell": config.cell, "input": config.input, "hidden": [config.hidden] * config.layers,
                   "projection": [config.projection] * config.layers if config.projection else None,
                   "directions": config.directions, "dtype": _NAMES[dtype], "weight_dtype": _NAMES[weight_dtype],
                   "cell_dtype": _NAMES[dtype], "tf32": tf32, "training": training, "strided": config.batch_first,
                   "resets": resets, "peepholes": config.peepholes, "layer_norm": config.layer_norm,
                   "zoneout_h": config.zoneout_h, "zoneout_c": config.zoneout_c, "time": time, "rows": rows}
        if training:
            options["dropout"] = config.dropout if config.layers > 1 else 0.0
            options["recurrent_dropout"] = config.recurrent_dropout
        self.native = self._make(options)
        self.workspace_bytes = _aligned(self.native.workspace_bytes)
        self.packed_bytes = self.native.packed_bytes
        self.reserve_bytes = _aligned(self.native.reserve_bytes)
        self.saved_bytes = self.reserve_bytes + self.packed_bytes  # what backward needs

    def _make(self, options):
        try:
            return _native.Plan(self.stream.native, **options)
        except MemoryError:
            # The stream's own memory does not come from torch, which may hold all there is.
            if self.stream.native.device.name == "cpu":
                raise
            torch.cuda.empty_cache()
            return _native.Plan(self.stream.native, **options)


def plan_of(config, device, dtype, weight_dtype, time, rows, training, tf32, resets):
    """config: the text of a Config."""
    stream = _stream_of(device)
    key = (config, dtype, weight_dtype, training, tf32, resets, rounded(time, _PARTS), rounded(rows, _PARTS))
    plan = stream.plans.get(key)
    if plan is None:
        if dtype not in _NAMES or weight_dtype not in _NAMES:
            raise NotImplementedError(f"x is {dtype} and the weights are {weight_dtype}; "
                                      "Sluice computes float64, float32, bfloat16 and float16")
        made = _Plan(stream, config_of(config), *key[1:])
        made.key = (*key, device.index, made.native.implementation)
        with _lock:
            plan = stream.plans.setdefault(key, made)  # another thread may have been first
            if len(stream.plans) > _MOST_PLANS:
                del stream.plans[next(iter(stream.plans))]
    return plan


# --- weights ------------------------------------------------------------------------------------------------------------


def _placed(tensor):
    """The tensor, or a copy that begins where kernels of a GPU can read it."""
    return tensor if tensor is None or tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def _native_weights(config, tensors):
    """A list of _native.Weights with the addresses of these tensors."""
    kinds = config.kinds
    every = len(kinds)
    return [_native.Weights(**{kind: tensor.data_ptr() for kind, tensor in zip(kinds, tensors[i:i + every])})
            for i in range(0, len(tensors), every)]


def _pack(plan, weights, memory):
    weights = [weight.contiguous() for weight in weights]
    if weights[0].is_cuda:
        weights = [_placed(weight) for weight in weights]
    plan.native.pack(_native_weights(plan.config, weights), memory)


class _Packed:
    """Weights in the layout of a plan, kept from call to call."""

    def __init__(self, plan, device):
        self.versions = None
        self.buffer = _native.Buffer(device, plan.packed_bytes)


_kept = {}  # from the id of a stack's first weight to its _Packed by layout, oldest first
_used_by_graphs = []  # what captured graphs read
_packing = threading.Lock()  # Threads of a CPU share what is laid out.


def _kept_of(first):
    kept = _kept.get(id(first))
    if kept is None or kept[0]() is not first:
        key = id(first)
        kept = _kept[key] = (weakref.ref(first, lambda _: _kept.pop(key, None)), {})
    return kept[1]


def forget(first):
    """Drops what is kept of the stack with this first weight."""
    _kept.pop(id(first), None)


def _packed_before(plan, weights):
    """The weights in the plan's layout, laid out anew if they changed; None: this call has to do that."""
    if weights[0].is_inference():
        return None  # Such tensors don't say when they change.
    on_gpu = weights[0].is_cuda
    frozen = not any([weight.requires_grad for weight in weights])
    capturing = on_gpu and torch.cuda.is_current_stream_capturing()
    if capturing and not frozen:
        return None  # They may change before a replay.
    kept = _kept_of(weights[0])
    # Plans made alike have one layout. On a GPU frozen weights are there for all streams, also for one that is captured later.
    layout = (plan.key, plan.stream if on_gpu and not frozen else None)
    packed = kept.get(layout)
    versions = [(weight._version, weight.data_ptr()) for weight in weights]
    if packed is None or packed.versions != versions:
        if capturing:
            return None
        with _packing:
            packed = kept.get(layout)
            if packed is None:
                packed = kept[layout] = _Packed(plan, plan.native.stream.device)
                if len(kept) > _MOST_PACKED:
                    del kept[next(iter(kept))]
            if packed.versions != versions:
                packed.versions = None
                held, workspace = plan.stream.scratch(plan.workspace_bytes, weights[0].device)
                _pack(plan, weights, _native.Memory(packed=packed.buffer.pointer, workspace=workspace))
                if frozen:
                    plan.native.stream.synchronize()
                packed.versions = versions
    if capturing:
        _used_by_graphs.append(packed)
    return packed


# --- runs ---------------------------------------------------------------------------------------------------------------


def _address(tensor):
    return 0 if tensor is None else tensor.data_ptr()


def _forward_args(config, x, h0, c0, lengths, resets, step, y, hn, cn):
    time, rows = (x.shape[1], x.shape[0]) if config.batch_first else (x.shape[0], x.shape[1])
    args = _native.ForwardArgs()
    args.time = time
    args.rows = rows
    args.x = x.data_ptr()
    args.y = y.data_ptr()
    args.hn = hn.data_ptr()
    if config.cell == "lstm":
        args.cn = cn.data_ptr()
        args.c0 = _address(c0)
    args.h0 = _address(h0)
    args.lengths = _address(lengths)
    args.resets = _address(resets)
    args.step = _address(step)
    if config.batch_first:
        features, outputs = x.shape[2], y.shape[2]
        args.x_time_stride, args.x_row_stride = features, time * features
        args.y_time_stride, args.y_row_stride = outputs, time * outputs
    return args


def outputs(config, x):
    """y, hn and cn of a run, with what happens to be in their memory; cn is empty if the cell has none."""
    outer, rows = x.shape[:2], x.shape[0] if config.batch_first else x.shape[1]
    states = config.layers * config.directions
    y = torch.empty((*outer, config.directions * config.output), dtype=x.dtype, device=x.device)
    hn = torch.empty((states, rows, config.output), dtype=x.dtype, device=x.device)
    cn = torch.empty((states, rows, config.hidden) if config.cell == "lstm" else 0, dtype=x.dtype, device=x.device)
    return y, hn, cn


def gradients_of(weights):
    """Memory for them."""
    return [torch.empty_like(weight, memory_format=torch.contiguous_format) for weight in weights]


def plan_for(config, x, weight_dtype, training, tf32, resets):
    """The plan for a tensor x, of torch's current stream. config: a text."""
    time, rows = x.shape[0], x.shape[1]
    if config_of(config).batch_first:
        time, rows = rows, time
    return plan_of(config, x.device, x.dtype, weight_dtype, time, rows, training, x.dtype == torch.float32 and tf32,
                   resets)


def forward(plan, x, weights, h0, c0, lengths, resets, step, training, keep):
    """Returns y, hn, cn and what backward needs, which is None without training.

    All are on one device, and contiguous but for the weights. keep: packs the weights only if their versions say that they
    changed.
    """
    config = plan.config
    if x.is_cuda:
        x, h0, c0 = _placed(x), _placed(h0), _placed(c0)
    y, hn, cn = outputs(config, x)
    memory = _native.Memory()
    saved = packed = None
    if training:
        saved = torch.empty(plan.saved_bytes, dtype=torch.uint8, device=x.device)
        memory.reserve = saved.data_ptr()
        memory.packed = memory.reserve + plan.reserve_bytes
    elif keep and (packed := _packed_before(plan, weights)) is not None:
        memory.packed = packed.buffer.pointer
    else:
        own = torch.empty(plan.packed_bytes, dtype=torch.uint8, device=x.device)
        memory.packed = own.data_ptr()
    held, memory.workspace = plan.stream.scratch(plan.workspace_bytes, x.device)
    if packed is None:
        _pack(plan, weights, memory)
    plan.native.forward(_forward_args(config, x, h0, c0, lengths, resets, step, y, hn, cn), memory)
    return y, hn, cn, saved


def backward(plan, dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn, cn, saved, needs):
    """Returns dx, dh0, dc0 and a list of the weights' gradients, None for what is not needed.

    needs: whether x, the state and the weights need gradients. `saved` can't be used again.
    """
    config = plan.config
    if saved.numel() != plan.saved_bytes:
        raise RuntimeError("backward would run another plan than its forward; leave torch's settings as they were in between")
    need_x, need_state, need_weights = needs
    if x.is_cuda:
        x, h0, c0 = _placed(x), _placed(h0), _placed(c0)
    args = _forward_args(config, x, h0, c0, lengths, resets, step, y, hn, cn)
    held, workspace = plan.stream.scratch(plan.workspace_bytes, x.device)
    memory = _native.Memory(reserve=saved.data_ptr(), packed=saved.data_ptr() + plan.reserve_bytes, workspace=workspace)
    out = _native.BackwardArgs()
    lstm = config.cell == "lstm"
    if dy is not None:
        dy = _placed(dy.contiguous())
        out.dy = dy.data_ptr()
    if dhn is not None:
        dhn = _placed(dhn.contiguous())
        out.dhn = dhn.data_ptr()
    if dcn is not None and lstm:
        dcn = _placed(dcn.contiguous())
        out.dcn = dcn.data_ptr()
    if config.batch_first:
        out.dx_time_stride, out.dx_row_stride = args.x_time_stride, args.x_row_stride
        out.dy_time_stride, out.dy_row_stride = args.y_time_stride, args.y_row_stride
    dx = dh0 = dc0 = gradients = None
    if need_x:
        dx = torch.empty_like(x)
        out.dx = dx.data_ptr()
    if need_state:
        dh0 = torch.empty_like(hn)
        out.dh0 = dh0.data_ptr()
        if lstm:
            dc0 = torch.empty_like(cn)
            out.dc0 = dc0.data_ptr()
    if need_weights:
        gradients = gradients_of(weights)
    plan.native.backward(args, out, _native_weights(config, gradients) if need_weights else None, memory)
    return dx, dh0, dc0, gradients
