"""Options that torch's layers don't have, and lengths and resets."""

import pytest
import sluice.numpy
import sluice.torch
import torch
from pairs import assert_close, flat, run_with_gradients


def layer_of(kind, device, **options):
    dtype = torch.float64 if device.type == "cpu" else torch.float32
    return getattr(sluice.torch, kind)(5, 8, 2, device=device, dtype=dtype, **options)


def tolerance(device):
    return 1e-12 if device.type == "cpu" else 1e-2


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_lengths_are_those_of_single_rows(kind, bidirectional, device):
    own = layer_of(kind, device, bidirectional=bidirectional)
    lengths = torch.tensor([3, 0, 6, 1])
    x = torch.randn(6, 4, 5, device=device, dtype=own.weight_ih_l0.dtype)
    y, last = own(x, lengths=lengths.to(device))
    for row, length in enumerate(lengths.tolist()):
        assert not y[length:, row].any()
        if length == 0:
            assert all(not state[:, row].any() for state in flat(last))
            continue
        y_row, last_row = own(x[:length, row:row + 1])
        assert_close([y[:length, row], *(state[:, row] for state in flat(last))],
                     [y_row[:, 0], *(state[:, 0] for state in flat(last_row))], tolerance(device))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_resets_begin_new_sequences(kind, batch_first, device):
    own = layer_of(kind, device, batch_first=batch_first)
    resets = torch.zeros(7, 3, dtype=torch.bool)
    resets[4, 1] = resets[2, 2] = resets[5, 2] = resets[0, 0] = True
    x = torch.randn(7, 3, 5, device=device, dtype=own.weight_ih_l0.dtype)
    order = (lambda tensor: tensor.transpose(0, 1)) if batch_first else (lambda tensor: tensor)
    state = own(order(x))[1]
    y = order(own(order(x), state, resets=order(resets.to(device)))[0])
    for row in range(3):
        starts = sorted({0, *resets[:, row].nonzero().flatten().tolist()})
        for begin, end in zip(starts, [*starts[1:], 7]):
            part = x[begin:end, row:row + 1]
            kept = not resets[begin, row]
            row_state = tuple(s[:, row:row + 1].contiguous() for s in flat(state)) if kept else None
            if kept and kind == "GRU":
                row_state = row_state[0]
            expected = order(own(order(part), row_state)[0])
            assert_close([y[begin:end, row]], [expected[:, 0]], tolerance(device))


def test_lengths_beyond_time_are_limited_on_a_gpu_and_refused_on_the_cpu(device):
    own = layer_of("LSTM", device)
    x = torch.randn(6, 2, 5, device=device, dtype=own.weight_ih_l0.dtype)
    lengths = torch.tensor([-3, 99], device=device)
    if device.type == "cpu":
        with pytest.raises(ValueError, match="lengths has -3 to 99; with 6 time steps they are 0 to 6"):
            own(x, lengths=lengths)
    else:
        assert torch.equal(own(x, lengths=lengths)[0], own(x, lengths=torch.tensor([0, 6], device=device))[0])


@pytest.mark.parametrize("options", [{"peepholes": True}, {"layer_norm": True}])
def test_cell_options_of_lstms_have_right_gradients(options):
    own = sluice.torch.LSTM(3, 4, 2, bidirectional=True, dtype=torch.float64, **options)
    for parameter in own.parameters():
        torch.nn.init.uniform_(parameter, -0.7, 0.7)
    x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in own.named_parameters()]

    def run(x, *weights):
        return tuple(flat(torch.func.functional_call(own, dict(zip(names, weights)), (x,))))

    assert torch.autograd.gradcheck(run, (x, *own.parameters()))
    copied = sluice.torch.LSTM(3, 4, 2, bidirectional=True, dtype=torch.float64, **options)
    copied.load_state_dict(own.state_dict())
    assert torch.equal(copied(x)[0], own(x)[0])


def test_peepholes_that_are_zero_change_nothing(device):
    plain, own = layer_of("LSTM", device), layer_of("LSTM", device, peepholes=True)
    own.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(6, 4, 5, device=device, dtype=plain.weight_ih_l0.dtype)
    assert_close([own(x)[0]], [plain(x)[0]], tolerance(device))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_hard_sigmoids_are_those_of_numpy(kind):
    own = getattr(sluice.torch, kind)(5, 8, 2, bidirectional=True, dtype=torch.float64, hard_sigmoid=True)
    weights = {name: value.detach().numpy() for name, value in own.named_parameters()}
    x = 3 * torch.randn(6, 4, 5, dtype=torch.float64)
    expected, _ = sluice.numpy.Stack(kind.lower(), weights, hard_sigmoid=True)(x.numpy())
    assert_close([own(x)[0].detach()], [torch.from_numpy(expected)], 1e-12)
    own.hard_sigmoid = False
    assert not torch.allclose(own(x)[0].detach(), torch.from_numpy(expected))
    assert "hard_sigmoid" in repr(getattr(sluice.torch, kind)(5, 8, hard_sigmoid=True))


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"recurrent_dropout": 0.3}, {"zoneout": 0.2}, {"zoneout": (0.1, 0.3)}], ids=str)
def test_drawing_options_follow_the_seed_and_the_mode(options, device):
    own = layer_of("LSTM", device, **options)
    x = torch.randn(6, 4, 5, device=device, dtype=own.weight_ih_l0.dtype)

    def run(seed):
        torch.manual_seed(seed)
        return run_with_gradients(own, x.clone().requires_grad_(), None)

    first, again, other = run(1), run(1), run(2)
    assert all(torch.equal(a, b) for a, b in zip(flat(first), flat(again)))
    assert not torch.equal(first[0][0], other[0][0])
    own.eval()
    with torch.no_grad():
        assert torch.equal(own(x)[0], own(x)[0])


def test_dropout_between_layers_is_off_in_eval_mode_with_gradients(device):
    own = layer_of("LSTM", device, dropout=0.5).eval()
    x = torch.randn(6, 4, 5, device=device, dtype=own.weight_ih_l0.dtype, requires_grad=True)
    assert_close([own(x)[0].detach()], [layer_with_weights_of(own)(x)[0].detach()], tolerance(device))


def layer_with_weights_of(own):
    plain = sluice.torch.LSTM(5, 8, 2, device=own.weight_ih_l0.device, dtype=own.weight_ih_l0.dtype)
    plain.load_state_dict(own.state_dict())
    return plain


def test_gru_that_resets_before_the_product(device):
    own = layer_of("GRU", device, reset_after=False)
    weights = {name: value.double().cpu() for name, value in own.state_dict().items()}
    x = torch.randn(6, 4, 5, device=device, dtype=own.weight_ih_l0.dtype)
    h = [torch.zeros(4, 8, dtype=torch.float64) for _ in range(2)]
    expected = []
    for step in x.double().cpu():
        value = step
        for layer in range(2):
            ri, zi, ni = (value @ weights[f"weight_ih_l{layer}"].t() + weights[f"bias_ih_l{layer}"]).chunk(3, 1)
            recurrent, bias = weights[f"weight_hh_l{layer}"], weights[f"bias_hh_l{layer}"]
            r = torch.sigmoid(ri + h[layer] @ recurrent[:8].t() + bias[:8])
            z = torch.sigmoid(zi + h[layer] @ recurrent[8:16].t() + bias[8:16])
            n = torch.tanh(ni + (r * h[layer]) @ recurrent[16:].t() + bias[16:])
            value = h[layer] = (1 - z) * n + z * h[layer]
        expected.append(value)
    assert_close([own(x)[0]], [torch.stack(expected)], tolerance(device))
