"""Random chains of layers for Keras 3 and tf-keras: what both tests of Keras share."""

import numpy
from interop_cases import assert_same, features_and_ids, softmax, without_zeros, words_beside

import sluice

CELLS = ("LSTM", "GRU", "GRU before", "SimpleRNN tanh", "SimpleRNN relu")


class Chain:
    """[Embedding], recurrent layers with what may stand between them, [pooling], [Dense]."""

    def __init__(self, keras, draw, seed):
        self.keras, self.draw = keras, draw
        self.cell = CELLS[seed % len(CELLS)]
        self.hard = self.cell[0] in "LG" and self.chance(4)
        self.bias = not self.chance(4)
        self.vocabulary = self.number(6, 30) if self.chance(2) else 0
        self.features = self.number(1, 12)
        self.masked = self.vocabulary > 0 and self.chance(2)
        self.pooling = ("none", "last", "mean", "max")[self.number(0, 3)]
        self.is_reversed = False
        self.layers = self.make_layers()
        self.model = self.join(functional=self.chance(2))
        self.set_weights()

    def number(self, least, most):
        return int(self.draw.integers(least, most + 1))

    def chance(self, of):
        return self.number(1, of) == 1

    def recurrent(self, units, **options):
        L = self.keras.layers
        options = {"return_sequences": True, "use_bias": self.bias, **options}
        if self.hard:
            options["recurrent_activation"] = "hard_sigmoid"
        if self.cell.startswith("GRU"):
            options["reset_after"] = self.cell == "GRU"
            return L.GRU(units, **options)
        if self.cell.startswith("SimpleRNN"):
            return L.SimpleRNN(units, activation=self.cell.split()[1], **options)
        return L.LSTM(units, **options)

    def make_layers(self):
        L = self.keras.layers
        layers = [L.Embedding(self.vocabulary, self.features, mask_zero=self.masked)] if self.vocabulary else []
        count = self.number(1, 3)
        for at in range(count):
            options = {}
            if at == count - 1 and self.pooling == "last":
                options["return_sequences"] = False
                options["go_backwards"] = self.chance(4) and not self.masked
            elif not self.masked and self.chance(8):
                options["go_backwards"] = True
                self.is_reversed = not self.is_reversed
            layer = self.recurrent(self.number(2, 12), **options)
            # Bidirectional behind steps in reverse order is refused.
            if not options.get("go_backwards") and not self.is_reversed and self.chance(2):
                layer = L.Bidirectional(layer)
            layers.append(layer)
            if self.chance(5):
                layers.append(L.Dropout(0.3))
            if at < count - 1 and self.chance(4):
                layers.append(L.BatchNormalization())
            if at < count - 1 and self.chance(5):
                layers.append(L.Dense(self.number(2, 9)))
        if self.pooling == "mean":
            layers.append(L.GlobalAveragePooling1D())
        elif self.pooling == "max":
            layers.append(L.GlobalMaxPooling1D())
        if self.pooling != "max" and self.chance(4):
            layers.append(L.BatchNormalization())
        self.activation = None
        if self.vocabulary or self.chance(2):
            self.activation = (None, "softmax", "sigmoid")[self.number(0, 2)]
            width = 1 if self.activation == "sigmoid" else 40 + self.number(0, 9)
            last = L.Dense(width, use_bias=not self.chance(4), activation=self.activation)
            layers.append(L.TimeDistributed(last) if self.pooling == "none" and self.chance(3) else last)
        return layers

    def join(self, functional):
        keras = self.keras
        shape, dtype = ((None,), "int32") if self.vocabulary else ((None, self.features), "float32")
        given = keras.Input(shape, dtype=dtype)
        if not functional:
            return keras.Sequential([given, *self.layers])
        x = given
        for layer in self.layers:
            x = layer(x)
        return keras.Model(given, x)

    def set_weights(self):
        size = 0.3 if self.cell.endswith("relu") else 0.6  # whose outputs grow from step to step
        for layer in self.model.layers:
            numbers = [self.draw.uniform(-size, size, w.shape).astype("f4") for w in layer.get_weights()]
            if type(layer).__name__ == "BatchNormalization":
                numbers[-1] = numpy.abs(numbers[-1]) + 0.3
            layer.set_weights(numbers)

    def input(self):
        steps = self.number(1, 20)
        if self.vocabulary:
            return self.draw.integers(1, self.vocabulary, size=steps)
        return self.draw.normal(size=(steps, self.features)).astype("f4")

    def padded(self, x):
        """A row of a batch: with padding behind it, where the model knows padding."""
        if self.masked and self.pooling != "max":
            x = numpy.concatenate([x, numpy.zeros(self.number(0, 5), x.dtype)])
        return x[None]


def predict(model, row, steps):
    """What a model says of one row of ids or frames, without the steps behind its end."""
    values = numpy.asarray(model(row, training=False))[0]
    return values[:steps] if values.ndim == 2 else values[None]


def assert_goes_there_and_back(chain, path, back, tmp_path):
    """From Keras to Sluice to Keras; all three compute the same. The last one means Keras 3."""
    report = sluice.convert(path, tmp_path / "model", verify=True)
    assert report.check.agrees
    x = chain.input()
    expected = predict(chain.model, chain.padded(x), len(x))
    if chain.is_reversed:  # Sluice puts out each step at its own place
        expected = expected[::-1]
    ours = features_and_ids(tmp_path / "model", x, report.kind)
    if chain.activation != "sigmoid":
        ours = without_zeros(ours, expected.shape[1])
    if chain.activation == "softmax":
        assert_same(softmax(ours), expected, report.text)
    elif chain.activation == "sigmoid":
        assert_same(softmax(ours)[:, 1:], expected, report.text)
    else:
        assert_same(ours, expected, report.text)

    sluice.convert(tmp_path / "model", back, to="keras", verify=True)
    if chain.hard and chain.keras.__version__ < "3":
        return  # the hard sigmoid of the file is that of Keras 3
    loaded = chain.keras.models.load_model(back)
    if chain.activation == "sigmoid":
        expected = numpy.concatenate([1 - expected, expected], axis=1)
    elif chain.activation is None and chain.vocabulary:
        expected = softmax(expected)
    if chain.vocabulary:
        words = words_beside(back)
        x = numpy.array([words[str(number)] for number in x])
    assert_same(without_zeros(predict(loaded, x[None], len(x)), expected.shape[1]), expected, report.text)
