"""LSTM, GRU and SimpleRNN with Keras's constructors, weights and configurations."""

import keras
from keras import ops

from ._backend import backend
from ._gate_masks import drop_inputs, widen
from ._masks import Mask
from ._weights import in_order, weights_of

_PACKAGE = "sluice"  # of the names in saved files, such as "sluice>LSTM"


def _name_of(activation):
    return getattr(activation, "__name__", None) or type(activation).__name__ if activation is not None else "linear"


def reason_against(layer):
    """Why the engine can't compute a layer of Keras's with these options; None: it can."""
    if isinstance(layer, keras.layers.SimpleRNN):
        if layer.activation not in (keras.activations.tanh, keras.activations.relu):
            return f"its activation is {_name_of(layer.activation)!r}; Sluice has 'tanh' and 'relu' for a SimpleRNN"
        return None
    if layer.activation is not keras.activations.tanh:
        return f"its activation is {_name_of(layer.activation)!r}; Sluice has 'tanh'"
    if layer.recurrent_activation is not keras.activations.sigmoid:
        return f"its recurrent_activation is {_name_of(layer.recurrent_activation)!r}; Sluice has 'sigmoid'"
    return None


def adopt(layer):
    """Sets what Sluice's layers have unlike Keras's."""
    layer.use_cudnn = False  # Bidirectional runs two layers with cuDNN at once if they allow it.
    layer.supports_jit = backend.SUPPORTS_XLA


def _fits(shape, expected):
    """Whether a shape may be the expected one; either may have None for an unknown extent."""
    return len(shape) == len(expected) and all(None in pair or pair[0] == pair[1] for pair in zip(shape, expected))


class _Layer:
    """The loop over time, which Sluice's layers run in place of Keras's."""

    def __init__(self, units, *args, **kwargs):
        super().__init__(units, *args, **kwargs)
        reason = reason_against(self)
        if reason is not None:
            raise ValueError(f"{type(self).__name__}({units}): {reason}")
        adopt(self)

    def _cell_name(self):
        raise NotImplementedError

    def call(self, sequences, initial_state=None, mask=None, training=False):
        self._check(sequences, initial_state, keras.tree.flatten(mask)[0])
        return super().call(sequences, initial_state=initial_state, mask=mask, training=training)

    def _check(self, sequences, initial_state, mask):
        """Raises unless shapes fit, as far as they are known."""
        rows, time, features = sequences.shape
        if time == 0:
            raise ValueError(f"{self.name}: the input has shape {tuple(sequences.shape)}; it needs at least one time step")
        built_for = self.cell.kernel.shape[0]
        if features != built_for:
            raise ValueError(f"{self.name}: the input has {features} features, and the layer was built for {built_for}")
        if initial_state is not None:
            states = initial_state if isinstance(initial_state, (list, tuple)) else [initial_state]
            if len(states) != len(self.state_size):
                raise ValueError(f"{self.name}: initial_state has {len(states)} tensors, not {len(self.state_size)}")
            for state in states:
                if not _fits(state.shape, (rows, self.units)):
                    raise ValueError(f"{self.name}: initial_state has a tensor of shape {tuple(state.shape)}, not "
                                     f"{(rows, self.units)}")
        if mask is not None and not (_fits(mask.shape, (rows, time)) or _fits(mask.shape, (rows, time, 1))):
            raise ValueError(f"{self.name}: mask has shape {tuple(mask.shape)}; it must be [rows, time], here {(rows, time)}")

    def inner_loop(self, sequences, initial_state, mask, training=False):
        """The last output, outputs [rows, time, units] and a list of the last states, as Keras's layers want them.

        Where sequences are not returned, outputs hold the last one only.
        """
        h0, c0 = (*initial_state, None)[:2]
        mask = keras.tree.flatten(mask)[0]
        if mask is not None:
            mask = Mask(mask, ops.shape(sequences)[1], self.go_backwards)
            sequences = mask.compact(sequences)
        elif self.go_backwards:
            sequences = ops.flip(sequences, 1)
        y, hn, cn = self._run(sequences, h0, c0, mask.lengths if mask is not None else None, bool(training))
        last = mask.last(hn, h0, self.zero_output_for_mask) if mask is not None else hn
        if not self.return_sequences:
            y = ops.expand_dims(last, 1)
        elif mask is not None:
            y = mask.spread(y, h0, last, self.zero_output_for_mask)
        return last, y, [hn] if cn is None else [hn, cn]

    def _run(self, x, h0, c0, lengths, training):
        """y, hn and cn of x [rows, time, input] in the order in which it runs."""
        cell, name = self.cell, self._cell_name()
        kernel, recurrent_kernel, bias = (ops.convert_to_tensor(weight) if weight is not None else None
                                          for weight in (cell.kernel, cell.recurrent_kernel, cell.bias))
        weights = weights_of(name, kernel, recurrent_kernel, bias)
        if training and 0 < cell.dropout < 1:
            mask = cell.get_dropout_mask(x[:, 0, :])
            if isinstance(mask, (list, tuple)):  # one for each gate, where recurrent_dropout is not 0
                x, weights = drop_inputs(x, weights, in_order(mask, name))
            else:
                x = x * ops.expand_dims(mask, 1)
        if not training or not 0 < cell.recurrent_dropout < 1:
            return backend.run(name, x, weights, h0, c0, lengths, training)
        seed = keras.random.randint((1,), 0, 2**31 - 1, dtype="int32", seed=cell.seed_generator)
        gates = kernel.shape[1] // self.units
        if gates > 1:
            weights, h0 = widen(name, gates, self.units, weights, h0)
        y, hn, cn = backend.run(name, x, weights, h0, c0, lengths, training, cell.recurrent_dropout, seed)
        return y[:, :, :self.units], hn[:, :self.units], cn


@keras.saving.register_keras_serializable(_PACKAGE)
class LSTM(_Layer, keras.layers.LSTM):
    """As keras.layers.LSTM, with its arguments, weights and configuration.

    activation must be "tanh" and recurrent_activation "sigmoid". unroll, use_cudnn and implementation change nothing.
    """

    def _cell_name(self):
        return "lstm"


@keras.saving.register_keras_serializable(_PACKAGE)
class GRU(_Layer, keras.layers.GRU):
    """As keras.layers.GRU, with its arguments, weights and configuration.

    activation must be "tanh" and recurrent_activation "sigmoid". unroll, use_cudnn and implementation change nothing.
    """

    def _cell_name(self):
        return "gru" if self.reset_after else "gru_reset_before"


@keras.saving.register_keras_serializable(_PACKAGE)
class SimpleRNN(_Layer, keras.layers.SimpleRNN):
    """As keras.layers.SimpleRNN, with its arguments, weights and configuration.

    activation must be "tanh" or "relu". unroll changes nothing.
    """

    def _cell_name(self):
        return f"rnn_{self.activation.__name__}"
