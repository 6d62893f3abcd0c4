"""Programs for TensorFlow 1 as people wrote them: tf.nn.dynamic_rnn over its own cells, and a checkpoint."""

import tensorflow as tf
from tf_keras.src.layers.rnn.legacy_cells import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell, MultiRNNCell, RNNCell

v1 = tf.compat.v1


class CudnnCompatibleGRUCell(RNNCell):
    """As tf.contrib.cudnn_rnn had it, which TensorFlow 2 lacks: the reset gate acts on the product."""

    def __init__(self, units):
        super().__init__(name="cudnn_compatible_gru_cell")
        self.units = units

    @property
    def state_size(self):
        return self.units

    @property
    def output_size(self):
        return self.units

    def __call__(self, x, h, scope=None):
        with v1.variable_scope("cudnn_compatible_gru_cell", reuse=v1.AUTO_REUSE):
            both = tf.concat([x, h], 1)
            r, u = tf.split(tf.sigmoid(dense(both, 2 * self.units, "gates")), 2, 1)
            with v1.variable_scope("candidate"):
                of_input = dense(x, self.units, "input_projection")
                of_state = dense(h, self.units, "hidden_projection")
            new = u * h + (1 - u) * tf.tanh(of_input + r * of_state)
        return new, new


def dense(x, units, name):
    with v1.variable_scope(name, reuse=v1.AUTO_REUSE):
        kernel = v1.get_variable("kernel", [x.shape[-1], units], tf.float32)
        bias = v1.get_variable("bias", [units], tf.float32)
    return tf.tensordot(x, kernel, 1) + bias


def make_cell(kind, units, **options):
    """A cell by the name that its variables have in a checkpoint."""
    if kind == "cudnn_compatible_gru_cell":
        return CudnnCompatibleGRUCell(units)
    if kind == "cudnn_compatible_lstm_cell":
        return LSTMCell(units, name=kind, forget_bias=0.0)
    cells = {"lstm_cell": LSTMCell, "gru_cell": GRUCell, "basic_rnn_cell": BasicRNNCell,
             "basic_lstm_cell": BasicLSTMCell}
    return cells[kind](units, **options)


def recurrent(x, cells):
    """Layers of one direction."""
    return v1.nn.dynamic_rnn(MultiRNNCell(cells), x, dtype=tf.float32, time_major=True)[0]


def recurrent_both_ways(x, forward, backward):
    """tf.contrib.rnn.stack_bidirectional_dynamic_rnn."""
    with v1.variable_scope("stack_bidirectional_rnn"):
        for at, cells in enumerate(zip(forward, backward, strict=True)):
            with v1.variable_scope(f"cell_{at}"):
                outputs, _ = v1.nn.bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32, time_major=True)
                x = tf.concat(outputs, 2)
    return x


def program_of(shapes, activation):
    """The program that the variables of a checkpoint say, as a function from the input to the output."""
    names = [name for name in shapes if "/cell_" in name]
    scope = names[0].split("/")[0]
    count = 1 + max(int(name.split("/cell_")[1].split("/")[0]) for name in names)
    directions = ("fw", "bw") if "/bw/" in "".join(names) else ("",)

    def cell_of(layer, direction):
        found = [name for name in names if f"/cell_{layer}/" in name and f"/{direction}" in name]
        kind = [part for part in found[0].split("/") if part.endswith("_cell")][-1]
        options, place = {}, f"/{direction}/{kind}/" if direction else f"/cell_{layer}/{kind}/"
        of = lambda part: next((shapes[name] for name in found if name.endswith(place + part)), None)
        units = of("candidate/hidden_projection/bias") or of("candidate/bias") or of("bias")
        units = units[0]
        if "lstm" in kind:
            units //= 4
            if kind == "lstm_cell":
                projection = of("projection/kernel")
                options = {"forget_bias": 0.0, "use_peepholes": of("w_f_diag") is not None,
                           "num_proj": projection and projection[1]}
        elif kind == "basic_rnn_cell":
            options = {"activation": activation}
        return make_cell(kind, units, **options)

    def program(x):
        if "embedding" in shapes:
            x = tf.nn.embedding_lookup(v1.get_variable("embedding", shapes["embedding"]), x)
        cells = [[cell_of(layer, direction) for layer in range(count)] for direction in directions]
        with v1.variable_scope(scope):
            x = recurrent(x, cells[0]) if len(cells) == 1 else recurrent_both_ways(x, *cells)
        return dense(x, shapes["output/bias"][0], "output") if "output/bias" in shapes else x

    return program
