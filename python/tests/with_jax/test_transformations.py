"""jit, grad, vmap, checkpoint, scan, donation, shard_map, threads."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scan_reference
from random_stacks import SEED, assert_close

from sluice.jax import gru, init, lstm

RNG = np.random.default_rng(SEED)
TIME, ROWS, INPUT, HIDDEN = (int(RNG.integers(2, 9)) for _ in range(4))
WEIGHTS = init(jax.random.key(SEED), "lstm", INPUT, HIDDEN, 2, bidirectional=True, dtype=jnp.float64)
X = jnp.asarray(RNG.standard_normal((TIME, ROWS, INPUT)))
XS = jnp.asarray(RNG.standard_normal((3, TIME, ROWS, INPUT)))
STATES = tuple(jnp.asarray(RNG.uniform(-1, 1, (3, 4, ROWS, HIDDEN))) for _ in range(2))
MESSAGE = f"seed {SEED}: time {TIME}, rows {ROWS}, input {INPUT}, hidden {HIDDEN}"
# The same sums in the same order, but for sums of gradients over calls that vmap joins.
EXACT, ORDER = 0.0, 1e-13


def loss(weights, x, hx=None, **options):
    y, (hn, cn) = lstm(x, weights, hx, **options)
    return (y**2).sum() + (hn * 3 + cn).sum()


def primitives_of(function, *arguments):
    """Names of all primitives in the jaxpr, with those of inner ones."""
    def walk(jaxpr):
        for equation in jaxpr.eqns:
            yield equation.primitive.name
            for value in equation.params.values():
                for each in value if isinstance(value, (tuple, list)) else (value,):
                    if hasattr(each, "jaxpr"):
                        yield from walk(getattr(each.jaxpr, "jaxpr", each.jaxpr))
                    elif hasattr(each, "eqns"):
                        yield from walk(each)
    return list(walk(jax.make_jaxpr(function)(*arguments).jaxpr))


def test_jit_changes_nothing():
    both = jax.value_and_grad(loss, (0, 1))
    assert_close(jax.jit(both)(WEIGHTS, X), both(WEIGHTS, X), ORDER, MESSAGE)
    with jax.disable_jit():
        assert_close(lstm(X, WEIGHTS), jax.jit(lambda: lstm(X, WEIGHTS))(), EXACT, MESSAGE)


def test_a_call_without_gradient_keeps_nothing_for_one():
    names = primitives_of(lambda x: lstm(x, WEIGHTS)[0], X)
    assert names.count("sluice_forward") == 1 and "sluice_backward" not in names
    compiled = jax.jit(lambda x: lstm(x, WEIGHTS)[0]).lower(X).as_text()
    assert "sluice_forward" in compiled and "sluice_backward" not in compiled and "while" not in compiled


def test_only_gradients_that_are_asked_for_are_computed():
    text = jax.jit(jax.grad(loss)).lower(WEIGHTS, X).as_text()
    both = jax.jit(jax.grad(loss, (0, 1))).lower(WEIGHTS, X).as_text()

    def results(text):
        line = next(line for line in text.splitlines() if "@sluice_backward" in line)
        return line.split("->")[1].count("tensor<")

    assert results(both) == results(text) + 1  # dx


def test_gradients_are_central_differences():
    hx = tuple(state[0] for state in STATES)
    gradients = jax.grad(loss, (0, 1, 2))(WEIGHTS, X, hx)
    directions = jax.tree.map(lambda a: jnp.asarray(RNG.standard_normal(a.shape)), (WEIGHTS, X, hx))
    step = 1e-6
    ends = [loss(*jax.tree.map(lambda a, d, s=sign: a + s * step * d, (WEIGHTS, X, hx), directions)) for sign in (1, -1)]
    along = sum(jax.tree.leaves(jax.tree.map(lambda g, d: (g * d).sum(), gradients, directions)))
    # The difference of two losses loses about 10 of 16 digits, and the third derivative adds step**2.
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), along, rtol=1e-5, atol=1e-5, err_msg=MESSAGE)


# --- vmap ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_first", (False, True))
@pytest.mark.parametrize("in_axis", (0, 1, 2, 3))
def test_a_mapped_axis_becomes_rows(in_axis, batch_first):
    xs = XS.swapaxes(1, 2) if batch_first else XS
    lengths = jnp.asarray(RNG.integers(0, TIME + 1, (3, ROWS)))
    resets = jnp.asarray(RNG.random(xs.shape[:3]) < 0.3)

    def run(x, states, lengths, resets):
        return lstm(x, WEIGHTS, states, lengths=lengths, resets=resets, batch_first=batch_first)

    mapped = jax.vmap(run, (in_axis, 0, 0, 0))
    assert primitives_of(mapped, jnp.moveaxis(xs, 0, in_axis), STATES, lengths, resets).count("scan") == 0
    found = mapped(jnp.moveaxis(xs, 0, in_axis), STATES, lengths, resets)
    single = [run(xs[i], tuple(state[i] for state in STATES), lengths[i], resets[i]) for i in range(3)]
    assert_close(found, jax.tree.map(lambda *parts: jnp.stack(parts), *single), ORDER, MESSAGE)


def test_arguments_that_are_not_mapped_are_shared():
    found = jax.vmap(lambda x: lstm(x, WEIGHTS, tuple(s[0] for s in STATES), lengths=jnp.full(ROWS, TIME - 1)))(XS)
    single = [lstm(x, WEIGHTS, tuple(s[0] for s in STATES), lengths=jnp.full(ROWS, TIME - 1)) for x in XS]
    assert_close(found, jax.tree.map(lambda *parts: jnp.stack(parts), *single), ORDER, MESSAGE)
    found = jax.vmap(lambda n: lstm(X, WEIGHTS, lengths=n)[0])(jnp.asarray([[0] * ROWS, [TIME] * ROWS]))
    assert not found[0].any()
    np.testing.assert_array_equal(found[1], lstm(X, WEIGHTS)[0])


def test_layers_of_different_widths():
    first, second = (init(jax.random.key(i), "lstm", *widths, dtype=jnp.float64) for i, widths in
                     enumerate(((INPUT, HIDDEN), (HIDDEN, HIDDEN + 3))))
    weights = {**first, **{name.replace("_l0", "_l1"): value for name, value in second.items()}}
    h0 = [jnp.asarray(RNG.uniform(-1, 1, (3, 1, ROWS, width))) for width in (HIDDEN, HIDDEN + 3)]
    c0 = [jnp.asarray(RNG.uniform(-1, 1, (1, ROWS, width))) for width in (HIDDEN, HIDDEN + 3)]

    def run(x, h0):
        return lstm(x, weights, (h0, c0))

    found = jax.vmap(run)(XS, h0)
    single = [run(XS[i], [h[i] for h in h0]) for i in range(3)]
    assert_close(found, jax.tree.map(lambda *parts: jnp.stack(parts), *single), ORDER, MESSAGE)


def test_gradients_through_vmap_take_one_call():
    def mapped(weights):
        return jax.vmap(lambda x: loss(weights, x))(XS).sum()

    names = primitives_of(jax.grad(mapped), WEIGHTS)
    assert names.count("sluice_backward") == 1 and "scan" not in names
    expected = jax.tree.map(lambda *parts: sum(parts), *[jax.grad(loss)(WEIGHTS, x) for x in XS])
    assert_close(jax.grad(mapped)(WEIGHTS), expected, ORDER, MESSAGE)


def test_gradients_of_each_row_are_a_loop():
    found = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(WEIGHTS, XS)
    expected = jax.tree.map(lambda *parts: jnp.stack(parts), *[jax.grad(loss)(WEIGHTS, x) for x in XS])
    assert_close(found, expected, ORDER, MESSAGE)


def test_mapped_weights_are_a_loop():
    many = jax.tree.map(lambda w: jnp.stack([w, w * 0.5]), WEIGHTS)
    found = jax.vmap(lambda w: loss(w, X))(many)
    single = [loss(jax.tree.map(lambda w: w[i], many), X) for i in range(2)]
    assert_close(found, jnp.stack(single), ORDER, MESSAGE)
    found = jax.grad(lambda many: jax.vmap(lambda w: loss(w, X))(many).sum())(many)
    expected = [jax.grad(loss)(jax.tree.map(lambda w: w[i], many), X) for i in range(2)]
    assert_close(found, jax.tree.map(lambda *parts: jnp.stack(parts), *expected), ORDER, MESSAGE)


def test_jacobians():
    found = jax.jacrev(lambda x: gru(x, init(jax.random.key(1), "gru", 2, 2, dtype=jnp.float64))[0].sum((0, 1)))(X[:2, :1, :2])
    assert found.shape == (2, *X[:2, :1, :2].shape)


# --- memory -------------------------------------------------------------------------------------------------------------


def test_a_pullback_may_be_called_again():
    y, pull = jax.vjp(lambda x: lstm(x, WEIGHTS)[0], X)
    first = pull(jnp.ones_like(y))[0]
    np.testing.assert_array_equal(pull(jnp.ones_like(y))[0], first)
    np.testing.assert_allclose(pull(2 * jnp.ones_like(y))[0], 2 * first, atol=1e-13)


def test_checkpoint_runs_forward_again():
    def wrapped(weights, x):
        return jax.checkpoint(loss)(weights, x)

    names = primitives_of(jax.grad(wrapped), WEIGHTS, X)
    assert names.count("sluice_forward") == 2, names
    assert_close(jax.jit(jax.grad(wrapped))(WEIGHTS, X), jax.grad(loss)(WEIGHTS, X), EXACT, MESSAGE)


def test_steps_in_a_scan_are_the_sequence():
    weights = init(jax.random.key(2), "lstm", INPUT, HIDDEN, dtype=jnp.float64)

    def steps(weights, x):
        def body(state, x):
            y, state = lstm(x[None], weights, state)
            return state, y[0]
        state = jnp.zeros((1, ROWS, HIDDEN)), jnp.zeros((1, ROWS, HIDDEN))
        return jax.lax.scan(body, state, x)[1]

    np.testing.assert_allclose(steps(weights, X), lstm(X, weights)[0], atol=ORDER)
    found = jax.jit(jax.grad(lambda w: (steps(w, X)**2).sum()))(weights)
    expected = jax.grad(lambda w: (lstm(X, w)[0]**2).sum())(weights)
    assert_close(found, expected, ORDER, MESSAGE)


def test_a_loop_packs_its_weights_once():
    weights = init(jax.random.key(2), "lstm", INPUT, HIDDEN, dtype=jnp.float64)

    def steps(x):
        def body(state, x):
            y, state = lstm(x[None], weights, state)
            return state, y[0]
        state = jnp.zeros((1, ROWS, HIDDEN)), jnp.zeros((1, ROWS, HIDDEN))
        return jax.lax.scan(body, state, x)[1]

    jax.config.update("jax_disable_most_optimizations", False)
    try:
        text = jax.jit(steps).lower(jnp.tile(X, (20, 1, 1))).compile().as_text()
    finally:
        jax.config.update("jax_disable_most_optimizations", True)
    entry = text[text.index("ENTRY"):]
    assert '"sluice_pack"' in entry and '"sluice_forward"' not in entry


def test_donated_arguments():
    hx = tuple(state[0] for state in STATES)
    expected = lstm(X, WEIGHTS, hx)
    run = jax.jit(lambda hx: lstm(X, WEIGHTS, hx)[1], donate_argnums=0)
    assert_close(run(tuple(state.copy() for state in hx)), expected[1], EXACT, MESSAGE)


def test_more_shapes_than_plans_are_kept():
    """A sequence in parts of 1 step, 2 steps and so on: each takes a plan of its own, and 256 plans are kept."""
    parts = range(1, 262)
    weights = init(jax.random.key(SEED), "gru", 2, 3, dtype=jnp.float64)
    x = jnp.asarray(RNG.standard_normal((sum(parts), 1, 2)))

    @jax.jit
    def in_parts(weights, x):
        state, ys, begin = jnp.zeros((1, 1, 3)), [], 0
        for time in parts:
            # Weights that depend on the state are packed after the part before, so that one stream has all the plans.
            after = {name: weight + 0 * state[0, 0, 0] for name, weight in weights.items()}
            y, state = gru(x[begin:begin + time], after, state)
            ys.append(y)
            begin += time
        return jnp.concatenate(ys), state

    y, hn, _ = jax.jit(lambda weights, x: scan_reference.stack("gru", weights, x))(weights, x)
    for _ in range(2):  # the second run makes each plan again
        # Steps round by some 1e-16, and each passes on less of that than it got.
        assert_close(in_parts(weights, x), (y, hn[0]), 1e-13, MESSAGE)


# --- devices and threads ------------------------------------------------------------------------------------------------


def test_threads():
    expected = jax.grad(loss)(WEIGHTS, X)
    found, run = [], jax.jit(jax.grad(loss))
    threads = [threading.Thread(target=lambda: found.append([run(WEIGHTS, X) for _ in range(5)])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        for gradients in each:
            assert_close(gradients, expected, EXACT, MESSAGE)


_SHARDED = """
import functools, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from sluice.jax import init, lstm
jax.config.update("jax_enable_x64", True)
weights = init(jax.random.key(0), "lstm", 3, 5, dtype=jnp.float64)
x = jax.random.normal(jax.random.key(1), (6, 4, 3), jnp.float64)
loss = lambda w, x: (lstm(x, w)[0]**2).sum()
expected = jax.grad(loss)(weights, x)
mesh = Mesh(jax.devices(), ("rows",))
assert len(jax.devices()) == 2
both = functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(None, "rows")), out_specs=P(), check_vma=False)
found = jax.jit(both(lambda w, x: jax.lax.psum(jax.grad(loss)(w, x), "rows")))(weights, x)
for name in weights:
    np.testing.assert_allclose(found[name], expected[name], atol=1e-12)
sharded = jax.device_put(x, NamedSharding(mesh, P(None, "rows")))  # gathered by XLA
np.testing.assert_allclose(jax.jit(loss)(weights, sharded), loss(weights, x), rtol=1e-12)
"""


def test_shards_of_two_devices():
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", _SHARDED], check=True, env=environment)


# --- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("differentiate", (lambda f: jax.jvp(f, (X,), (X,)), lambda f: jax.hessian(f)(X),
                                           lambda f: jax.grad(lambda x: jax.grad(f)(x).sum())(X),
                                           lambda f: jax.jit(jax.jacfwd(f))(X)), ids=("jvp", "hessian", "twice", "jacfwd"))
def test_other_derivatives_are_refused(differentiate):
    with pytest.raises(NotImplementedError, match="can be differentiated once, in reverse mode"):
        differentiate(lambda x: loss(WEIGHTS, x))
