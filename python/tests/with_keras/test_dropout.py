"""dropout draws what Keras draws. recurrent_dropout draws other numbers from the same distribution."""

import keras
import numpy as np
import pytest
import sluice.keras
from keras import ops
from keras_cases import KINDS, Case, array, assert_close, run, run_with_gradients


@pytest.mark.parametrize("number", range(8))
def test_dropout_of_inputs_is_kerass_draw_for_draw(number, true_float64):
    case = Case(number, dropout=0.4, seed=5)
    reference, own = case.layers()
    x, state, mask = case.x(), case.state(), case.mask()
    for _ in range(2):  # The second call draws anew.
        assert_close(run_with_gradients(own, x, state, mask, training=True),
                     run_with_gradients(reference, x, state, mask, training=True), 1e-12, case)


@pytest.mark.parametrize("number", range(6))
def test_inference_drops_nothing(number, true_float64):
    case = Case(number, dropout=0.4, recurrent_dropout=0.3)
    _, own = case.layers()
    case.options.update(dropout=0.0, recurrent_dropout=0.0)
    reference, _ = case.layers()
    reference.set_weights(own.get_weights())
    x, state, mask = case.x(), case.state(), case.mask()
    assert_close(run(own, x, state, mask), run(reference, x, state, mask), 1e-12, case)


def layer_pair(kind, rate, units=3, inputs=2, **more):
    """Keras's layer and Sluice's with its weights. Large biases keep units of a ReLU from being zero whatever the mask."""
    name, options = kind
    pair = [getattr(package, name)(units, recurrent_dropout=rate, bias_initializer=keras.initializers.RandomUniform(1.5, 2.5), seed=3,
                                    **options, **more)
            for package in (keras.layers, sluice.keras)]
    for layer in pair:
        layer.build((None, None, inputs))
    pair[1].set_weights(pair[0].get_weights())
    return pair


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_recurrent_dropout_has_kerass_distribution(kind, dropout):
    """Mean, covariance and third moments of the outputs of equal rows, which differ by their masks alone."""
    rows, rate = 40000, 0.4
    reference, own = layer_pair(kind, rate, dropout=dropout, return_sequences=True)
    generator = np.random.default_rng(0)
    x = np.repeat(generator.uniform(-2, 2, (1, 3, 2)), rows, axis=0)
    state = [np.repeat(generator.uniform(-1, 1, (1, 3)), rows, axis=0) for _ in range(2 if kind[0] == "LSTM" else 1)]
    outputs = [run(layer, x, state, None, True, "float32")[0].reshape(rows, 9).astype(np.float64)
               for layer in (own, reference)]
    moments = []
    for output in outputs:
        assert np.unique(output.round(5), axis=0).shape[0] > 4  # rows differ
        products = np.einsum("ra,rb->rab", output, output).reshape(rows, -1)
        moments.append(np.concatenate([output, products, products[:, ::10] * output[:, :1]], axis=1))
    # The difference of two means of so many draws is normal; five of its standard deviations happen once in millions.
    deviation = np.sqrt((moments[0].var(0) + moments[1].var(0)) / rows)
    difference = np.abs(moments[0].mean(0) - moments[1].mean(0))
    # Moments without a mask in them differ by rounding alone, of outputs in float32.
    assert (difference <= 5.5 * deviation + 1e-6 * (1 + np.abs(moments[1].mean(0)))).all(), (difference / (deviation + 1e-9)).max()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_mask_of_recurrent_dropout_is_the_same_in_all_steps(kind):
    """Units with equal weights that read their own h alone differ by their masks: a bit for each gate, if steps share it.

    If each step drew anew, these units would take most of the 2**(4*gates) ways through the four steps that have an h.
    """
    units, rows, generator = 4, 200, np.random.default_rng(3)
    _, own = layer_pair(kind, 0.5, units=units, return_sequences=True)
    gates = own.cell.kernel.shape[1] // units

    def equal(*shape):
        """The same for all units of a gate."""
        return np.repeat(generator.uniform(0.3, 0.8, (*shape, gates)), units, axis=-1)

    bias = own.cell.bias.shape[:-1]
    own.set_weights([equal(2), equal(1) * np.tile(np.eye(units), (1, gates)), equal(*bias)])
    y = run(own, np.ones((rows, 5, 2)), None, None, True, "float32")[0]
    ways = []
    for way in y.transpose(0, 2, 1).reshape(rows * units, 5):
        # Ways of equal masks differ by roundings of float32, 6e-8 of values up to 40.
        if all(np.abs(way - other).max() > 1e-4 for other in ways):
            ways.append(way)
    assert 1 < len(ways) <= 2**gates


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_recurrent_dropout_draws_in_each_call_from_the_seed(kind):
    _, own = layer_pair(kind, 0.5, units=4, return_sequences=True)
    first, second = (run(own, np.zeros((6, 5, 2)), None, None, True, "float32")[0] for _ in range(2))
    assert not np.array_equal(first, second)  # each call draws
    keras.utils.set_random_seed(7)
    _, one = layer_pair(kind, 0.5, units=4, return_sequences=True)
    keras.utils.set_random_seed(7)
    _, other = layer_pair(kind, 0.5, units=4, return_sequences=True)
    x = np.ones((6, 5, 2))
    np.testing.assert_array_equal(run(one, x, None, None, True, "float32")[0], run(other, x, None, None, True, "float32")[0])


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_gradients_under_recurrent_dropout(kind, true_float64):
    """Against differences of the loss: the same seed draws the same masks."""
    generator = np.random.default_rng(2)
    _, own = layer_pair(kind, 0.5, dtype="float64", return_sequences=True, dropout=0.3)
    x, seed = generator.uniform(-1, 1, (3, 4, 2)), own.cell.seed_generator.state
    start = array(seed)
    factors = np.random.default_rng(1).uniform(-0.5, 0.5, (3, 4, 3))

    def loss(x):
        seed.assign(ops.convert_to_tensor(start, dtype=seed.dtype))
        return (run(own, x, None, None, True)[0] * factors).sum()

    loss(x)
    seed.assign(ops.convert_to_tensor(start, dtype=seed.dtype))
    gradient = run_with_gradients(own, x, None, None, True)[1]
    step = 1e-6
    for place in np.ndindex(2, 2, 2):
        change = np.zeros_like(x)
        change[place] = step
        slope = (loss(x + change) - loss(x - change)) / (2 * step)
        assert abs(slope - gradient[place]) < 1e-7
