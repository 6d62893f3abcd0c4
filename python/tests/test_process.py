"""Threads, memory, plans and the time of an import."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
from cases import random_weights
from resident import resident_bytes

from sluice import _native
from sluice._plans import rounded
from sluice.numpy import Stack, lstm

INPUT, HIDDEN = 5, 6


def run_in_threads(*calls):
    failures = []

    def guarded(call):
        try:
            call()
        except BaseException as error:  # to be raised in the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_two_threads_at_once_are_right():
    rng = np.random.default_rng(0)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN, layers=2, directions=2)
    shared = Stack("lstm", weights)
    inputs = [rng.standard_normal((time, rows, INPUT)) for time, rows in ((9, 4), (30, 2))]
    expected = [lstm(x, weights)[0] for x in inputs]

    def repeat(index, call):
        for _ in range(200):
            np.testing.assert_array_equal(call(inputs[index])[0], expected[index])

    run_in_threads(*(lambda i=i: repeat(i, Stack("lstm", weights)) for i in (0, 1)))
    run_in_threads(*(lambda i=i: repeat(i, lambda x: lstm(x, weights)) for i in (0, 1)))
    run_in_threads(*(lambda i=i: repeat(i, shared) for i in (0, 1)))


def test_other_threads_run_during_a_call():
    rng = np.random.default_rng(1)
    stack = Stack("lstm", random_weights(rng, "lstm", 64, 64))
    x = rng.standard_normal((2000, 16, 64))
    stack(x[:1])
    done = threading.Event()
    thread = threading.Thread(target=lambda: (stack(x), done.set()))
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    # The GIL would be held from the call's begin to its end: one turn or two.
    assert turns > 10


def test_nothing_leaks():
    rng = np.random.default_rng(2)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN, layers=2)
    stack = Stack("lstm", weights, training=True)
    x, lengths = rng.standard_normal((3, 2, INPUT)), np.array([3, 2])

    def rounds(count):
        state = None
        for i in range(count):
            y, state = stack(x, state, lengths=lengths)
            stack.backward(y, state)
            if i % 10 == 0:
                lstm(x, weights)
                try:
                    stack(x[..., :2])
                except ValueError:
                    pass
            if i % 100 == 0:
                Stack("lstm", weights)(x)
        gc.collect()

    rounds(1000)
    before = resident_bytes()
    rounds(10_000)
    assert resident_bytes() - before < 2 << 20


def test_plans_of_many_sizes_do_not_pile_up():
    rng = np.random.default_rng(3)
    stack = Stack("lstm", random_weights(rng, "lstm", INPUT, HIDDEN), plans=3)
    for extent in (1, 2, 4, 8, 16, 32, 64, 5, 6, 7, 8):
        stack(rng.standard_normal((extent, 2, INPUT)))
    assert len(stack._plans) == 3
    assert stack._plans.made == 9  # 5 and 6 steps have one plan; so have 7 and 8, whose first had gone


def test_plans_are_reused():
    rng = np.random.default_rng(4)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN)
    stack = Stack("lstm", weights)
    for extent in (17, 18, 20, 24, 24, 19):
        x = rng.standard_normal((extent, 3, INPUT))
        np.testing.assert_allclose(stack(x)[0], Stack("lstm", weights)(x)[0], atol=1e-14)
    assert stack._plans.made == 1
    stack(x, resets=np.zeros((19, 3), bool))
    assert stack._plans.made == 2


def test_backward_survives_that_its_plan_is_dropped():
    rng = np.random.default_rng(5)
    weights = random_weights(rng, "lstm", INPUT, HIDDEN)
    stack = Stack("lstm", weights, training=True, plans=1)
    other = Stack("lstm", weights, training=True)
    x = rng.standard_normal((4, 2, INPUT))
    y, _ = other(x)
    expected = other.backward(y).x
    stack(rng.standard_normal((90, 8, INPUT)))
    y, _ = stack(x)
    stack.explain(200, 3)
    gc.collect()
    np.testing.assert_array_equal(stack.backward(y).x, expected)


def test_loaded_weights_count_from_the_next_call_on():
    rng = np.random.default_rng(6)
    first, second = (random_weights(rng, "lstm", INPUT, HIDDEN) for _ in range(2))
    x = rng.standard_normal((4, 2, INPUT))
    stack = Stack("lstm", first)
    one = stack(x)[0]
    stack.load(second)
    np.testing.assert_array_equal(stack(x)[0], lstm(x, second)[0])
    stack.load(first)
    np.testing.assert_array_equal(stack(x)[0], one)


def test_objects_may_go_in_any_order():
    device = _native.Device("cpu")
    stream = _native.Stream.create(device)
    plan = _native.Plan(stream, "gru", input=4, hidden=[8], time=3, rows=2, training=True)
    buffer = _native.Buffer(device, 100)
    del device, stream
    gc.collect()
    assert plan.stream.device.name == "cpu" and buffer.pointer % 64 == 0
    assert plan.packed_bytes > 0 and plan.reserve_bytes > 0
    assert all(": " in line for line in plan.explain().splitlines()) and plan.implementation


def test_sizes_are_rounded_to_few():
    assert [rounded(size, 2) for size in range(1, 18)] == [1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24]
    assert rounded(1000, 2) == 1024 and rounded(700, 2) == 768
    for size in range(1, 3000):
        assert size <= rounded(size, 8) <= size * 9 / 8
    assert len({rounded(size, 8) for size in range(1, 1025)}) == 64


def test_importing_is_quick():
    command = [sys.executable, "-c", "import time; begin = time.perf_counter(); import sluice; print(time.perf_counter() - begin)"]
    assert min(float(subprocess.check_output(command)) for _ in range(3)) < 0.2


def test_an_import_loads_neither_numpy_nor_torch():
    program = "import sluice, sys; print([name for name in ('numpy', 'torch') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", program]).strip() == b"[]"


def test_symbols_stay_local():
    program = ("import ctypes, sluice.numpy\n"
               "try: ctypes.CDLL(None).sluice_version; print('global')\n"
               "except AttributeError: print('local')")
    assert subprocess.check_output([sys.executable, "-c", program]).strip() == b"local"
