"""Runs of a stack on torch tensors: plans, memory and streams.

Results, the workspace of a captured run and what backward needs come from torch's allocator, so they obey its streams, its
captures and its limits. Packed weights and small workspaces do not: torch's pool for a captured graph must hold nothing that
outlives a run.
"""

import threading
import weakref
from collections import OrderedDict

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
        """Something that holds `count` bytes of workspace, and their address. Good for one native call: threads share it."""
        if device.type == "cuda":
            if count > _SMALL or torch.cuda.is_current_stream_capturing():
                memory = torch.empty(count, dtype=torch.uint8, device=device)
                return memory, memory.data_ptr()
            count = _SMALL
        if self._scratch is None or self._scratch.bytes < count:
            self._scratch = None
            self._scratch = _allocated(self.native.device, count)
        return self._scratch, self._scratch.pointer


def _with_torch_cache_emptied(make, device):
    """What make() returns. Where a GPU has no memory left, torch may hold some that it does not use."""
    try:
        return make()
    except MemoryError:
        if device.name == "cpu":
            raise
        torch.cuda.empty_cache()
        return make()


def _allocated(device, count):
    return _with_torch_cache_emptied(lambda: _native.Buffer(device, count), device)


def _stream_of(device):
    """The stream for torch's current one on this device."""
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


def uses_tf32(dtype, device, allowed=None):
    """Whether a run multiplies in TF32. allowed: by torch's settings; None: ask them."""
    return dtype == torch.float32 and device.type == "cuda" and (allows_tf32() if allowed is None else allowed)


# --- plans --------------------------------------------------------------------------------------------------------------


def _aligned(size):
    return -(-size // _BETWEEN) * _BETWEEN


class _Plan:
    """A native plan of a stream, and where its memories lie in one tensor.

    layout: one for all plans that may run on what another of them packed; own_layout: for those on one stream.
    """

    def __init__(self, stream, config, dtype, weight_dtype, training, tf32, resets, time, rows):
        self.stream = stream
        self.config = config
        options = {"cell": config.cell, "input": config.input, "hidden": [config.hidden] * config.layers,
                   "projection": [config.projection] * config.layers if config.projection else None,
                   "directions": config.directions, "dtype": _NAMES[dtype], "weight_dtype": _NAMES[weight_dtype],
                   "cell_dtype": _NAMES[dtype], "tf32": tf32, "training": training, "strided": config.batch_first,
                   "resets": resets, "peepholes": config.peepholes, "layer_norm": config.layer_norm,
                   "zoneout_h": config.zoneout_h, "zoneout_c": config.zoneout_c, "hard_sigmoid": config.hard_sigmoid,
                   "time": time, "rows": rows}
        if training:
            options["dropout"] = config.dropout if config.layers > 1 else 0.0
            options["recurrent_dropout"] = config.recurrent_dropout
        device = stream.native.device
        # The native stream's own memory does not come from torch.
        self.native = _with_torch_cache_emptied(lambda: _native.Plan(stream.native, **options), device)
        self.workspace_bytes = _aligned(self.native.workspace_bytes)
        self.packed_bytes = self.native.packed_bytes
        self.reserve_bytes = _aligned(self.native.reserve_bytes)
        self.saved_bytes = self.reserve_bytes + self.packed_bytes  # what backward needs


class _Layout:
    """How weights are packed. One object for equal descriptions, because it is looked up in each run."""

    __slots__ = ("__weakref__",)


_layouts = weakref.WeakValueDictionary()  # by description


def _layout_of(description):
    with _lock:
        layout = _layouts.get(description)
        if layout is None:
            layout = _layouts[description] = _Layout()
        return layout


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
        if made.native.packed_layout:
            layout = config, dtype, weight_dtype, device.index, made.native.packed_layout
        else:
            layout = *key, device.index, made.native.implementation  # Equal options give equal layouts.
        made.layout, made.own_layout = _layout_of(layout), _layout_of((layout, stream))
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
    """Packed weights, kept from call to call."""

    def __init__(self, plan, device):
        self._sources = None  # which weights in which state it was made of
        self.buffer = _allocated(device, plan.packed_bytes)

    def is_of(self, weights):
        # A new tensor may have the address and the version of one that is gone.
        sources = self._sources
        if sources is None:
            return False
        for (of, version, address), weight in zip(sources, weights):
            if of() is not weight or version != weight._version or address != weight.data_ptr():
                return False
        return True

    def pack(self, plan, weights):
        self._sources = None
        held, workspace = plan.stream.scratch(plan.workspace_bytes, weights[0].device)
        _pack(plan, weights, _native.Memory(packed=self.buffer.pointer, workspace=workspace))
        self._sources = [(weakref.ref(weight), weight._version, weight.data_ptr()) for weight in weights]


class _Kept:
    """The packed weights of a stack."""

    def __init__(self):
        self.by_layout = OrderedDict()  # the one used last comes last
        self.of_graphs = set()  # what captured graphs read


_kept = {}  # from the id of a stack's first weight to a weak reference to that and its _Kept
_packing = threading.Lock()  # Threads share what is packed.


def _kept_of(first):
    found = _kept.get(id(first))
    if found is None or found[0]() is not first:
        key = id(first)
        found = _kept[key] = (weakref.ref(first, lambda _: _kept.pop(key, None)), _Kept())
    return found[1]


def forget(first):
    """Drops the packed weights of the stack with this first weight, but for those that captured graphs read."""
    if id(first) in _kept:
        _kept_of(first).by_layout.clear()


def _packed_before(plan, weights):
    """The _Packed of these weights, made anew if they changed; None: this call has to pack them for itself."""
    layout, on_gpu, shared, capturing = plan.layout, weights[0].is_cuda, True, False
    if on_gpu:
        # Frozen weights are there for all streams, also for one that is captured later.
        shared = not any([weight.requires_grad for weight in weights])
        layout = plan.layout if shared else plan.own_layout
        capturing = torch.cuda.is_current_stream_capturing()
        if capturing and not shared:
            return None  # They may change before a replay.
    kept = _kept_of(weights[0])
    packed = kept.by_layout.get(layout)
    if packed is None or not packed.is_of(weights):
        # Other tensors are computed for one call, or don't say when they change.
        if capturing or not all([type(weight) is torch.nn.Parameter and not weight.is_inference() for weight in weights]):
            return None
        with _packing:
            packed = kept.by_layout.get(layout)
            if packed is None or not packed.is_of(weights):
                # Another thread may still read what is there. On a GPU its work comes before on the stream, and graphs that
                # read the same memory shall see the new weights.
                if packed is None or not on_gpu:
                    packed = _Packed(plan, plan.native.stream.device)
                packed.pack(plan, weights)
                if on_gpu and shared:
                    plan.native.stream.synchronize()
                kept.by_layout[layout] = packed
                if len(kept.by_layout) > _MOST_PACKED:
                    kept.by_layout.popitem(last=False)
    elif len(kept.by_layout) > 1:
        with _packing:
            if layout in kept.by_layout:
                kept.by_layout.move_to_end(layout)
    if capturing:
        kept.of_graphs.add(packed)
    return packed


# --- runs ---------------------------------------------------------------------------------------------------------------


# Addresses of memory that backward has overwritten. If a second backward of one run (retain_graph) comes, it runs forward again.
# Hooks on saved tensors may bring other memory to such an address: then forward runs again too, which changes no result.
_used = OrderedDict()
_MOST_USED = 4096


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
    """Contiguous tensors for the gradients of the weights, with what happens to be in their memory."""
    return [torch.empty_like(weight, memory_format=torch.contiguous_format) for weight in weights]


def plan_for(config, x, weight_dtype, training, tf32, resets):
    """The plan for a tensor x on torch's current stream. config: a text. tf32: allowed by torch's settings; None: ask them."""
    time, rows = x.shape[0], x.shape[1]
    if config_of(config).batch_first:
        time, rows = rows, time
    device = x.device
    return plan_of(config, device, x.dtype, weight_dtype, time, rows, training, uses_tf32(x.dtype, device, tf32), resets)


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
        _used.pop(memory.reserve, None)
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

    needs: whether x, the state and the weights need gradients.
    """
    config = plan.config
    if saved.numel() != plan.saved_bytes:
        raise RuntimeError("backward would run another plan than its forward did; change torch.backends.cudnn.allow_tf32 "
                           "and its like only after backward")
    if saved.data_ptr() in _used:
        saved = forward(plan, x, weights, h0, c0, lengths, resets, step, True, False)[3]
    _used[saved.data_ptr()] = None
    if len(_used) > _MOST_USED:
        _used.popitem(last=False)
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
