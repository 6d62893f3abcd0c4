#!/usr/bin/env python3
"""Measures ONNX Runtime's LSTM and GRU on the CPU on the shape files of `sluice bench`, for `sluice bench report`.

Implementation: onnxruntime, the forward pass in float32. A shape is one ONNX graph with a node a layer; inputs and
outputs are bound beforehand, and weights are constants, which ONNX Runtime packs when it opens the graph. Each turn
takes another copy of inputs and outputs, so that none of them is in a cache. Times are medians.

    onnx_recurrent.py --shapes bench/shapes/cpu.shapes --dtype float32 --json onnx.json

bench/peers/turns.py puts it beside Sluice in the same run, on the same numbers.
"""

import sys
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import common

IMPLEMENTATIONS = ["onnxruntime"]
# Blocks of ONNX's gates among ours: i, o, f, g of i, f, g, o and z, r, n of r, z, n.
ORDER = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2]}
OPSET, IR_VERSION = 17, 8


def in_onnx_order(blocks, cell, hidden):
    """[gates * hidden, ...] with the gates in ONNX's order."""
    parts = blocks.reshape(len(ORDER[cell]), hidden, -1)
    return numpy.ascontiguousarray(parts[ORDER[cell]]).reshape(blocks.shape)


def weight_sizes(shape, index):
    sums = shape.gates * shape.hidden
    return {"weight_ih": (sums, shape.input_of(index // shape.directions)), "weight_hh": (sums, shape.hidden),
            "bias_ih": (sums,), "bias_hh": (sums,)}


def make_graph(shape, steps, weights):
    """The bytes of a model of so many steps; `weights` as turns.py reads them, flat, by name."""
    nodes, constants, inputs, outputs = [], [], [], []
    d, rows = shape.directions, shape.batch
    is_lstm = shape.cell == "lstm"

    def tensor(kind, name, sizes, element=TensorProto.FLOAT):
        kind.append(helper.make_tensor_value_info(name, element, sizes))
        return name

    def constant(name, values):
        constants.append(numpy_helper.from_array(values, name))
        return name

    x = tensor(inputs, "x", [steps, rows, shape.input])
    lengths = tensor(inputs, "lengths", [rows], TensorProto.INT32) if shape.lengths == "uniform" else ""
    constant("y_shape", numpy.array([steps, rows, d * shape.hidden], numpy.int64))
    for layer in range(shape.layers):
        stacked = {}
        for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            of_layer = [weights[f"{key}.{layer * d + k}"].reshape(weight_sizes(shape, layer * d + k)[key])
                        for k in range(d)]
            stacked[key] = numpy.stack([in_onnx_order(w, shape.cell, shape.hidden) for w in of_layer])
        bias = numpy.concatenate([stacked["bias_ih"], stacked["bias_hh"]], axis=1)
        state = [d, rows, shape.hidden]
        takes = [x, constant(f"w.{layer}", stacked["weight_ih"]), constant(f"r.{layer}", stacked["weight_hh"]),
                 constant(f"b.{layer}", bias), lengths, tensor(inputs, f"h0.{layer}", state)]
        gives = [f"all.{layer}", tensor(outputs, f"hn.{layer}", state)]
        more = {"direction": "bidirectional" if d == 2 else "forward", "hidden_size": shape.hidden}
        if is_lstm:
            takes.append(tensor(inputs, f"c0.{layer}", state))
            gives.append(tensor(outputs, f"cn.{layer}", state))
        else:
            more["linear_before_reset"] = 1
        nodes.append(helper.make_node("LSTM" if is_lstm else "GRU", takes, gives, **more))
        # [time, directions, rows, hidden] -> [time, rows, directions * hidden]
        is_last = layer + 1 == shape.layers
        x = tensor(outputs, "y", [steps, rows, d * shape.hidden]) if is_last else f"y.{layer}"
        turned = f"all.{layer}"
        if d == 2:
            turned = f"turned.{layer}"
            nodes.append(helper.make_node("Transpose", [f"all.{layer}"], [turned], perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [turned, "y_shape"], [x]))
    graph = helper.make_graph(nodes, shape.name, inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    return model.SerializeToString()


class Contest:
    """A shape and pass. Numbers are drawn unless `use` gives them."""

    def __init__(self, shape, pass_name):
        self.shape = shape
        self.pass_name = pass_name
        self.steps = 1 if pass_name == "step" else shape.time
        self.calls = 1  # of a step that are timed together
        self.device = self.device_model = "cpu"
        # A single step is too small to be shared.
        self.threads = 1 if pass_name == "step" else common.thread_count()
        self.tensors = None

    @staticmethod
    def refuse(shape):
        if shape.device != "cpu":
            return "it is measured on the CPU"
        if shape.dtype != "float32":
            return "its CPU provider has these layers in float32"
        if shape.projection:
            return "ONNX has no projection"
        return common.refuse_extras(shape)

    def use(self, tensors):
        self.tensors = tensors

    def drawn(self):
        random, shape = numpy.random.default_rng(self.shape.seed), self.shape

        def draw(*sizes, limit=1.0):
            return random.uniform(-limit, limit, sizes).astype(numpy.float32)

        tensors = {f"{key}.{index}": draw(*sizes, limit=shape.hidden ** -0.5)
                   for index in range(shape.layers * shape.directions)
                   for key, sizes in weight_sizes(shape, index).items()}
        states = (shape.layers, shape.directions, shape.batch, shape.hidden)
        tensors.update(x=draw(shape.time, shape.batch, shape.input), h0=draw(*states), c0=draw(*states))
        if shape.lengths == "uniform":
            tensors["lengths"] = random.integers(1, shape.time + 1, shape.batch).astype(numpy.int32)
        return tensors

    def open(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(make_graph(self.shape, self.steps, self.tensors), options,
                                            providers=["CPUExecutionProvider"])

    def values(self, count):
        """x, states and lengths: `count` copies of them, as ONNX Runtime's own memory."""
        shape, tensors = self.shape, self.tensors
        per_layer = (shape.directions, shape.batch, shape.hidden)

        def copied(array):
            return onnxruntime.OrtValue.ortvalue_from_numpy(numpy.ascontiguousarray(array))

        copies = []
        for _ in range(count):
            one = {"x": copied(tensors["x"].reshape(-1, shape.batch, shape.input)[:self.steps])}
            for layer in range(shape.layers):
                for key in ("h", "c") if shape.cell == "lstm" else ("h",):
                    states = tensors[f"{key}0"].reshape(shape.layers, *per_layer)
                    one[f"{key}0.{layer}"] = copied(states[layer])
                    one[f"{key}n.{layer}"] = copied(numpy.zeros(per_layer, numpy.float32))
            one["y"] = copied(numpy.zeros((self.steps, shape.batch, shape.directions * shape.hidden), numpy.float32))
            if "lengths" in tensors:
                one["lengths"] = copied(tensors["lengths"])
            copies.append(one)
        return copies

    def bind(self, session, values):
        """What `values` names by the graph's inputs and outputs."""
        binding = session.io_binding()
        for node in session.get_inputs():
            binding.bind_ortvalue_input(node.name, values[node.name])
        for node in session.get_outputs():
            binding.bind_ortvalue_output(node.name, values[node.name])
        return binding

    def prepare(self):
        """Bindings that follow each other in turn."""
        if self.tensors is None:
            self.tensors = self.drawn()
        self.session = self.open()
        if self.pass_name == "step":
            self.sets = self.values(2)
            self.frames = [onnxruntime.OrtValue.ortvalue_from_numpy(frame) for frame in
                           self.tensors["x"].reshape(self.shape.time, 1, self.shape.batch, self.shape.input)]
            # Each frame from either state to the other: what one step gave, the next starts from.
            self.bindings = [self.bind(self.session, self.from_to(frame, i % 2))
                             for i, frame in enumerate(self.frames * (1 + self.shape.time % 2))]
            return
        self.sets = self.values(common.set_count(self.shape, common.host_cache_bytes()))
        self.bindings = [self.bind(self.session, one) for one in self.sets]

    def from_to(self, frame, parity):
        values = dict(self.sets[parity], x=frame)
        for name in self.sets[parity]:
            if name[1:3] == "n.":  # hn and cn are the other set's h0 and c0
                values[name] = self.sets[1 - parity][f"{name[0]}0.{name[3:]}"]
        return values

    def runner(self, implementation):
        assert implementation == "onnxruntime"
        self.prepare()
        session, bindings, turn = self.session, self.bindings, 0

        def run_once():
            nonlocal turn
            begin = time.perf_counter()
            for _ in range(self.calls):
                turn = turn + 1 if turn + 1 < len(bindings) else 0
                session.run_with_iobinding(bindings[turn])
            return (time.perf_counter() - begin) * 1e3 / self.calls

        return run_once

    def results(self):
        """y, hn and cn of the given numbers, flat; of steps all answers in y."""
        if self.pass_name == "step":
            for one in self.sets:
                for name, value in one.items():
                    if name[1:3] == "0.":
                        value.update_inplace(numpy.zeros(value.shape(), numpy.float32))
            answers = []
            for i in range(self.shape.time):
                self.session.run_with_iobinding(self.bindings[i])
                answers.append(self.sets[i % 2]["y"].numpy().reshape(-1).copy())
            return {"y": numpy.concatenate(answers)}
        self.session.run_with_iobinding(self.bindings[0])
        one = self.sets[0]
        results = {"y": one["y"].numpy().reshape(-1)}
        for key in ("hn", "cn") if self.shape.cell == "lstm" else ("hn",):
            results[key] = numpy.concatenate([one[f"{key}.{layer}"].numpy().reshape(-1)
                                              for layer in range(self.shape.layers)])
        return results


def name_and_version():
    return f"onnxruntime {onnxruntime.__version__}"


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS)
    if arguments.passes == "forward+backward":
        sys.exit("ONNX Runtime runs forward alone here; use --pass forward")
    arguments.passes = "forward"
    try:
        common.measure(arguments, Contest, name_and_version(), tuple(ORDER))
    except (OSError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
