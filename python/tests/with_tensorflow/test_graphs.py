"""In tf.function, under tapes, in threads, in saved models."""

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sluice.tensorflow
import tensorflow as tf
from cases import random_weights
from compared_layers import assert_close, variables


@pytest.fixture
def case(rng):
    return Case(rng)


class Case:
    def __init__(self, rng):
        self.rng = rng
        self.cell = ["lstm", "gru", "rnn"][rng.integers(3)]
        self.time, self.rows, self.input, self.hidden = (int(rng.integers(2, most)) for most in (10, 7, 20, 30))
        named = {"rnn": "rnn_tanh"}.get(self.cell, self.cell)
        self.weights = variables(random_weights(rng, named, self.input, self.hidden, int(rng.integers(1, 3)),
                                                int(rng.integers(1, 3))))
        self.x = self.draw_x(self.time, self.rows)
        print(self.cell, self.x.shape, self.hidden, len(self.weights))

    def draw_x(self, time, rows):
        return tf.constant(self.rng.uniform(-1, 1, (time, rows, self.input)))

    def run(self, x=None, **options):
        return getattr(sluice.tensorflow, self.cell)(self.x if x is None else x, self.weights, **options)

    def loss(self, x=None, **options):
        y, last = self.run(x, **options)
        return tf.reduce_sum(y * y) + tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(last)])

    def gradients(self, loss=None, **options):
        variables = list(self.weights.values())
        with tf.GradientTape() as tape:
            tape.watch(self.x)
            value = (loss or self.loss)(**options)
        return tape.gradient(value, [self.x, *variables])


@pytest.mark.parametrize("training", [None, True, False])
@pytest.mark.parametrize("number", range(3))
def test_all_ways_to_a_gradient_agree_to_the_bit(number, training, case):
    expected = case.gradients(training=training)
    in_graph = tf.function(lambda: case.gradients(training=training))
    through_graph = tf.function(lambda: case.loss(training=training))
    assert_close(in_graph(), expected, 0, "tape and run in one graph")
    assert_close(in_graph(), expected, 0, "once more")
    assert_close(case.gradients(through_graph), expected, 0, "tape outside of the graph")
    assert_close(case.gradients(training=True), expected, 0, "another `training`")


def test_a_persistent_tape_comes_a_second_time(case):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(case.x)
        value = case.loss()
    first, second, third = (tape.gradient(value, [case.x, *case.weights.values()]) for _ in range(3))
    assert_close(second, first, 0)
    assert_close(third, first, 0)


def test_two_gradients_of_one_run_in_one_graph(case):
    @tf.function
    def both():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(case.x)
            y, _ = case.run()
            one, other = tf.reduce_sum(y), tf.reduce_sum(y * y)
        inputs = [case.x, *case.weights.values()]
        return tape.gradient(one, inputs), tape.gradient(other, inputs)

    one, other = both()
    assert_close(one, case.gradients(lambda: tf.reduce_sum(case.run()[0])), 0)
    assert_close(other, case.gradients(lambda: tf.reduce_sum(case.run()[0] ** 2)), 0)


def test_gradients_are_those_of_differences(case):
    for found, at in zip(case.gradients(), [None, *case.weights.values()]):
        place = tuple(case.rng.integers(extent) for extent in found.shape)
        difference = 0.0
        for sign in (1, -1):
            delta = np.zeros(found.shape)
            delta[place] = sign * 1e-5
            if at is None:
                difference += sign * case.loss(case.x + delta)
            else:
                at.assign_add(delta)
                difference += sign * case.loss()
                at.assign_sub(delta)
        # Central differences err by the third derivative times 1e-10, and by rounding of the loss by 1e-5.
        assert abs(difference / 2e-5 - found[place]) < 1e-6 * max(1, abs(found[place]))


def test_what_is_not_wanted_is_not_computed(case):
    """Frozen weights, and an x that nobody watches."""
    weights = list(case.weights.values())
    every = case.gradients()
    with tf.GradientTape() as tape:
        value = case.loss()
    assert_close(tape.gradient(value, weights), every[1:], 0)
    frozen = {name: tf.constant(weight) for name, weight in case.weights.items()}
    with tf.GradientTape() as tape:
        tape.watch(case.x)
        y, last = getattr(sluice.tensorflow, case.cell)(case.x, frozen)
        value = tf.reduce_sum(y * y) + tf.add_n([tf.reduce_sum(part) for part in tf.nest.flatten(last)])
    assert_close(tape.gradient(value, case.x), every[0], 0)


def test_one_trace_runs_all_extents(case):
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None, None, case.input], tf.float64), tf.TensorSpec([None], tf.int32)])
    def run(x, lengths):
        traces.append(x.shape)
        y, last = case.run(x, lengths=lengths)
        assert y.shape[2] is not None
        return y, last

    for _ in range(6):
        time, rows = (int(case.rng.integers(1, most)) for most in (30, 12))
        x, lengths = case.draw_x(time, rows), tf.constant(case.rng.integers(0, time + 1, rows), tf.int32)
        assert_close(run(x, lengths), case.run(x, lengths=lengths), 0)
    assert len(traces) == 1


def test_shapes_are_known_where_the_inputs_are(case):
    y, last = case.run()

    @tf.function
    def run(x):
        in_graph = case.run(x)
        assert [part.shape for part in tf.nest.flatten(in_graph)] == [part.shape for part in tf.nest.flatten((y, last))]
        return in_graph

    run(case.x)
    batch = tf.function(lambda x: case.run(x)).get_concrete_function(tf.TensorSpec([case.time, None, case.input], tf.float64))
    shapes = [part.shape.as_list() for part in tf.nest.flatten(batch.structured_outputs)]
    assert shapes[0] == [case.time, None, y.shape[2]] and shapes[1] == [last[0].shape[0] if case.cell == "lstm" else
                                                                        last.shape[0], None, case.hidden]


def test_a_graph_of_tensorflow_1(case):
    """A session, and tf.gradients, which asks for some of the gradients only."""
    expected = case.gradients()
    initial = {name: value.numpy() for name, value in case.weights.items()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float64, [None, None, case.input])
        case.weights = {name: tf.constant(value) for name, value in initial.items()}
        weights = list(case.weights.values())
        loss = case.loss(x)
        every = tf.compat.v1.gradients(loss, [x, *weights])
        of_weights = tf.compat.v1.gradients(loss, weights[:1])
        of_x = tf.compat.v1.gradients(loss, x)
        feed = {x: case.x.numpy()}
        found = [session.run(wanted, feed) for wanted in (every, of_weights, of_x)]
    assert_close(found, [*expected, expected[1], expected[0]], 0)


def test_an_empty_batch(case):
    x = tf.zeros([case.time, 0, case.input], tf.float64)
    with tf.GradientTape() as tape:
        y, last = case.run(x)
        value = tf.reduce_sum(y)
    assert y.shape[:2] == (case.time, 0) and all(part.shape[1] == 0 for part in tf.nest.flatten(last))
    for gradient in tape.gradient(value, list(case.weights.values())):
        assert not np.any(gradient)


def test_threads(case):
    """Runs side by side, of other extents, eager and in a graph, give what they give alone."""
    step = tf.function(lambda x: case.gradients(lambda: case.loss(x)), reduce_retracing=True)
    xs = [case.draw_x(int(case.rng.integers(1, 20)), int(case.rng.integers(1, 9))) for _ in range(8)]
    expected = [(case.run(x), step(x)) for x in xs]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(5):
            found = list(pool.map(lambda x: (case.run(x), step(x)), xs))
            assert_close(found, expected, 0)


def test_runs_of_one_graph_side_by_side(case):
    xs = [case.draw_x(case.time, case.rows) for _ in range(12)]
    assert_close(tf.function(lambda: [case.run(x) for x in xs])(), [case.run(x) for x in xs], 0)


def test_map_and_while_loops(case):
    xs = tf.stack([case.draw_x(case.time, case.rows) for _ in range(5)])
    found = tf.function(lambda xs: tf.map_fn(lambda x: case.run(x)[0], xs))(xs)
    assert_close(found, tf.stack([case.run(x)[0] for x in xs]), 0)


def test_a_saved_model_runs_in_another_process(case, tmp_path):
    class Module(tf.Module):
        def __init__(self):
            self.weights = case.weights

        @tf.function(input_signature=[tf.TensorSpec([None, None, case.input], tf.float64)])
        def __call__(self, x):
            return case.run(x)[0]

    tf.saved_model.save(Module(), str(tmp_path / "model"))
    np.save(tmp_path / "x.npy", case.x)
    program = f"""
        import numpy as np, tensorflow as tf, sluice.tensorflow
        sluice.tensorflow.load_ops()
        model = tf.saved_model.load({str(tmp_path / "model")!r})
        x = tf.constant(np.load({str(tmp_path / "x.npy")!r}))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x)
        np.save({str(tmp_path / "y.npy")!r}, y)
        np.save({str(tmp_path / "dx.npy")!r}, tape.gradient(y, x))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    assert_close(np.load(tmp_path / "y.npy"), case.run()[0], 0)
    with tf.GradientTape() as tape:
        tape.watch(case.x)
        y = case.run()[0]
    assert_close(np.load(tmp_path / "dx.npy"), tape.gradient(y, case.x), 0)


def test_second_derivatives_are_refused(case):
    with tf.GradientTape() as outer:
        outer.watch(case.x)
        with tf.GradientTape() as inner:
            inner.watch(case.x)
            value = case.loss()
        first = inner.gradient(value, case.x)
    with pytest.raises(NotImplementedError, match="no second derivative"):
        outer.gradient(first, case.x)


def test_forward_mode_is_refused(case):
    with tf.autodiff.ForwardAccumulator(case.x, tf.ones_like(case.x)):
        with pytest.raises(NotImplementedError, match="no forward mode"):
            case.loss()
