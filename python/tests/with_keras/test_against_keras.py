"""Outputs, states and gradients against Keras's own layers."""

import keras
import numpy as np
import pytest
from keras_cases import KINDS, MASKS, Case, array, assert_close, flat, run, run_with_gradients

# float64 rounds at 1e-16. Gradients add up to a thousand products over 12 steps and 7 rows.
EXACT = 1e-12


@pytest.mark.parametrize("number", range(24))
def test_random_layers(number, true_float64):
    case = Case(number)
    reference, own = case.layers()
    x, state, mask = case.x(), case.state(), case.mask()
    assert_close(run_with_gradients(own, x, state, mask), run_with_gradients(reference, x, state, mask), EXACT, case)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("mask", MASKS)
def test_every_mask(kind, mask, true_float64):
    for number in range(4):
        case = Case(number, kind=kind, mask=mask, return_sequences=number < 3, go_backwards=number % 2 == 0,
                    zero_output_for_mask=number == 1)
        reference, own = case.layers()
        x, state, mask_array = case.x(), case.state(), case.mask()
        assert_close(run(own, x, state, mask_array), run(reference, x, state, mask_array), EXACT, case)


@pytest.mark.parametrize("number", range(6))
def test_keras_as_it_is(number):
    """Without true_float64: Keras rounds to float32 on torch and JAX, which 12 steps and sums over them make some 1e-6."""
    keras.config.set_floatx("float64")
    case = Case(number)
    reference, own = case.layers()
    x, state, mask = case.x(), case.state(), case.mask()
    exact = keras.backend.backend() == "tensorflow"
    assert_close(run_with_gradients(own, x, state, mask), run_with_gradients(reference, x, state, mask), EXACT if exact else 3e-5,
                 case)


# Rounding errors of Keras's layer in fewer bits, against itself in float64, are the measure for Sluice's; by luck they can be
# small, so there is something to add: the rounding of a few outputs.
@pytest.mark.parametrize("dtype, more", [("float32", 1e-6), ("mixed_bfloat16", 2e-2), ("bfloat16", 2e-2), ("mixed_float16", 2e-3),
                                         ("float16", 2e-3)])
@pytest.mark.parametrize("number", range(2))
def test_fewer_bits_are_as_near_as_kerass(dtype, more, number):
    case = Case(number)
    exact, _ = case.layers()
    case.dtype = dtype
    reference, own = case.layers()
    exact.set_weights([array(weight) for weight in reference.weights])
    # Inputs that all dtypes have.
    x = (case.x() * 64).round() / 64
    state = [(part * 64).round() / 64 for part in case.state() or []] or None
    mask = case.mask()
    expected = run_with_gradients(exact, x, state, mask)
    compute = own.compute_dtype
    found, keras_own = (run_with_gradients(layer, x, state, mask, dtype=compute) for layer in (own, reference))

    def errors(results):
        return [np.abs(a - b).max() / max(1.0, np.abs(b).max()) if b.size else 0.0 for a, b in zip(results, expected)]

    assert max(errors(found)) <= 3 * max(errors(keras_own)) + more, case
    outputs = flat(own(keras.ops.convert_to_tensor(x, dtype=compute)))
    assert {keras.backend.standardize_dtype(output.dtype) for output in outputs} == {compute}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("merge_mode", ["concat", "sum", "ave", "mul", None])
def test_bidirectional(kind, merge_mode, true_float64):
    number = KINDS.index(kind)
    case = Case(number, kind=kind, go_backwards=False, return_state=False, return_sequences=number % 2 == 0)
    layers = [keras.layers.Bidirectional(layer, merge_mode=merge_mode, dtype="float64") for layer in case.layers()]
    for layer in layers:
        layer.build((case.rows, case.time, case.input))
    reference, own = layers
    assert type(own.forward_layer).__module__.startswith("sluice.")
    own.set_weights(reference.get_weights())
    x, mask = case.x(), case.mask()
    assert_close(run_with_gradients(own, x, None, mask), run_with_gradients(reference, x, None, mask), EXACT, case)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_stateful_layers_go_on(kind, true_float64):
    case = Case(0, kind=kind, stateful=True, go_backwards=False)
    reference, own = case.layers()
    for turn in range(6):
        if turn == 4:
            reference.reset_state()
            own.reset_state()
        x, mask = case.x(), case.mask() if turn % 2 else None
        assert_close(run(own, x, None, mask), run(reference, x, None, mask), EXACT, case)
        assert_close([array(part) for part in own.states], [array(part) for part in reference.states], EXACT, case)


def test_parts_of_a_sequence_give_the_whole(true_float64):
    for kind in KINDS:
        case = Case(3, kind=kind, stateful=True, go_backwards=False, return_sequences=True, return_state=False)
        _, own = case.layers()
        x = case.draw(case.rows, 9, case.input)
        parts = [run(own, x[:, begin:end])[0] for begin, end in ((0, 4), (4, 5), (5, 9))]
        own.reset_state()
        assert_close([np.concatenate(parts, axis=1)], run(own, x), EXACT, case)


def test_masks_of_keras_layers(true_float64):
    tokens = np.array([[3, 1, 0, 0], [2, 4, 1, 3], [0, 0, 4, 2], [0, 3, 0, 1]])
    for kind in KINDS:
        case = Case(1, kind=kind, go_backwards=False, return_state=False, return_sequences=True)
        reference, own = (keras.Sequential([keras.layers.Embedding(5, case.input, mask_zero=True, dtype="float64"), layer,
                                            keras.layers.GRU(3, dtype="float64")]) for layer in case.layers())
        reference.build((4, 4))
        own.build((4, 4))
        own.set_weights(reference.get_weights())
        assert_close([array(own(tokens))], [array(reference(tokens))], EXACT, case)
        x = case.draw(4, 4, case.input) * (tokens > 0)[:, :, None]
        outputs = [array(layer(keras.layers.Masking()(x))) for layer in (own.layers[1], reference.layers[1])]
        assert_close(outputs[:1], outputs[1:], EXACT, case)
