"""sluice.jax's and sluice.tensorflow's functions for Keras's cells."""


def call(layers, cell, x, weights, h0, c0, **options):
    """Runs lstm, gru or rnn of a module, as the name of a cell says. Returns y and (hn, cn), or y and hn.

    layers: sluice.jax or sluice.tensorflow. The rest is as run's in _backend.py, but h0 and c0 are [1, rows, units].
    """
    if cell == "lstm":
        return layers.lstm(x, weights, (h0, c0), **options)
    if cell.startswith("gru"):
        return layers.gru(x, weights, h0, reset_after=cell == "gru", **options)
    return layers.rnn(x, weights, h0, nonlinearity=cell.removeprefix("rnn_"), **options)
