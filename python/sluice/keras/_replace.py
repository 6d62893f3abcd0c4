"""Swaps the recurrent layers of a model that somebody else wrote."""

import keras

from ._backend import backend
from ._layers import GRU, LSTM, SimpleRNN, adopt, reason_against

_LAYERS = {keras.layers.LSTM: LSTM, keras.layers.GRU: GRU, keras.layers.SimpleRNN: SimpleRNN}
_CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell, keras.layers.StackedRNNCells)


def _reason_against(layer):
    """Why a recurrent layer can't be swapped; None: it can."""
    if type(layer) in _LAYERS:
        changed = next((name for name in ("call", "inner_loop") if name in vars(layer)), None)
        cell = type(layer.cell)
        if changed is not None:
            return f"its {changed} was replaced"
        if cell not in _CELLS:
            return f"its cell is a {cell.__module__}.{cell.__qualname__}"
        return reason_against(layer)
    base = next((kind for kind in _LAYERS if isinstance(layer, kind)), None)
    if base is not None:
        return f"{type(layer).__module__}.{type(layer).__qualname__} changes {base.__name__}"
    if isinstance(layer, keras.layers.RNN):
        return "Sluice swaps LSTM, GRU and SimpleRNN layers, not an RNN over a cell"
    return "Sluice has no cells, only layers"


def _is_recurrent(layer):
    kinds = (keras.layers.RNN, keras.layers.ConvLSTM1D, keras.layers.ConvLSTM2D, keras.layers.ConvLSTM3D, *_CELLS)
    return isinstance(layer, kinds) and type(layer) not in _LAYERS.values()


def _title(layer):
    units = getattr(layer, "units", None)
    return f"{layer.path or layer.name}: {type(layer).__name__}({'' if units is None else units})"


def _forget_compiled(model):
    """Makes a model trace its functions anew. XLA can't compile what Sluice's layers run on TensorFlow."""
    for name in ("train_function", "test_function", "predict_function"):
        if getattr(model, name, None) is not None:
            setattr(model, name, None)
    if not backend.SUPPORTS_XLA and getattr(model, "_jit_compile", None):
        model.jit_compile = False


def replace(model, *, verbose=True):
    """Swaps every keras.layers.LSTM, GRU and SimpleRNN in a model for Sluice's, also inside Bidirectional and other layers.

    The layers stay the same objects and change their class: weights, optimizers, functional graphs and a compiled model's
    settings stay as they are. Prints what it swapped, and what it left as it was, and why; verbose=False prints nothing.
    Returns the model. model: a model, or a layer. A compiled model keeps the functions that it traced before, so pass the
    outermost model that was compiled, not a part of it, or compile that model again.
    """
    if not isinstance(model, keras.layers.Layer):
        raise TypeError(f"model is of type {type(model).__name__}; it must be a keras.Model or a layer")
    layers = list(model._flatten_layers())
    cells = {id(layer.cell) for layer in layers if isinstance(layer, keras.layers.RNN)}
    cells |= {id(cell) for layer in layers if isinstance(layer, keras.layers.StackedRNNCells) for cell in layer.cells}
    report = []
    for layer in layers:
        if not _is_recurrent(layer) or id(layer) in cells:
            continue
        title, reason = _title(layer), _reason_against(layer)
        report.append(f"left {title}: {reason}" if reason else f"swapped {title}")
        if reason is None:
            object.__setattr__(layer, "__class__", _LAYERS[type(layer)])
            adopt(layer)
    if any(line.startswith("swapped") for line in report):
        for layer in layers:
            if isinstance(layer, keras.Model):
                _forget_compiled(layer)
    if verbose:
        print("\n".join(report) if report else "no recurrent layer to swap")
    return model
