"""Runs that torch can differentiate, compile and export.

Outside of torch.compile an autograd.Function runs them: the dispatcher would take longer than a short run does. Inside, the
custom operators sluice::recurrent and sluice::recurrent_backward stand for them.
"""

from collections.abc import Sequence
from typing import Optional

import torch
from torch import Tensor

from . import _runs
from ._config import config_of


# --- outside of torch.compile -------------------------------------------------------------------------------------------


def _refuse(ctx, *_):
    raise NotImplementedError("Sluice's layers can be differentiated once; for second derivatives use torch.nn's on the CPU")


class _Backward(torch.autograd.Function):
    """Backward where gradients have a history, or where torch.func differentiates."""

    @staticmethod
    def forward(plan, needs, dy, dhn, dcn, x, h0, c0, lengths, resets, step, y, hn, cn, saved, *weights):
        dx, dh0, dc0, gradients = _runs.backward(plan, dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn, cn, saved,
                                                 needs)
        return dx, dh0, dc0, *(gradients or [])

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    backward = staticmethod(_refuse)


class _Run(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        output = _RunOfFunc.forward(*inputs)
        _RunOfFunc.setup_context(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx, dy, dhn, dcn, _):
        needs = ctx.needs_input_grad
        wanted = needs[4], needs[5] or needs[6], any(needs[7:])
        if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
            dx, dh0, dc0, *gradients = _Backward.apply(ctx.plan, wanted, dy, dhn, dcn, *ctx.saved_tensors)
        else:
            x, h0, c0, lengths, resets, step, y, hn, cn, saved, *weights = ctx.saved_tensors
            dx, dh0, dc0, gradients = _runs.backward(ctx.plan, dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn,
                                                     cn, saved, wanted)
        return (None, None, None, None, dx, dh0 if needs[5] else None, dc0 if needs[6] else None,
                *(gradients or [None] * (len(needs) - 7)))


class _RunOfFunc(_Run):
    """The same for torch.func. torch looks at a signature in each call of this form, which takes as long as a short run."""

    @staticmethod
    def forward(plan, lengths, resets, step, x, h0, c0, *weights):
        return _runs.forward(plan, x, weights, h0, c0, lengths, resets, step, True, False)

    @staticmethod
    def setup_context(ctx, inputs, output):
        plan, lengths, resets, step, x, h0, c0, *weights = inputs
        y, hn, cn, saved = output
        ctx.save_for_backward(x, h0, c0, lengths, resets, step, y, hn, cn, saved, *weights)
        ctx.set_materialize_grads(False)
        ctx.plan = plan
        ctx.mark_non_differentiable(*((saved,) if cn.numel() else (saved, cn)))

    @staticmethod
    def vmap(*_):
        raise NotImplementedError("Sluice's layers have no vmap; make the axis more rows of one call")


# --- inside of torch.compile --------------------------------------------------------------------------------------------


@torch.library.custom_op("sluice::recurrent", mutates_args=())
def recurrent(x: Tensor, weights: Sequence[Tensor], h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor],
              resets: Optional[Tensor], step: Optional[Tensor], config: str, training: bool, keep: bool,
              tf32: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, hn, cn and what backward needs. Arguments are those of _runs.forward."""
    plan = _runs.plan_for(config, x, weights[0].dtype, training, tf32, resets is not None)
    *results, saved = _runs.forward(plan, x, weights, h0, c0, lengths, resets, step, training, keep)
    return *results, x.new_empty(0, dtype=torch.uint8) if saved is None else saved


@recurrent.register_fake
def _(x, weights, h0, c0, lengths, resets, step, config, training, keep, tf32):
    saved = 0
    if training:
        sizes = x.shape[:2]
        if all(isinstance(size, int) for size in sizes) and x.device.type in ("cpu", "cuda"):
            saved = _runs.plan_for(config, x, weights[0].dtype, True, tf32, resets is not None).saved_bytes
        else:
            saved = torch.library.get_ctx().new_dynamic_size()
    return *_runs.outputs(config_of(config), x), x.new_empty(saved, dtype=torch.uint8)


@torch.library.custom_op("sluice::recurrent_backward", mutates_args=())
def recurrent_backward(dy: Optional[Tensor], dhn: Optional[Tensor], dcn: Optional[Tensor], x: Tensor,
                       weights: Sequence[Tensor], h0: Optional[Tensor], c0: Optional[Tensor], lengths: Optional[Tensor],
                       resets: Optional[Tensor], step: Optional[Tensor], y: Tensor, hn: Tensor, cn: Tensor, saved: Tensor,
                       config: str, tf32: bool, need_x: bool, need_state: bool, need_weights: bool) -> list[Tensor]:
    """dx, dh0, dc0 (of an LSTM) and the weights' gradients, without those that are not needed."""
    plan = _runs.plan_for(config, x, weights[0].dtype, True, tf32, resets is not None)
    dx, dh0, dc0, gradients = _runs.backward(plan, dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn, cn, saved,
                                             (need_x, need_state, need_weights))
    return [result for result in (dx, dh0, dc0) if result is not None] + (gradients or [])


@recurrent_backward.register_fake
def _(dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn, cn, saved, config, tf32, need_x, need_state,
      need_weights):
    results = [torch.empty_like(x)] if need_x else []
    if need_state:
        results += [torch.empty_like(hn)] + ([torch.empty_like(cn)] if config_of(config).cell == "lstm" else [])
    return results + (_runs.gradients_of(weights) if need_weights else [])


def _setup_context(ctx, inputs, output):
    x, weights, h0, c0, lengths, resets, step, config, training, _, tf32 = inputs
    ctx.save_for_backward(x, h0, c0, lengths, resets, step, *output, *weights)
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[3])
    ctx.options = config, training, tf32


def _backward(ctx, dy, dhn, dcn, _):
    config, training, tf32 = ctx.options
    if not training:
        raise RuntimeError("sluice::recurrent ran with training=False, so it has no backward")
    x, h0, c0, lengths, resets, step, y, hn, cn, saved, *weights = ctx.saved_tensors
    needs = ctx.needs_input_grad
    need_x, need_state, need_weights = needs[0], needs[2] or needs[3], any(needs[1])
    results = iter(torch.ops.sluice.recurrent_backward(dy, dhn, dcn, x, weights, h0, c0, lengths, resets, step, y, hn, cn,
                                                       saved, config, tf32, need_x, need_state, need_weights))
    dx = next(results) if need_x else None
    dh0 = next(results) if need_state else None
    dc0 = next(results) if need_state and config_of(config).cell == "lstm" else None
    gradients = list(results) if need_weights else [None] * len(weights)
    return (dx, gradients, dh0 if needs[2] else None, dc0 if needs[3] else None) + (None,) * 7


recurrent.register_autograd(_backward, setup_context=_setup_context)
recurrent_backward.register_autograd(_refuse)


# --- either -------------------------------------------------------------------------------------------------------------

_allows_tf32 = torch.compiler.assume_constant_result(_runs.allows_tf32)
_PLAIN = (Tensor, torch.nn.Parameter)


def run(config, draws, x, weights, h0, c0, lengths, resets, training, keep, step=None):
    """y, hn and cn of a stack; cn is empty if the cell has none.

    config: the text of a Config; draws: what it says of that. x: [time, rows, input], or [rows, time, input] if its
    batch_first says so. weights: in the order of Config.weights. h0, c0: [layers*directions, rows, width] or None. lengths: int32 [rows], resets:
    int32 [time, rows], or None. training: dropout, recurrent dropout and zoneout draw; without it a config has no dropout.
    keep: packs the weights only if their versions say that they changed. step: int32 [1] that decides what is drawn; None: a
    number of torch's generator.
    """
    gradient = torch.is_grad_enabled() and (x.requires_grad or any([weight.requires_grad for weight in weights]) or
                                            h0 is not None and h0.requires_grad or c0 is not None and c0.requires_grad)
    if gradient and draws and not training:
        raise NotImplementedError("in eval mode zoneout takes its expectation, which has no gradient; call train(), or run "
                                  "under torch.no_grad()")
    x = x.contiguous()
    h0 = h0.contiguous() if h0 is not None else None
    c0 = c0.contiguous() if c0 is not None else None
    # A number of torch's generator for x's device decides what is drawn; it lies there, so a captured graph draws anew.
    if step is None and draws and training:
        step = torch.randint(2**31 - 1, (1,), dtype=torch.int32, device=x.device)
    transformed = torch._C._are_functorch_transforms_active()  # by torch.func
    trains = gradient or transformed or step is not None  # a plan for training draws
    if torch.compiler.is_compiling() or type(x) not in _PLAIN or type(weights[0]) not in _PLAIN:
        return torch.ops.sluice.recurrent(x, weights, h0, c0, lengths, resets, step, config, trains, keep,
                                          _allows_tf32())[:3]
    plan = _runs.plan_for(config, x, weights[0].dtype, trains, None, resets is not None)
    if gradient or transformed:
        return (_RunOfFunc if transformed else _Run).apply(plan, lengths, resets, step, x, h0, c0, *weights)[:3]
    return _runs.forward(plan, x, weights, h0, c0, lengths, resets, step, trains, keep)[:3]
