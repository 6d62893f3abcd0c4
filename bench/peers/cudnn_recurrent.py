#!/usr/bin/env python3
"""Measures cuDNN's recurrent layers by its own functions and nothing else, for `sluice bench report`.

What `sluice bench` says of its cudnn-* implementations can be held against this: the same calls on the
same shapes, with no weights to pack and no gradients to bring back to canonical tensors.
Implementations: bare-cudnn-standard, bare-cudnn-persist-static, and each +graph (captured in a CUDA
graph). The forward pass is inference; forward+backward gives gradients of x, h0, c0 and all weights,
added to what was there. Each turn takes another copy of inputs and outputs. Times are by CUDA events,
medians. LD_LIBRARY_PATH says which cuDNN.

    cudnn_recurrent.py --shapes bench/shapes/named.shapes --device cuda --dtype bfloat16 --json bare.json
"""

import ctypes
import os
import sys

import numpy

import common
from cuda_calls import Cuda, Memory, open_library

ALGORITHMS = {"bare-cudnn-standard": 0, "bare-cudnn-persist-static": 1}  # cudnnRNNAlgo_t
IMPLEMENTATIONS = [name + form for name in ALGORITHMS for form in ("", "+graph")]
TYPES = {"float32": 0, "tf32": 0, "float16": 2, "bfloat16": 9}  # cudnnDataType_t
MATH = {"float32": 3, "tf32": 2, "float16": 1, "bfloat16": 1}  # cudnnMathType_t
CELLS = {"lstm": 2, "gru": 3}  # cudnnRNNMode_t
DOUBLE_BIAS, LINEAR_INPUT, PADDED_IO_DISABLED, PACKED_BY_STEP, ADD = 2, 0, 0, 1, 0
INFERENCE, TRAINING = 0, 1  # cudnnForwardMode_t

Int, Size = ctypes.c_int, ctypes.c_size_t


class Cudnn:
    def __init__(self, cuda):
        self.functions = open_library("libcudnn.so.9")
        self.functions.cudnnGetErrorString.restype = ctypes.c_char_p
        self.functions.cudnnGetVersion.restype = Size
        self.handle = self.made("cudnnCreate")
        self.call("cudnnSetStream", self.handle, cuda.stream)

    def call(self, name, *arguments):
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            raise common.Declined(f"{name}: {self.functions.cudnnGetErrorString(Int(status)).decode()}")

    def made(self, name):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle))
        return handle


def library_name():
    library = open_library("libcudnn.so.9")
    library.cudnnGetVersion.restype = Size
    return f"bare cuDNN {library.cudnnGetVersion()}"


class Draw:
    """Random numbers in storage, on the GPU: the same for tensors of the same sizes."""

    def __init__(self, cuda, shape):
        self.cuda, self.dtype = cuda, shape.dtype
        self.random = numpy.random.default_rng(shape.seed)
        self.drawn = {}

    def __call__(self, *sizes, limit=1.0):
        if (sizes, limit) not in self.drawn:
            values = self.random.uniform(-limit, limit, sizes).astype(numpy.float32)
            self.drawn[sizes, limit] = self.stored(values)
        return Memory.of(self.cuda, self.drawn[sizes, limit])

    def stored(self, values):
        if self.dtype == "float16":
            return values.astype(numpy.float16)
        if self.dtype == "bfloat16":
            return (values.view(numpy.uint32) >> 16).astype(numpy.uint16)
        return values


class Set:
    """One copy of the inputs, the outputs and their gradients."""

    def __init__(self, shape, draw):
        width = shape.directions * shape.output
        h = (shape.layers * shape.directions, shape.batch, shape.output)
        c = (shape.layers * shape.directions, shape.batch, shape.hidden)
        self.x, self.dx = (draw(shape.time, shape.batch, shape.input) for _ in range(2))
        self.y, self.dy = (draw(shape.time, shape.batch, width) for _ in range(2))
        self.h0, self.hn, self.dh0, self.dhn = (draw(*h) for _ in range(4))
        self.c0, self.cn, self.dc0, self.dcn = (draw(*c) for _ in range(4))


class Layer:
    """Descriptors, weights and workspace of one algorithm."""

    def __init__(self, cuda, cudnn, shape, algorithm, mode, draw):
        self.cudnn, self.mode = cudnn, mode
        self.rnn, dropout = cudnn.made("cudnnCreateRNNDescriptor"), cudnn.made("cudnnCreateDropoutDescriptor")
        cudnn.call("cudnnSetDropoutDescriptor", dropout, cudnn.handle, ctypes.c_float(0), None, Size(0),
                   ctypes.c_ulonglong(0))
        storage = TYPES[shape.dtype]
        cudnn.call("cudnnSetRNNDescriptor_v8", self.rnn,
                   *map(Int, (algorithm, CELLS[shape.cell], DOUBLE_BIAS, shape.directions - 1, LINEAR_INPUT,
                              storage, TYPES["float32"], MATH[shape.dtype], shape.input, shape.hidden,
                              shape.output, shape.layers)), dropout, Int(PADDED_IO_DISABLED))
        lengths = (Int * shape.batch)(*[shape.time] * shape.batch)
        self.lengths = Memory.of(cuda, numpy.full(shape.batch, shape.time, numpy.int32))

        def sequences(width):
            made = cudnn.made("cudnnCreateRNNDataDescriptor")
            cudnn.call("cudnnSetRNNDataDescriptor", made,
                       *map(Int, (storage, PACKED_BY_STEP, shape.time, shape.batch, width)), lengths, None)
            return made

        def states(width):
            extents = (Int * 3)(shape.layers * shape.directions, shape.batch, width)
            strides = (Int * 3)(shape.batch * width, width, 1)
            made = cudnn.made("cudnnCreateTensorDescriptor")
            cudnn.call("cudnnSetTensorNdDescriptor", made, Int(storage), Int(3), extents, strides)
            return made

        self.x, self.y = sequences(shape.input), sequences(shape.directions * shape.output)
        self.h, self.c = states(shape.output), states(shape.hidden)
        weights, workspace, reserve = Size(), Size(), Size()
        cudnn.call("cudnnGetRNNWeightSpaceSize", cudnn.handle, self.rnn, ctypes.byref(weights))
        cudnn.call("cudnnGetRNNTempSpaceSizes", cudnn.handle, self.rnn, Int(mode), self.x,
                   ctypes.byref(workspace), ctypes.byref(reserve))
        count = weights.value // (4 if storage == TYPES["float32"] else 2)
        self.weights, self.gradients = (draw(count, limit=shape.hidden ** -0.5) for _ in range(2))
        self.workspace, self.reserve = Memory(cuda, workspace.value), Memory(cuda, reserve.value)
        self.space = (workspace, self.workspace.pointer, reserve, self.reserve.pointer)
        self.weight_bytes = weights

    def calls(self, one):
        """A pass over a set, as pairs of a function of cuDNN and its arguments, made beforehand."""
        handle, lengths, weights = self.cudnn.handle, self.lengths.pointer, self.weights.pointer
        made = [("cudnnRNNForward",
                 (handle, self.rnn, Int(self.mode), lengths, self.x, one.x.pointer, self.y, one.y.pointer,
                  self.h, one.h0.pointer, one.hn.pointer, self.c, one.c0.pointer, one.cn.pointer,
                  self.weight_bytes, weights, *self.space))]
        if self.mode == TRAINING:
            made += [("cudnnRNNBackwardData_v8",
                      (handle, self.rnn, lengths, self.y, one.y.pointer, one.dy.pointer, self.x,
                       one.dx.pointer, self.h, one.h0.pointer, one.dhn.pointer, one.dh0.pointer, self.c,
                       one.c0.pointer, one.dcn.pointer, one.dc0.pointer, self.weight_bytes, weights,
                       *self.space)),
                     ("cudnnRNNBackwardWeights_v8",
                      (handle, self.rnn, Int(ADD), lengths, self.x, one.x.pointer, self.h, one.h0.pointer,
                       self.y, one.y.pointer, self.weight_bytes, self.gradients.pointer, *self.space))]
        return made

    def action(self, one):
        calls = self.calls(one)

        def run():
            for name, arguments in calls:
                self.cudnn.call(name, *arguments)

        return run


class Contest:
    cuda = cudnn = None  # of the process

    def __init__(self, shape, pass_name):
        kind, _, index = shape.device.partition(":")
        if kind != "cuda":
            sys.exit("cuDNN is a GPU's; use --device cuda")
        if Contest.cuda is None:
            Contest.cuda = Cuda(int(index or 0))
            Contest.cudnn = Cudnn(Contest.cuda)
        self.shape = shape
        self.mode = TRAINING if pass_name == "forward+backward" else INFERENCE
        self.device = f"cuda:{self.cuda.ordinal}"
        self.device_model = self.cuda.model()
        self.threads = len(os.sched_getaffinity(0))
        self.draw = Draw(self.cuda, shape)
        self.sets, self.layers = None, {}

    def layer(self, name):
        if name not in self.layers:
            self.layers[name] = Layer(self.cuda, self.cudnn, self.shape, ALGORITHMS[name], self.mode, self.draw)
        return self.layers[name]

    def runner(self, implementation):
        name, _, form = implementation.partition("+")
        if self.shape.lengths != "full":
            raise common.Declined("wants lengths of rows on the host")
        if ALGORITHMS[name] != ALGORITHMS["bare-cudnn-standard"] and self.shape.dtype == "bfloat16":
            raise common.Declined("it has no bfloat16 and would run the standard algorithm")
        if self.sets is None:
            count = common.set_count(self.shape, self.cuda.cache_bytes())
            self.sets = [Set(self.shape, self.draw) for _ in range(count)]
        actions = [self.layer(name).action(one) for one in self.sets]
        for action in actions:  # what cuDNN makes at a first call is no part of a run's time
            action()
        if form == "graph":
            actions = [self.cuda.captured(action) for action in actions]
        turn = [0]

        def run_once():
            turn[0] = (turn[0] + 1) % len(actions)
            return self.cuda.milliseconds_of(actions[turn[0]])

        return run_once


def main():
    arguments = common.parse_arguments(__doc__, IMPLEMENTATIONS)
    try:
        common.measure(arguments, Contest, library_name())
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
