"""JAX's primitives of a stack, and how JAX differentiates and compiles them.

    forward   x, weights, optional              -> y, hn, cn; with `residuals` also packed weights and reserve
    tangent   tangents of what is differentiated, residuals -> tangents of y, hn, cn; only there to be transposed
    backward  residuals, dy, dhn, dcn           -> gradients

cn is an LSTM's. `optional` are arrays whose names are in the parameter `given`. `wanted` names what is differentiated, in the
order of _calls._WANTED. That forward has no residuals until it is differentiated lets vmap fold an axis into the rows first.
"""

from functools import lru_cache, partial

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ._batching import fold_or_loop, loop
from ._calls import Calls

PLATFORMS = ("cpu", "cuda")


def _avals(shapes):
    return [ShapedArray(shape.shape, shape.dtype) for shape in shapes]


# --- forward ------------------------------------------------------------------------------------------------------------

forward_p = Primitive("sluice_forward")


def _split(operands, config):
    """x, weights, optional."""
    x, *others = operands
    count = len(config.weight_shapes)
    return x, others[:count], others[count:]


def _trains(given, residuals):
    return residuals or "row_ids" in given  # only draws use these


def _forward_avals(*operands, config, given, residuals):
    calls = Calls(config, operands[0].shape, _trains(given, residuals), given)
    return _avals([*calls.results, *([calls.packed, calls.reserve] if residuals else [])])


def _forward(*operands, config, given, residuals):
    x, weights, optional = _split(operands, config)
    training = _trains(given, residuals)
    calls = Calls(config, x.shape, training, given)
    packed = calls.pack(weights)
    results = calls.forward(x, packed, optional, given)
    outputs, reserve = (results[:-1], results[-1]) if training else (results, None)
    return [*outputs, packed, reserve] if residuals else outputs


def _forward_jvp(primals, tangents, *, config, given, residuals):
    if residuals:
        raise NotImplementedError(_ONCE)
    if (config.zoneout_h or config.zoneout_c) and "row_ids" not in given:
        raise NotImplementedError("without a key zoneout takes its expectation, which has no gradient; give a key")
    x, weights, optional = _split(primals, config)
    dx, dweights, doptional = _split(tangents, config)
    of_state = {name: tangent for name, tangent in zip(given, doptional) if name in ("h0", "c0")}
    *outputs, packed, reserve = forward_p.bind(*primals, config=config, given=given, residuals=True)
    groups = {"x": [dx], **{name: [tangent] for name, tangent in of_state.items()}, "weights": dweights}
    wanted = tuple(name for name, group in groups.items() if any(type(each) is not ad.Zero for each in group))
    linear = [ad.instantiate_zeros(each) for name in wanted for each in groups[name]]
    return outputs, tangent_p.bind(*linear, reserve, x, packed, *outputs, *optional, config=config, given=given,
                                   wanted=wanted)


# --- tangent ------------------------------------------------------------------------------------------------------------

tangent_p = Primitive("sluice_tangent")
_ONCE = "Sluice's layers can be differentiated once, in reverse mode: by jax.grad or jax.vjp, not jax.jvp, jacfwd or hessian"


def _linear_count(config, wanted):
    return sum(len(config.weight_shapes) if name == "weights" else 1 for name in wanted)


def _tangent_avals(*operands, config, given, wanted):
    x = operands[_linear_count(config, wanted) + 1]
    return _avals(config.result_shapes(x.shape))


def _refuse(*_, **__):
    raise NotImplementedError(_ONCE)


def _tangent_transpose(cotangents, *operands, config, given, wanted):
    count = _linear_count(config, wanted)
    linear, residuals = operands[:count], operands[count:]
    names = ("dy", "dhn", "dcn")
    there = [(name, value) for name, value in zip(names, cotangents) if type(value) is not ad.Zero]
    found = backward_p.bind(*residuals, *(value for _, value in there), config=config,
                            given=(*given, *(name for name, _ in there)), wanted=wanted)
    gradients = [value if ad.is_undefined_primal(to) else None for to, value in zip(linear, found)]
    return gradients + [None] * len(residuals)


# --- backward -----------------------------------------------------------------------------------------------------------

backward_p = Primitive("sluice_backward")


def _backward_parts(operands, config, given):
    """The calls and the arguments of Calls.backward before `given`."""
    reserve, x, packed, *others = operands
    count = 3 if config.is_lstm else 2
    return Calls(config, x.shape, True, given), (reserve, x, packed, others[:count], others[count:])


def _backward_avals(*operands, config, given, wanted):
    calls, (_, x, _, _, optional) = _backward_parts(operands, config, given)
    return _avals(calls.gradients(x, optional, given, wanted))


def _backward(*operands, config, given, wanted):
    calls, arguments = _backward_parts(operands, config, given)
    return calls.backward(*arguments, given, wanted)


# --- for JAX ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _compiled(function, parameters):
    return jax.jit(partial(function, **dict(parameters)))


def _run(function, *operands, **parameters):
    """Outside of jax.jit."""
    with jax.disable_jit(False):
        return _compiled(function, tuple(parameters.items()))(*operands)


for _primitive, _function, _abstract in ((forward_p, _forward, _forward_avals), (tangent_p, _refuse, _tangent_avals),
                                         (backward_p, _backward, _backward_avals)):
    _primitive.multiple_results = True
    _primitive.def_impl(partial(_run, _function))
    _primitive.def_abstract_eval(_abstract)
    for _platform in PLATFORMS:
        mlir.register_lowering(_primitive, mlir.lower_fun(_function, multiple_results=True), platform=_platform)

ad.primitive_jvps[forward_p] = _forward_jvp
ad.primitive_jvps[tangent_p] = ad.primitive_jvps[backward_p] = _refuse
ad.primitive_transposes[tangent_p] = _tangent_transpose
batching.primitive_batchers[forward_p] = partial(fold_or_loop, forward_p)
batching.primitive_batchers[tangent_p] = partial(loop, tangent_p)
batching.primitive_batchers[backward_p] = partial(loop, backward_p)
