"""Random models of ONNX by hand: each cell that Sluice reads, in mixed widths and directions."""

import numpy
from onnx import TensorProto, helper, numpy_helper

CELLS = ("LSTM", "LSTM with peepholes", "GRU", "GRU before", "RNN Tanh", "RNN Relu")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Chain:
    """[Gather], recurrent nodes, [pooling], [MatMul and Add], [Softmax]; input "x", output "y" with the logits."""

    def __init__(self, draw, cell, plain=False):
        """plain: without a pooling and a hard sigmoid."""
        self.draw, self.cell = draw, cell
        self.op = cell.split()[0]
        self.hard = self.op != "RNN" and self.chance(4) and not plain
        self.bias = not self.chance(4)
        self.vocabulary = self.number(6, 30) if self.chance(2) else 0
        self.pooling = "none" if plain else ("none", "last", "mean", "max")[self.number(0, 3)]
        self.softmax = self.chance(2)
        self.nodes, self.weights = [], []
        self.features = width = self.number(1, 12)
        x = "x"
        if self.vocabulary:
            x = self.node("Gather", [self.weight(self.vocabulary, width), "x"])
        count = self.number(1, 3)
        for at in range(count):
            reads_last = at == count - 1 and self.pooling == "last"
            x, width = self.recurrent(x, width, ("forward", "reverse", "bidirectional")[self.number(0, 2)], reads_last)
        if self.pooling in ("mean", "max"):
            x = self.node("ReduceMean" if self.pooling == "mean" else "ReduceMax", [x], axes=[0], keepdims=0)
        self.has_output = self.vocabulary > 0 or self.chance(2)
        if self.has_output:
            outputs = 40 + self.number(0, 9)
            x = self.node("MatMul", [x, self.weight(width, outputs)])
            x = self.node("Add", [x, self.weight(outputs)])
        self.node("Identity", [x], "logits")
        last = "logits"
        if self.has_output and self.softmax:
            last = self.node("Softmax", [last], axis=-1)
        self.node("Identity", [last], "y")

    def number(self, least, most):
        return int(self.draw.integers(least, most + 1))

    def chance(self, of):
        return self.number(1, of) == 1

    def constant(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.asarray(values), name))
        return name

    def weight(self, *shape):
        return self.constant(self.draw.uniform(-0.6, 0.6, shape).astype("f4"))

    def node(self, op, inputs, output=None, **attributes):
        output = output or f"n{len(self.nodes)}"
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return output

    def recurrent(self, x, width, direction, reads_last):
        hidden, gates = self.number(2, 12), GATES[self.op]
        directions = 2 if direction == "bidirectional" else 1
        inputs = [x, self.weight(directions, gates * hidden, width), self.weight(directions, gates * hidden, hidden),
                  self.weight(directions, 2 * gates * hidden) if self.bias else ""]
        attributes = {"hidden_size": hidden, "direction": direction}
        if self.cell == "LSTM with peepholes":
            inputs += ["", "", "", self.weight(directions, 3 * hidden)]
        if self.hard:
            tanhs = ["Tanh"] * (2 if self.op == "LSTM" else 1)
            attributes["activations"] = (["HardSigmoid"] + tanhs) * directions
            attributes["activation_alpha"] = [0.25, 0.2][:directions]
            attributes["activation_beta"] = [0.4, 0.5][:directions]
        if self.op == "GRU":
            attributes["linear_before_reset"] = int(self.cell == "GRU")
        if self.op == "RNN":
            attributes["activations"] = [self.cell.split()[1]] * directions
        y = [f"y{len(self.nodes)}", f"h{len(self.nodes)}"]
        self.node(self.op, inputs, y, **attributes)
        # Y is [time, directions, batch, hidden] and Y_h [directions, batch, hidden].
        value, perm, zeros = (y[1], [1, 0, 2], [0]) if reads_last else (y[0], [0, 2, 1, 3], [0, 0])
        if directions == 1 and self.chance(2):
            return self.node("Squeeze", [value, self.constant([0 if reads_last else 1])]), hidden
        value = self.node("Transpose", [value], perm=perm)
        return self.node("Reshape", [value, self.constant([*zeros, directions * hidden])]), directions * hidden

    def model(self, outputs=("y",)):
        kind = TensorProto.INT64 if self.vocabulary else TensorProto.FLOAT
        given = helper.make_tensor_value_info("x", kind, ["time", "batch"] + [self.features] * (not self.vocabulary))
        axes = (["batch"] if self.pooling != "none" else ["time", "batch"]) + ["width"]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, axes) for name in outputs]
        graph = helper.make_graph(self.nodes, "chain", [given], results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def input(self, rows=1):
        """[time, rows] of ids, or [time, rows, features]."""
        steps = self.number(1, 20)
        if self.vocabulary:
            return self.draw.integers(self.vocabulary, size=(steps, rows))
        return self.draw.normal(size=(steps, rows, self.features)).astype("f4")


def run(model, feeds, outputs=None):
    """What ONNX Runtime computes; `model` is a path or a ModelProto."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    given = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    return session.run(outputs, feeds)
