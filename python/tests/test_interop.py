"""Arrays of torch, CuPy, numba and JAX, where they are installed, in both directions."""

import gc

import numpy as np
import pytest
import reference
from cases import random_weights
from devices import on

from sluice.numpy import DeviceArray, Stack, lstm

TIME, ROWS, INPUT, HIDDEN = 20, 4, 6, 8
RNG = np.random.default_rng(0)
WEIGHTS = random_weights(RNG, "lstm", INPUT, HIDDEN, dtype=np.float32)
X = RNG.uniform(-1, 1, (TIME, ROWS, INPUT)).astype(np.float32)
Y, HN, CN = reference.stack("lstm", WEIGHTS, X.astype(np.float64))
CLOSE = {"rtol": 2e-5, "atol": 2e-5}


@pytest.fixture(params=("cpu", "gpu"))
def torch_on(request):
    """torch, and a device that it has."""
    torch = pytest.importorskip("torch")
    if request.param == "gpu" and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return torch, "cuda:0" if request.param == "gpu" else "cpu"


@pytest.fixture(params=("gpu",))
def torch_gpu(request):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return torch


def tensors(torch, device, arrays=WEIGHTS):
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def test_torch_reads_our_arrays(torch_on):
    torch, device = torch_on
    host = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = on(device, host)
    tensor = torch.from_dlpack(array[1:])
    assert tensor.device == torch.device(device) and tensor.data_ptr() == array[1:].pointer
    tensor += 1
    if device != "cpu":
        torch.cuda.synchronize()
    np.testing.assert_array_equal(array.numpy(), host + np.array([[0], [1], [1]]))
    pointer = array.pointer
    del array
    gc.collect()
    others = [on(device, np.zeros_like(host)) for _ in range(5)]
    assert pointer not in [other.pointer for other in others]
    np.testing.assert_array_equal(tensor.cpu().numpy(), host[1:] + 1)


@pytest.mark.parametrize("dtype", ("float64", "float32", "bfloat16", "float16"))
def test_torch_and_our_dtypes_are_the_same(torch_on, dtype):
    torch, device = torch_on
    numpys = np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype)
    values = np.array([0.5, -1.25, 3.0])
    tensor = torch.from_dlpack(on(device, values.astype(numpys)))
    assert tensor.dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(tensor.double().cpu().numpy(), values)


def test_torch_tensors_are_read(torch_on):
    torch, device = torch_on
    x = torch.from_numpy(X).to(device)
    y, (hn, cn) = lstm(x, tensors(torch, device))
    if device != "cpu":
        assert isinstance(y, DeviceArray) and y.device == device
        y, hn, cn = (torch.from_dlpack(array).cpu().numpy() for array in (y, hn, cn))
    for actual, right in zip((y, hn, cn), (Y, HN, CN)):
        np.testing.assert_allclose(actual, right, **CLOSE)


def test_torch_has_the_same_gradients(torch_on):
    torch, device = torch_on
    module = torch.nn.LSTM(INPUT, HIDDEN, num_layers=2, bidirectional=True).double()
    x = torch.from_numpy(X).double().requires_grad_()
    expected, _ = module(x)
    dy = torch.randn(expected.shape)
    expected.backward(dy.double())
    weights = {name: value.detach().float().to(device) for name, value in module.named_parameters()}
    stack = Stack("lstm", weights, training=True)
    y, _ = stack(torch.from_numpy(X).to(device))
    gradients = stack.backward(dy.to(device))
    found = {"y": y, "x": gradients.x, **gradients.weights}
    right = {"y": expected.detach(), "x": x.grad, **{name: value.grad for name, value in module.named_parameters()}}
    for name, array in found.items():
        np.testing.assert_allclose(torch.from_dlpack(array).cpu().numpy(), right[name].numpy(), rtol=1e-4, atol=1e-4,
                                   err_msg=name)


def test_torch_tensors_that_need_gradients_are_refused(torch_on):
    torch, device = torch_on
    x = torch.from_numpy(X).to(device).requires_grad_()
    with pytest.raises(TypeError, match="x can't be read as an array"):
        lstm(x, tensors(torch, device))


def test_torch_tensors_with_gaps_are_refused_on_a_gpu(torch_gpu):
    x = torch_gpu.from_numpy(X).cuda()
    weights = tensors(torch_gpu, "cuda:0")
    with pytest.raises(ValueError, match="x is not contiguous"):
        lstm(x.transpose(0, 1), weights)
    with pytest.raises(ValueError, match="x is on the CPU and the first weight is on cuda:0"):
        lstm(x.cpu(), weights)


def late(torch, tensor):
    """The tensor, copied on the current stream a while from now; before that it is NaN."""
    result = torch.full_like(tensor, float("nan"))
    torch.cuda._sleep(100_000_000)
    return result.copy_(tensor)


@pytest.mark.parametrize("ours", ("own", "callers"))
def test_work_on_a_torch_gpu_stream_is_in_order(torch_gpu, ours):
    torch = torch_gpu
    x, stream, other = torch.from_numpy(X).cuda(), torch.cuda.Stream(), torch.cuda.Stream()
    weights = tensors(torch, "cuda:0")
    torch.cuda.synchronize()
    stack = Stack("lstm", weights, training=True, stream=stream.cuda_stream if ours == "callers" else None)
    stack(x)
    for _ in range(3):
        with torch.cuda.stream(stream):
            # What comes before us, and what comes after.
            y, (hn, cn) = stack(late(torch, x))
            here = torch.from_dlpack(y).clone()
            dy = late(torch, torch.ones_like(here))
            gradients = stack.backward(dy)
        with torch.cuda.stream(other):
            there = torch.from_dlpack(hn).clone()
            dx = torch.from_dlpack(gradients.x).clone()
        torch.cuda.synchronize()
        np.testing.assert_allclose(here.cpu().numpy(), Y, **CLOSE)
        np.testing.assert_allclose(there.cpu().numpy(), HN, **CLOSE)
        assert torch.isfinite(dx).all()
        np.testing.assert_allclose(y.numpy(), Y, **CLOSE)
        np.testing.assert_allclose(cn.numpy(), CN, **CLOSE)


def test_calls_on_a_torch_gpu_stream_return_early(torch_gpu):
    torch = torch_gpu
    stream = torch.cuda.Stream()
    weights, x = tensors(torch, "cuda:0"), torch.from_numpy(X).cuda()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        stack = Stack("lstm", weights, stream=stream.cuda_stream)
        for _ in range(3):  # plans and memory
            kept = stack(x)
        stream.synchronize()
        delayed = late(torch, x)
        y, _ = stack(delayed)
        assert not stream.query()
    np.testing.assert_allclose(y.numpy(), Y, **CLOSE)
    assert kept[0].shape == y.shape


def test_stacks_on_two_torch_gpu_streams_are_in_order(torch_gpu):
    torch = torch_gpu
    streams = [torch.cuda.Stream() for _ in range(2)]
    second = random_weights(RNG, "lstm", HIDDEN, HIDDEN, dtype=np.float32)
    expected = reference.stack("lstm", second, Y)[0]
    x = torch.from_numpy(X).cuda()
    torch.cuda.synchronize()
    stacks = [Stack("lstm", on("cuda:0", weights), stream=stream.cuda_stream)
              for weights, stream in zip((WEIGHTS, second), streams)]
    for _ in range(3):
        with torch.cuda.stream(streams[0]):
            delayed = late(torch, x)
        y, _ = stacks[0](delayed)
        np.testing.assert_allclose(stacks[1](y)[0].numpy(), expected, **CLOSE)
        y, _ = stacks[0](delayed)
        np.testing.assert_allclose(lstm(y, on("cuda:0", second))[0].numpy(), expected, **CLOSE)


def test_cupy_arrays_gpu(gpu):
    cupy = pytest.importorskip("cupy")
    y, (hn, _) = lstm(cupy.asarray(X), {name: cupy.asarray(value) for name, value in WEIGHTS.items()})
    np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(y)), Y, **CLOSE)
    taken = cupy.from_dlpack(hn)
    assert taken.data.ptr == hn.pointer
    np.testing.assert_allclose(cupy.asnumpy(taken), HN, **CLOSE)


def test_numba_arrays_gpu(gpu):
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("numba finds no GPU")
    y, (hn, _) = lstm(cuda.to_device(X), {name: cuda.to_device(value) for name, value in WEIGHTS.items()})
    np.testing.assert_allclose(cuda.as_cuda_array(y).copy_to_host(), Y, **CLOSE)
    np.testing.assert_allclose(hn.numpy(), HN, **CLOSE)


def test_jax_arrays_gpu(gpu):
    jax = pytest.importorskip("jax")
    try:
        place = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX finds no GPU: {error}")
    y, _ = lstm(jax.device_put(X, place), {name: jax.device_put(value, place) for name, value in WEIGHTS.items()})
    np.testing.assert_allclose(np.asarray(jax.dlpack.from_dlpack(y)), Y, **CLOSE)
