"""CUDA's runtime by its C functions: memory, timing and graphs, for peers that use no framework."""

import ctypes
import ctypes.util

import numpy

L2_BYTES = 38  # cudaDevAttrL2CacheSize
TO_DEVICE = 1  # cudaMemcpyHostToDevice
THREAD_LOCAL = 1  # cudaStreamCaptureModeThreadLocal


def open_library(name):
    """By the loader's own search, so LD_LIBRARY_PATH says which of several."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise OSError(f"could not open {name} ({error}); LD_LIBRARY_PATH may name its folder") from None


class Cuda:
    """One GPU and a stream. Raises RuntimeError where a call fails."""

    def __init__(self, ordinal):
        self.cudart = open_library("libcudart.so.13")
        self.cudart.cudaGetErrorString.restype = ctypes.c_char_p
        self.ordinal = ordinal
        self.call("cudaSetDevice", ctypes.c_int(ordinal))
        self.stream = self.made("cudaStreamCreate")
        self.begin, self.end = self.made("cudaEventCreate"), self.made("cudaEventCreate")

    def call(self, name, *arguments):
        status = getattr(self.cudart, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {self.cudart.cudaGetErrorString(ctypes.c_int(status)).decode()}")

    def made(self, name, *arguments):
        """What the call writes to its first argument."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle

    def cache_bytes(self):
        value = ctypes.c_int()
        self.call("cudaDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(L2_BYTES),
                  ctypes.c_int(self.ordinal))
        return value.value

    def model(self):
        """Asked of the driver, whose call needs no struct that differs between versions."""
        driver, name = open_library("libcuda.so.1"), ctypes.create_string_buffer(256)
        if driver.cuDeviceGetName(name, ctypes.c_int(len(name)), ctypes.c_int(self.ordinal)) != 0:
            raise RuntimeError("the driver does not tell the GPU's name")
        return name.value.decode()

    def synchronize(self):
        self.call("cudaStreamSynchronize", self.stream)

    def milliseconds_of(self, action):
        """Of what `action` queues, between two events, with nothing before it on the GPU."""
        self.synchronize()
        self.call("cudaEventRecord", self.begin, self.stream)
        action()
        self.call("cudaEventRecord", self.end, self.stream)
        self.synchronize()
        elapsed = ctypes.c_float()
        self.call("cudaEventElapsedTime", ctypes.byref(elapsed), self.begin, self.end)
        return elapsed.value

    def captured(self, action):
        """A function that launches, as one CUDA graph, what `action` queues."""
        self.call("cudaStreamBeginCapture", self.stream, ctypes.c_int(THREAD_LOCAL))
        try:
            action()
        finally:
            graph = self.made_by_end_of_capture()
        launchable = self.made("cudaGraphInstantiate", graph, ctypes.c_ulonglong(0))
        self.call("cudaGraphDestroy", graph)
        return lambda: self.call("cudaGraphLaunch", launchable, self.stream)

    def made_by_end_of_capture(self):
        graph = ctypes.c_void_p()
        self.call("cudaStreamEndCapture", self.stream, ctypes.byref(graph))
        return graph


class Memory:
    """Bytes on the GPU, given back with the object."""

    def __init__(self, cuda, size):
        self.cuda = cuda
        self.pointer = cuda.made("cudaMalloc", ctypes.c_size_t(max(size, 1)))

    def __del__(self):
        if hasattr(self, "pointer"):
            self.cuda.cudart.cudaFree(self.pointer)

    @classmethod
    def of(cls, cuda, array):
        """A copy of a numpy array."""
        array = numpy.ascontiguousarray(array)
        memory = cls(cuda, array.nbytes)
        cuda.call("cudaMemcpy", memory.pointer, ctypes.c_void_p(array.ctypes.data),
                  ctypes.c_size_t(array.nbytes), ctypes.c_int(TO_DEVICE))
        return memory
