"""DeviceArray: copies, views, lifetimes and exports."""

import gc
import weakref

import numpy as np
import pytest
from devices import FakeGpuArray, on

import sluice
from sluice._device_memory import DeviceMemory
from sluice.numpy import DeviceArray, Stack, lstm


def numbers(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ("float64", "float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool"))
def test_numbers_go_there_and_back(device, dtype):
    dtype = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
    host = numbers(2, 3, 4, dtype=dtype)
    array = DeviceArray.from_numpy(host, device)
    assert (array.shape, array.dtype, array.device, array.ndim) == (host.shape, dtype, device, 3)
    assert (array.size, array.nbytes, len(array)) == (24, host.nbytes, 2)
    got = array.numpy()
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, host)
    got[...] = 0
    np.testing.assert_array_equal(array.numpy(), host)


@pytest.mark.parametrize("host", (np.float32(3), np.zeros((3, 0, 2)), np.asfortranarray(numbers(3, 4)), numbers(6)[::-2],
                                  [[1.0, 2.0]]), ids=("scalar", "empty", "fortran", "reversed", "list"))
def test_any_host_array_is_copied(device, host):
    array = DeviceArray.from_numpy(host, device)
    assert array.shape == np.shape(host)
    np.testing.assert_array_equal(array.numpy(), host)


def test_views_are_parts(device):
    host = numbers(4, 3, 2)
    array = on(device, host)
    for index in (0, -1, slice(1, 3), slice(None), slice(3, 1), slice(-2, None)):
        np.testing.assert_array_equal(array[index].numpy(), host[index])
    np.testing.assert_array_equal(array.reshape(6, 4)[1:].reshape((2, 10)).numpy(), host.reshape(6, 4)[1:].reshape(2, 10))
    assert [part.shape for part in array] == [(3, 2)] * 4
    assert array[1].pointer == array.pointer + 24


def test_views_keep_the_memory(device):
    host = numbers(100, 3)
    view = on(device, host)[50:][3]
    others = [on(device, np.zeros((100, 3), np.float32)) for _ in range(5)]
    np.testing.assert_array_equal(view.numpy(), host[53])
    owner = weakref.ref(view)
    del view, others
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("call, error, pattern", [
    (lambda array: array[4], IndexError, "index 4 of a dimension of 4"),
    (lambda array: array[::2], ValueError, "step 1"),
    (lambda array: array["x"], TypeError, "integer"),
    (lambda array: array.reshape(5, 3), ValueError, r"\(4, 3\) can't have shape \(5, 3\)"),
    (lambda array: array.reshape(-4, -3), ValueError, "can't have shape"),
    (lambda array: np.asarray(array), TypeError, r"numpy\(\)"),
    (lambda array: array[0, 0], TypeError, "integer"),
    (lambda array: len(array[0][0]), TypeError, "no length"),
])
def test_mistakes_raise(device, call, error, pattern):
    with pytest.raises(error, match=pattern):
        call(on(device, numbers(4, 3)))


@pytest.mark.parametrize("host, error", [(np.zeros(2, ">f4"), TypeError), (np.array([None]), TypeError)],
                         ids=("big_endian", "objects"))
def test_what_can_not_be_copied(device, host, error):
    with pytest.raises(error):
        DeviceArray.from_numpy(host, device)


def test_repr(device):
    assert repr(on(device, numbers(2, 3))) == f"DeviceArray([2, 3], float32, {device!r})"


# --- exports ------------------------------------------------------------------------------------------------------------


def test_dlpack_says_the_device(device):
    assert on(device, numbers(2)).__dlpack_device__() == ((1, 0) if device == "cpu" else (2, 0))


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.float16, np.int64, np.uint8, np.bool_))
def test_numpy_takes_it_without_a_copy(dtype):
    host = numbers(3, 4, dtype=dtype)
    array = on("cpu", host)
    view = np.from_dlpack(array[1:])
    assert view.dtype == dtype and view.ctypes.data == array.pointer + array.nbytes // 3
    del array
    gc.collect()
    # Memory that went would go to these.
    others = [on("cpu", np.zeros_like(host)) for _ in range(5)]
    np.testing.assert_array_equal(view, host[1:])
    assert len(others) == 5


@pytest.mark.parametrize("options", ({}, {"max_version": (1, 0)}, {"stream": None}, {"copy": False}, {"dl_device": (1, 0)}))
def test_dlpack_capsules(options):
    array = on("cpu", numbers(2, 3))
    capsule = array.__dlpack__(**options)
    assert ("dltensor_versioned" in repr(capsule)) == ("max_version" in options)
    tensor = sluice._native.Tensor(capsule)
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.device) == ((2, 3), (3, 1), "float32", (1, 0))
    assert tensor.pointer == array.pointer


@pytest.mark.parametrize("options", ({"copy": True}, {"dl_device": (2, 0)}, {"dl_device": (2, 7)}))
def test_dlpack_makes_no_copies(options):
    with pytest.raises(BufferError):
        on("cpu", numbers(2)).__dlpack__(**options)


def test_a_capsule_that_nobody_takes_frees_its_array(device):
    array = on(device, numbers(1000))
    owner = weakref.ref(array)
    capsule = array.__dlpack__()
    del array, capsule
    gc.collect()
    assert owner() is None


def test_arrays_of_the_cpu_have_no_cuda_interface():
    assert not hasattr(on("cpu", numbers(2)), "__cuda_array_interface__")


def test_the_cuda_interface(gpu):
    array = on(gpu, numbers(2, 3))
    assert array.__cuda_array_interface__ == {"shape": (2, 3), "typestr": "<f4", "data": (array.pointer, False),
                                              "strides": None, "version": 3, "stream": None}
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    assert not hasattr(on(gpu, numbers(2, dtype=bfloat16)), "__cuda_array_interface__")


def test_memory_is_used_again(device):
    first = on(device, numbers(100_000))
    pointer = first.pointer
    del first
    gc.collect()
    second = on(device, numbers(90_000))
    assert second.pointer == pointer
    exported = second.__dlpack__()
    del second, exported
    gc.collect()
    np.testing.assert_array_equal(on(device, numbers(100_000)).numpy(), numbers(100_000))


# --- devices that don't fit ---------------------------------------------------------------------------------------------

WEIGHTS = {"weight_ih_l0": numbers(8, 2), "weight_hh_l0": numbers(8, 2)}


@pytest.mark.parametrize("protocol, where", (("dlpack", "cuda:0"), ("interface", "a GPU")))
def test_arrays_of_two_devices(protocol, where):
    fake = FakeGpuArray(protocol)
    for weights in (WEIGHTS, on("cpu", WEIGHTS)):
        x = numbers(3, 1, 2) if weights is WEIGHTS else on("cpu", numbers(3, 1, 2))
        together = f"is on {where} and the first weight is on the CPU; all arrays must be on one device"
        with pytest.raises(ValueError, match=f"x {together}"):
            lstm(fake, weights)
        with pytest.raises(ValueError, match=f"weight_hh_l0 {together}"):
            lstm(x, {**weights, "weight_hh_l0": fake})
        with pytest.raises(ValueError, match=f"c0 {together}"):
            lstm(x, weights, (None, fake))
        with pytest.raises(ValueError, match=f"lengths {together}"):
            lstm(x, weights, lengths=fake)
        stack = Stack("lstm", weights, training=True)
        stack(x)
        with pytest.raises(ValueError, match=f"dy {together}"):
            stack.backward(fake)


def test_arrays_of_the_host_and_a_gpu(gpu):
    weights, x = on(gpu, WEIGHTS), numbers(3, 1, 2)
    with pytest.raises(ValueError, match="x is on the CPU and the first weight is on cuda:0"):
        lstm(x, weights)
    with pytest.raises(ValueError, match="x is on cuda:0 and the first weight is on the CPU"):
        lstm(on(gpu, x), WEIGHTS)
    with pytest.raises(ValueError, match="x is on the CPU and the first weight is on cuda:0"):
        lstm(on("cpu", x), weights)


def test_other_kinds_of_devices_are_refused():
    with pytest.raises(NotImplementedError, match="x is on a device of DLPack's type 10"):
        lstm(FakeGpuArray("dlpack", (10, 0)), WEIGHTS)


@pytest.mark.parametrize("protocol", ("dlpack", "interface"))
def test_a_gpu_that_is_not_there(protocol):
    try:
        sluice._native.Device("cuda:0")
    except sluice.DeviceError:
        fake = FakeGpuArray(protocol)
        with pytest.raises(sluice.DeviceError):
            Stack("lstm", {"weight_ih_l0": fake, "weight_hh_l0": fake})
    else:
        pytest.skip("a GPU is there")


def test_streams_are_for_gpus():
    for weights in (WEIGHTS, on("cpu", WEIGHTS)):
        with pytest.raises(ValueError, match="stream is for arrays on a GPU"):
            Stack("lstm", weights, stream=0)


# --- the order of work, with a stream that counts who waits for it --------------------------------------------------------


class CountingStream:
    waits = 0

    def synchronize(self):
        self.waits += 1


def counted(pending):
    """A DeviceArray that the stream `pending` works on; None: a stack's own."""
    array = on("cpu", numbers(2, 3))
    array.memory = DeviceMemory("cpu")
    array.memory.pending, array.memory.stream = pending, CountingStream()
    return array


@pytest.mark.parametrize("pending, stream, waits", [
    (None, None, 0), (None, 7, 0), (7, 7, 0), (7, -1, 0), (7, None, 1), (7, 1, 1), (7, 9, 1), (1, 1, 0), (1, None, 0),
    (1, 0, 0), (1, 2, 1)])
def test_exports_wait_unless_the_stream_is_the_same(pending, stream, waits):
    array = counted(pending)
    array.__dlpack__(stream=stream)
    assert array.memory.stream.waits == waits


@pytest.mark.parametrize("pending, ours, waits", [(None, None, 0), (None, 7, 0), (7, 7, 0), (7, 9, 1), (7, None, 1), (1, None, 1)])
def test_stacks_wait_for_arrays_of_other_streams(pending, ours, waits):
    array, memory = counted(pending), DeviceMemory("cpu")
    memory.pending = ours
    memory.array(array, "x")
    assert array.memory.stream.waits == waits and array.owner.shared


@pytest.mark.parametrize("ours, asked, waits", [(None, 1, 1), (7, 7, 0), (1, 1, 0)])
def test_foreign_arrays_become_ready_for_our_stream(ours, asked, waits):
    class Foreign:
        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, *, stream):  # as before DLPack 1.0: no max_version
            self.stream = stream
            return on("cpu", numbers(2, 3)).__dlpack__()

    memory, foreign = DeviceMemory("cpu"), Foreign()
    memory.device, memory.pending = "cuda:0", ours
    memory._default_stream = CountingStream() if ours is None else None
    array = memory.array(foreign, "x")
    assert foreign.stream == asked and array.shape == (2, 3)
    assert ours is not None or memory._default_stream.waits == waits


def test_calls_wait_for_a_stream_of_their_own():
    for pending, waits in ((None, 1), (7, 0)):
        memory = counted(pending).memory
        memory.finish()
        assert memory.stream.waits == waits
