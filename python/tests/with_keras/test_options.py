"""Bad input, and that nothing runs Keras's own loops."""

import keras
import numpy as np
import pytest
import sluice.keras
from keras_cases import KINDS, Case, run, run_with_gradients


@pytest.mark.parametrize("make, said", [
    (lambda: sluice.keras.LSTM(3, activation="relu"), r"LSTM\(3\): its activation is 'relu'; Sluice has 'tanh'$"),
    (lambda: sluice.keras.LSTM(3, recurrent_activation="hard_sigmoid"),
     r"LSTM\(3\): its recurrent_activation is 'hard_sigmoid'; Sluice has 'sigmoid'$"),
    (lambda: sluice.keras.GRU(4, activation=None), r"GRU\(4\): its activation is 'linear'; Sluice has 'tanh'$"),
    (lambda: sluice.keras.GRU(4, activation=lambda x: x), r"GRU\(4\): its activation is '<lambda>'"),
    (lambda: sluice.keras.SimpleRNN(2, "sigmoid"), r"its activation is 'sigmoid'; Sluice has 'tanh' and 'relu'"),
    (lambda: sluice.keras.LSTM(0), "positive integer"),
])
def test_options_that_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_wrong_inputs(kind):
    _, own = Case(0, "float32", kind=kind, return_state=False).layers()
    inputs = own.cell.kernel.shape[0]
    with pytest.raises(ValueError, match="expected ndim=3, found ndim=2"):
        own(np.zeros((2, inputs), "float32"))
    with pytest.raises(ValueError, match="needs at least one time step"):
        own(np.zeros((2, 0, inputs), "float32"))
    with pytest.raises(ValueError, match=f"the input has {inputs + 1} features, and the layer was built for {inputs}"):
        own(np.zeros((2, 3, inputs + 1), "float32"))
    x, ones = np.zeros((2, 3, inputs), "float32"), keras.ops.ones
    for shape in ((2, 3, 2), (2, 4), (3, 3), (6,)):
        with pytest.raises(ValueError, match=r"mask has shape \(.*\); it must be \[rows, time\], here \(2, 3\)"):
            own(x, mask=ones(shape, dtype="bool"))
    count = 2 if kind[0] == "LSTM" else 1
    for rows, units in ((3, own.units), (2, own.units + 1)):
        with pytest.raises(ValueError, match=rf"initial_state has a tensor of shape \({rows}, {units}\), not \(2, {own.units}\)"):
            own(x, initial_state=[ones((rows, units))] * count)
    with pytest.raises(ValueError, match=f"initial_state has 3 tensors, not {count}"):
        own(x, initial_state=[ones((2, own.units))] * 3)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_no_rows(kind):
    _, own = Case(0, "float32", kind=kind, return_state=False, return_sequences=True).layers()
    assert own(np.zeros((0, 3, own.cell.kernel.shape[0]), "float32")).shape == (0, 3, own.units)


def test_unroll_and_use_cudnn_change_nothing():
    case = Case(1, "float32", kind=("LSTM", {}))
    reference, own = case.layers()
    case.options.update(unroll=True, use_cudnn=True, implementation=1)
    other = sluice.keras.LSTM(case.units, **case.options)
    other.build((None, None, case.input))
    other.set_weights(own.get_weights())
    x = case.x()
    for a, b in zip(run(other, x, dtype="float32"), run(own, x, dtype="float32"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_runs_kerass_loops(monkeypatch):
    backend = keras.src.backend
    called = []

    def refuse(*_, **__):
        called.append(1)
        raise AssertionError("Keras's own recurrent layer ran")

    pairs = [Case(number, dropout=0.2, recurrent_dropout=0.2 * (number % 2)) for number in range(8)]
    layers = [(case, *case.layers()) for case in pairs]
    for name in ("rnn", "lstm", "gru", "bidirectional_lstm", "bidirectional_gru"):
        monkeypatch.setattr(backend, name, refuse)
    for kind in ("LSTMCell", "GRUCell", "SimpleRNNCell"):
        monkeypatch.setattr(getattr(keras.layers, kind), "call", refuse)
    for case, _, own in layers:
        run_with_gradients(own, case.x(), case.state(), case.mask(), training=True)
    for kind in ("LSTM", "GRU"):
        layer = keras.layers.Bidirectional(getattr(sluice.keras, kind)(3))
        layer.build((2, 4, 2))
        layer(np.zeros((2, 4, 2), "float32"))
    assert not called
    with pytest.raises(AssertionError):
        run(layers[0][1], layers[0][0].x())  # Keras's would be seen
