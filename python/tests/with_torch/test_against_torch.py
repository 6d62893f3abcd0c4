"""Random layers: outputs and gradients against torch's in float64 on the CPU."""

import pytest
import sluice.torch
import torch
from pairs import Case, assert_close, flat, largest_error, run_with_gradients, to
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# Largest difference for values up to 1. GPUs multiply float32 in TF32, as torch's do.
TOLERANCES = {("cpu", torch.float64): 1e-12, ("cpu", torch.float32): 2e-5, ("cpu", torch.bfloat16): 8e-2,
              ("cpu", torch.float16): 2e-2, ("cuda", torch.float32): 1e-2, ("cuda", torch.bfloat16): 8e-2,
              ("cuda", torch.float16): 2e-2}
HALVES = (torch.bfloat16, torch.float16)


def check(case, device, dtype, own_dtype=None):
    reference, own = case.modules(device, own_dtype or dtype)
    x, state = case.inputs()
    x = x.to(dtype).double()
    state = tuple(part.to(dtype).double() for part in state) if isinstance(state, tuple) else \
        state.to(dtype).double() if state is not None else None
    expected = run_with_gradients(reference, to(x, "cpu", torch.float64), to(state, "cpu", torch.float64))
    found = run_with_gradients(own, to(x, device, dtype), to(state, device, dtype))
    tolerance = TOLERANCES[torch.device(device).type, dtype]
    # Where rounding counts for more, as where a unit of a relu is near 0, torch's own errors in this dtype are the measure.
    rounded = run_with_gradients(reference.to(dtype), to(x, "cpu", dtype), to(state, "cpu", dtype)) if dtype in HALVES else None
    for part, factor in ((0, 1), (1, 4)):
        error = largest_error(rounded[part], expected[part]) if rounded else 0
        assert_close(found[part], expected[part], max(tolerance * factor, 3 * error))


@pytest.mark.parametrize("seed", range(120))
def test_float64(seed):
    check(Case(seed), "cpu", torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_other_dtypes(seed, dtype, device):
    check(Case(seed), device, dtype)


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_wider_layers(seed, gpu):
    check(Case(seed, most=300), gpu, torch.bfloat16)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_gradcheck(kind):
    own = getattr(sluice.torch, kind)(3, 4, 2, bidirectional=True, dtype=torch.float64)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in own.named_parameters()]

    def run(x, *weights):
        return tuple(flat(torch.func.functional_call(own, dict(zip(names, weights)), (x,))))

    assert torch.autograd.gradcheck(run, (x, *own.parameters()))


@pytest.mark.parametrize("seed", range(3000, 3012))
def test_packed_sequences(seed, device):
    case = Case(seed)
    case.batched, case.options["batch_first"] = True, False
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    reference, own = case.modules(device, dtype)
    x, state = case.inputs()
    lengths = torch.randint(1, case.time + 1, (case.rows,))

    def run(module, on, kind):
        given, given_state = to(x, on, kind), to(state, on, kind)
        packed = pack_padded_sequence(given, lengths, enforce_sorted=False)
        y, last = module(packed, given_state)
        return flat((pad_packed_sequence(y)[0], last)), (y.batch_sizes, y.sorted_indices.cpu(), y.unsorted_indices.cpu()), given

    expected, layout, x_reference = run(reference, "cpu", torch.float64)
    found, own_layout, x_own = run(own, device, dtype)
    tolerance = TOLERANCES[device.type, dtype]
    assert_close(found, expected, tolerance)
    assert all(torch.equal(a, b) for a, b in zip(layout, own_layout))
    gradients = [torch.autograd.grad([part.sum() for part in outputs], [given, *module.parameters()])
                 for outputs, given, module in ((found, x_own, own), (expected, x_reference, reference))]
    assert_close(*gradients, tolerance * 8)


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("rows", [None, 1, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(cell, rows, bias, device):
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    reference = getattr(torch.nn, cell)(6, 9, bias=bias, dtype=torch.float64)
    own = getattr(sluice.torch, cell)(6, 9, bias=bias, dtype=dtype, device=device)
    own.load_state_dict(reference.state_dict())
    reference.load_state_dict(own.state_dict())
    shape = () if rows is None else (rows,)
    x, h, c = (torch.randn(*shape, width, dtype=torch.float64) for width in (6, 9, 9))
    for state in (None, (h, c) if cell == "LSTMCell" else h):
        expected = run_with_gradients(reference, to(x, "cpu", torch.float64), to(state, "cpu", torch.float64))
        found = run_with_gradients(own, to(x, device, dtype), to(state, device, dtype))
        for a, b in zip(found, expected):
            assert_close(a, b, 4 * TOLERANCES[device.type, dtype])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_autocast(kind, device):
    dtype = torch.bfloat16
    reference = getattr(torch.nn, kind)(16, 24, 2)
    own = getattr(sluice.torch, kind)(16, 24, 2, device=device)
    own.load_state_dict(reference.state_dict())
    x = torch.randn(7, 4, 16)
    expected = run_with_gradients(reference, to(x, "cpu", torch.float32), None)
    with torch.autocast(device.type, dtype=dtype):
        y, last = own(x.to(device))
        assert y.dtype == dtype and all(part.dtype == dtype for part in flat(last))
        found = run_with_gradients(own, to(x, device, torch.float32), None)
    assert all(gradient.dtype == torch.float32 for gradient in found[1])
    assert_close(found[0], expected[0], 4e-2)
    assert_close(found[1], expected[1], 2e-1)
