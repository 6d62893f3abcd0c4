"""jax.vmap: a mapped axis becomes more rows of one call, or, if the weights are mapped too, a loop."""

import jax
import jax.numpy as jnp


def _size(operands, dims):
    return next(operand.shape[dim] for operand, dim in zip(operands, dims) if dim is not None)


def loop(primitive, operands, dims, **parameters):
    """One call after the other."""
    mapped = [jnp.moveaxis(operand, dim, 0) for operand, dim in zip(operands, dims) if dim is not None]

    def one(parts):
        parts = iter(parts)
        return primitive.bind(*(operand if dim is None else next(parts) for operand, dim in zip(operands, dims)),
                              **parameters)

    results = jax.lax.map(one, mapped)
    return results, [0] * len(results)


def fold_or_loop(primitive, operands, dims, *, config, given, residuals):
    """A batching rule for forward. With residuals or mapped weights it loops: rows don't separate these."""
    weights = len(config.weight_shapes)
    parameters = {"config": config, "given": given, "residuals": residuals}
    if residuals or any(dim is not None for dim in dims[1:1 + weights]):
        return loop(primitive, operands, dims, **parameters)
    size = _size(operands, dims)
    x, *others = operands
    shape = list(x.shape)
    if dims[0] is not None:
        del shape[dims[0]]
    rows = config.extent(shape)[1]
    folded = [_fold(x, dims[0], config.row_axis, size), *others[:weights]]
    for name, operand, dim in zip(given, others[weights:], dims[1 + weights:]):
        if name in ("h0", "c0"):
            folded.append(_fold_state(config, name[0], operand, dim, size, rows))
        else:
            folded.append(_fold(operand, dim, 1 if name == "resets" else 0, size))
    y, hn, *cn = primitive.bind(*folded, **parameters)
    results = [_unfold(y, config.row_axis, size)]
    for name, state in zip("hc", (hn, *cn)):
        results.append(_unfold_state(config, name, state, size, rows))
    return [value for value, _ in results], [dim for _, dim in results]


def _fold(array, dim, axis, size):
    """Puts the mapped axis before the axis of the rows and joins the two."""
    array = jnp.broadcast_to(jnp.expand_dims(array, axis), (*array.shape[:axis], size, *array.shape[axis:])) \
        if dim is None else jnp.moveaxis(array, dim, axis)
    return array.reshape(*array.shape[:axis], size * array.shape[axis + 1], *array.shape[axis + 2:])


def _unfold(array, axis, size):
    """The array with the mapped axis, and where that is."""
    rows = array.shape[axis] // size
    return array.reshape(*array.shape[:axis], size, rows, *array.shape[axis + 1:]), axis


def _fold_state(config, name, state, dim, size, rows):
    if len(config.state_shape(name, rows)) == 3:
        return _fold(state, dim, 1, size)
    # Layers of different widths, each [directions, rows, width], one after the other.
    state = jnp.broadcast_to(state, (size, *state.shape)) if dim is None else jnp.moveaxis(state, dim, 0)
    parts = [part.reshape(size, config.directions, rows, -1) for part in _layers(config, name, state, rows)]
    return jnp.concatenate([part.swapaxes(0, 1).ravel() for part in parts])


def _unfold_state(config, name, state, size, rows):
    if len(config.state_shape(name, rows)) == 3:
        return _unfold(state, 1, size)
    parts = [part.reshape(config.directions, size, rows, -1) for part in _layers(config, name, state[None], size * rows)]
    return jnp.concatenate([part.swapaxes(0, 1).reshape(size, -1) for part in parts], axis=1), 0


def _layers(config, name, states, rows):
    """The parts of flat states [n, numbers] that are of each layer."""
    widths = config.outputs if name == "h" else config.hidden
    ends = [config.directions * rows * sum(widths[:i + 1]) for i in range(len(widths))]
    return jnp.split(states, ends[:-1], axis=1)
