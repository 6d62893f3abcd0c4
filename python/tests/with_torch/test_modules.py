"""What torch's code expects of a module: copies, modes, weights that change, autograd's corners."""

import copy
import io
import pickle
import threading

import pytest
import sluice.torch
import torch
from pairs import flat, run_with_gradients
from torch.utils.checkpoint import checkpoint


def small(device, **options):
    return sluice.torch.LSTM(4, 6, 2, device=device, **options), torch.randn(5, 3, 4, device=device)


def test_constructor_state_dict_and_repr_are_torchs():
    for kind in ("LSTM", "GRU", "RNN"):
        for options in ({}, {"num_layers": 2, "bidirectional": True, "bias": False}, {"batch_first": True, "num_layers": 3, "dropout": 0.2}):
            torch.manual_seed(3)
            reference = getattr(torch.nn, kind)(4, 6, **options)
            torch.manual_seed(3)
            own = getattr(sluice.torch, kind)(4, 6, **options)
            assert repr(own) == repr(reference)
            assert list(own.state_dict()) == list(reference.state_dict())
            assert all(torch.equal(a, b) for a, b in zip(own.state_dict().values(), reference.state_dict().values()))
            assert [[w.shape for w in ws] for ws in own.all_weights] == [[w.shape for w in ws] for ws in reference.all_weights]
    assert isinstance(own, torch.nn.RNNBase)


def test_copies_run_alike(device):
    own, x = small(device)
    own.eval()
    expected = own(x)[0]
    stream = io.BytesIO()
    torch.save(own, stream)
    stream.seek(0)
    for copied in (copy.deepcopy(own), pickle.loads(pickle.dumps(own)), torch.load(stream, weights_only=False)):
        assert torch.equal(copied(x)[0], expected)
        with torch.no_grad():
            copied.weight_ih_l0.zero_()
        assert not torch.equal(copied(x)[0], expected) and torch.equal(own(x)[0], expected)


def test_repeats_to_the_bit(device):
    own, x = small(device, bidirectional=True)
    x.requires_grad_()
    first, again = (run_with_gradients(own, x, None) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(flat(first), flat(again)))


@pytest.mark.parametrize("change", ["in place", "optimizer", "load_state_dict", "another tensor", "data in training mode", "data and flatten"])
def test_weights_that_change_are_seen(change, device):
    own, x = small(device)
    own.eval()
    other = sluice.torch.LSTM(4, 6, 2, device=device).eval()
    with torch.no_grad():
        before = own(x)[0]
        expected = other(x)[0]
    if change == "in place":
        with torch.no_grad():
            for a, b in zip(own.parameters(), other.parameters()):
                a.copy_(b)
    elif change == "optimizer":
        for a, b in zip(own.parameters(), other.parameters()):
            a.grad = a.detach() - b.detach()
        torch.optim.SGD(own.parameters(), 1.0).step()
    elif change == "load_state_dict":
        own.load_state_dict(other.state_dict())
    elif change == "another tensor":
        for name, parameter in other.named_parameters():
            setattr(own, name, torch.nn.Parameter(parameter.detach().clone()))
    else:
        for a, b in zip(own.parameters(), other.parameters()):
            a.data.copy_(b.data)
        if change == "data in training mode":
            own.train()
        else:
            own.flatten_parameters()
    with torch.no_grad():
        after = own(x)[0]
    assert not torch.equal(after, before)
    assert torch.allclose(after, expected, atol=1e-5)


@pytest.fixture
def packs(monkeypatch):
    """A list with an entry for each time that weights were packed."""
    counted = []
    real = sluice.torch._runs._pack
    monkeypatch.setattr(sluice.torch._runs, "_pack", lambda *args: counted.append(1) or real(*args))
    return counted


def test_weights_are_packed_again_only_if_they_changed(packs, device):
    own, x = small(device)
    own.eval()
    with torch.no_grad():
        for _ in range(5):
            own(x)
        assert len(packs) == 1
        own.weight_hh_l1.mul_(2)
        own(x)
        own(x)
        assert len(packs) == 2


def test_many_lengths_are_packed_once(packs):
    own, _ = small("cpu")
    own.eval()
    sizes = [(time, rows) for time in range(1, 120, 3) for rows in (1, 4, 9)]
    runs = []
    with torch.no_grad():
        for time, rows in sizes:
            x = torch.randn(time, rows, 4)
            runs.append((x, own(x)[0]))
        assert len(packs) <= len({own.explain(*size).split("\n")[0] for size in sizes})
        for x, y in runs:
            assert torch.equal(y, copy.deepcopy(own)(x)[0])


def test_a_new_module_at_the_place_of_an_old_one_has_its_own_weights(device):
    x = torch.randn(5, 3, 4, device=device)
    for seed in range(30):
        torch.manual_seed(seed)
        own = sluice.torch.LSTM(4, 6, device=device).eval()
        with torch.no_grad():
            assert torch.equal(own(x)[0], copy.deepcopy(own)(x)[0])
        del own


@pytest.mark.parametrize("operator", [False, True])
def test_backward_twice_with_a_retained_graph(operator, device, monkeypatch):
    own, x = small(device)
    x.requires_grad_()
    if operator:
        monkeypatch.setattr(sluice.torch._operators, "_PLAIN", ())
    y = own(x)[0].square().sum()
    first = torch.autograd.grad(y, [x, *own.parameters()], retain_graph=True)
    again = torch.autograd.grad(y, [x, *own.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(first, again))


def test_backward_of_what_was_used_runs_forward_again(device, monkeypatch):
    runs = []
    real = sluice.torch._runs.forward
    monkeypatch.setattr(sluice.torch._runs, "forward", lambda *args: runs.append(1) or real(*args))
    own, x = small(device)
    for _ in range(3):
        own(x)[0].sum().backward()
    assert len(runs) == 3
    y = own(x)[0].sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(runs) == 5


def test_weights_of_one_call_are_not_taken_for_those_of_another(device, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    own, x = small(device)
    reference = torch.nn.LSTM(4, 6, 2, device=device).eval()
    reference.load_state_dict(own.state_dict())
    own.eval()
    base = own.weight_hh_l0.detach().clone()
    with torch.no_grad():
        for scale in (1, 2, 3, 4, 5, 6):
            for kind in (torch.Tensor.clone, torch.nn.Parameter):
                weights = {"weight_hh_l0": kind(base * scale)}
                found = torch.func.functional_call(own, weights, (x,))[0]
                del weights
                expected = torch.func.functional_call(reference, {"weight_hh_l0": base * scale}, (x,))[0]
                assert torch.allclose(found, expected, atol=1e-5)


def test_second_derivatives_are_refused_in_a_sentence(device):
    own, x = small(device)
    x.requires_grad_()
    gradient, = torch.autograd.grad(own(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="can be differentiated once"):
        gradient.sum().backward()


def test_checkpoint_and_hooks_on_saved_tensors(device):
    own, x = small(device)
    x.requires_grad_()
    expected = torch.autograd.grad(own(x)[0].square().sum(), [x, *own.parameters()])
    found = torch.autograd.grad(checkpoint(lambda x: own(x)[0], x, use_reentrant=False).square().sum(), [x, *own.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(found, expected))
    with torch.autograd.graph.save_on_cpu():
        y = own(x)[0].square().sum()
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(y, [x, *own.parameters()]), expected))


def test_only_what_needs_gradients_gets_them(device):
    own, x = small(device)
    y, (hn, cn) = own(x)
    gradient, = torch.autograd.grad(cn.sum(), own.weight_hh_l1)  # of cn alone
    assert gradient.any()
    for parameter in own.parameters():
        parameter.requires_grad_(False)
    own.weight_hh_l0.requires_grad_(True)
    own(x)[0].sum().backward()
    assert [name for name, parameter in own.named_parameters() if parameter.grad is not None] == ["weight_hh_l0"]
    own.weight_hh_l0.requires_grad_(False)
    assert not own(x)[0].requires_grad
    h, c = (torch.zeros(2, 3, 6, device=device, requires_grad=needs) for needs in (True, False))
    own(x, (h, c))[0].sum().backward()
    assert h.grad is not None and c.grad is None


def test_expanded_and_transposed_tensors(device):
    own, x = small(device)
    y = own(x)[0]
    wide = torch.randn(3, 5, 4, device=device).transpose(0, 1)
    assert torch.equal(own(wide)[0], own(wide.contiguous())[0])
    y.sum().backward()  # its gradient is expanded
    expected = own.weight_ih_l0.grad.clone()
    own.zero_grad()
    own(x)[0].backward(torch.ones_like(y))
    assert torch.equal(own.weight_ih_l0.grad, expected)


def test_no_rows(device):
    own, _ = small(device)
    y, (hn, cn) = own(torch.zeros(5, 0, 4, device=device))
    assert y.shape == (5, 0, 6) and hn.shape == cn.shape == (2, 0, 6)


def test_parametrized_weights(device):
    own, x = small(device)
    expected = own(x)
    torch.nn.utils.parametrizations.weight_norm(own, "weight_hh_l0")
    found = own(x)
    assert torch.allclose(found[0], expected[0], atol=1e-2)
    found[0].sum().backward()
    assert own.parametrizations.weight_hh_l0.original1.grad.any()


def test_parametrized_weights_that_change(device):
    own, x = small(device)
    torch.nn.utils.parametrizations.weight_norm(own, "weight_hh_l0")
    own.eval()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            before = own(x)[0]
        with torch.no_grad():
            own.parametrizations.weight_hh_l0.original0.mul_(3)
        with mode():
            after = own(x)[0]
            assert not torch.allclose(after, before)
            assert torch.equal(after, copy.deepcopy(own)(x)[0])


@pytest.mark.parametrize("training", [False, True])
def test_functional_gradients(training, device):
    own, x = small(device)
    own.train(training)
    weights = dict(own.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(own, weights, (x,))[0].square().sum()

    found, dx = torch.func.grad(loss, argnums=(0, 1))(weights, x)
    x = x.clone().requires_grad_()
    expected = torch.autograd.grad(loss(weights, x), [x, *weights.values()])
    assert all(torch.equal(a, b) for a, b in zip((dx, *found.values()), expected))


def test_functions_of_torch_func(device):
    own, x = small(device)
    own.eval()
    with torch.no_grad():
        assert torch.equal(torch.func.grad(lambda scale: (own(x)[0] * scale).sum())(torch.tensor(2., device=device)),
                           own(x)[0].sum())
    with pytest.raises(NotImplementedError, match="make the axis more rows"):
        torch.vmap(own)(torch.stack([x, x]))
    with pytest.raises(NotImplementedError, match="differentiated once"):
        torch.func.grad(lambda x: torch.func.grad(lambda x: own(x)[0].square().sum())(x).sum())(x)


def test_explain_names_an_implementation(device):
    own, _ = small(device)
    assert own.explain(10, 4).splitlines()[0]
    own.to(torch.bfloat16)
    assert own.eval().explain(10, 4).splitlines()[0]


def test_moves_between_dtypes_and_devices(device):
    own, x = small("cpu")
    expected = own(x)[0]
    moved = own.to(device)
    assert torch.allclose(moved(x.to(device))[0].cpu(), expected, atol=1e-2)
    half = moved.to(torch.bfloat16)
    assert half(x.to(device, torch.bfloat16))[0].dtype == torch.bfloat16


def test_tensors_at_odd_places(device):
    own, _ = small(device)
    memory = torch.randn(5 * 3 * 4 + 1, device=device)
    x = memory[1:].view(5, 3, 4)
    assert x.data_ptr() % 16
    h, c = (torch.randn(2 * 3 * 6 + 1, device=device)[1:].view(2, 3, 6) for _ in range(2))
    own.weight_hh_l0 = torch.nn.Parameter(torch.randn(24 * 6 + 1, device=device)[1:].view(24, 6))
    expected = run_with_gradients(copy.deepcopy(own), x.clone().requires_grad_(), (h.clone().requires_grad_(), c.clone().requires_grad_()))
    found = run_with_gradients(own, x.requires_grad_(), (h.requires_grad_(), c.requires_grad_()))
    assert all(torch.equal(a, b) for a, b in zip(flat(found), flat(expected)))


def test_threads_share_a_module(device):
    """More threads than layouts are kept, at the first call, with weights that are frozen or not, in either mode."""
    for frozen, training in ((False, False), (True, False), (False, True)):
        for trial in range(5):
            own, x = small(device)
            own.train(training).requires_grad_(not frozen)
            x = [torch.randn(5, rows, x.shape[2], device=device) for rows in range(1, 13)]
            start, found = threading.Barrier(12), [None] * 12

            def run(i):
                start.wait()
                with torch.no_grad():
                    for _ in range(20):
                        found[i] = own(x[i])[0]

            threads = [threading.Thread(target=run, args=(i,)) for i in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with torch.no_grad():
                for i in range(12):
                    assert torch.equal(found[i], copy.deepcopy(own)(x[i])[0])


def test_replaced_layers_keep_what_their_model_set():
    layer = torch.nn.LSTM(4, 6)
    layer.note = "mine"
    assert sluice.torch.replace(torch.nn.Sequential(layer), verbose=False)[0].note == "mine"


def test_a_cell_follows_its_nonlinearity():
    own = sluice.torch.RNNCell(4, 6)
    x = torch.randn(3, 4) * 5
    own.nonlinearity = "relu"
    reference = torch.nn.RNNCell(4, 6, nonlinearity="relu")
    reference.load_state_dict(own.state_dict())
    assert torch.allclose(own(x), reference(x), atol=1e-5)


def test_pairs_have_two():
    own, x = small("cpu")
    state = torch.zeros(2, 3, 6)
    with pytest.raises(ValueError):
        own(x, (state, state, state))
    with pytest.raises(ValueError, match="zoneout has 3 rates"):
        sluice.torch.LSTM(4, 6, zoneout=(.1, .2, .3))
