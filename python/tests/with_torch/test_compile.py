"""torch.compile, torch.export and CUDA graphs."""

import pytest
import sluice.torch
import torch
from pairs import flat, run_with_gradients


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(flat(a), flat(b), strict=True))


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


@pytest.mark.parametrize("kind, options", [("LSTM", {}), ("LSTM", {"proj_size": 3, "batch_first": True}), ("GRU", {"bidirectional": True}), ("RNN", {})])
def test_compiles_without_a_break(kind, options, device):
    own = getattr(sluice.torch, kind)(5, 8, 2, device=device, **options)
    x = torch.randn(6, 4, 5, device=device, requires_grad=True)
    assert equal(run_with_gradients(torch.compile(own, fullgraph=True), x, None), run_with_gradients(own, x, None))
    own.eval()
    with torch.no_grad():
        assert equal(torch.compile(own, fullgraph=True)(x), own(x))


def test_compiles_inside_a_model_with_lengths_resets_and_autocast(device):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = sluice.torch.GRU(5, 8, batch_first=True)
            self.out = torch.nn.Linear(8, 2)

        def forward(self, x, lengths, resets):
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                y, h = self.layer(torch.relu(x), lengths=lengths, resets=resets)
                return self.out(y).float().sum() + h.float().sum()

    model = Model().to(device)
    x = torch.randn(4, 6, 5, device=device)
    lengths = torch.tensor([6, 2, 0, 5], device=device)
    resets = torch.rand(4, 6, device=device) < 0.2
    compiled = torch.compile(model, fullgraph=True)
    a, b = compiled(x, lengths, resets), model(x, lengths, resets)
    assert torch.allclose(a, b, rtol=2e-2)
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in (a, b)]
    assert all(torch.allclose(p, q, rtol=5e-2, atol=5e-2) for p, q in zip(*gradients))


def test_fifty_lengths_compile_at_most_twice(device):
    own = sluice.torch.LSTM(5, 8, device=device)
    counter = torch._dynamo.testing.CompileCounterWithBackend("inductor")
    compiled = torch.compile(own, fullgraph=True, backend=counter)
    for time in range(3, 53):
        x = torch.randn(time, 4, 5, device=device, requires_grad=True)
        y = compiled(x)[0]
        y.sum().backward()
        assert equal(y, own(x)[0])
    assert counter.frame_count <= 2


def test_dropout_in_a_compiled_layer_draws_anew(device):
    own = sluice.torch.LSTM(5, 8, 2, dropout=0.5, device=device)
    x = torch.randn(6, 4, 5, device=device)
    compiled = torch.compile(own, fullgraph=True)
    assert not torch.equal(compiled(x)[0], compiled(x)[0])


def test_exports(device):
    own = sluice.torch.LSTM(5, 8, 2, device=device).eval()
    x = torch.randn(6, 4, 5, device=device)
    program = torch.export.export(own, (x,), dynamic_shapes=({0: torch.export.Dim("time", min=2, max=100)},))
    for time in (6, 31):
        x = torch.randn(time, 4, 5, device=device)
        assert equal(program.module()(x), own(x))


def test_operators_pass_torchs_own_check(device):
    own = sluice.torch.LSTM(5, 8, device=device)
    x = torch.randn(6, 4, 5, device=device, requires_grad=True)
    config, _ = own._configs[True, False]
    arguments = (x, [weight.detach().requires_grad_() for weight in own.parameters()], None, None, None, None, None, config,
                 True, False, False)
    torch.library.opcheck(torch.ops.sluice.recurrent.default, arguments,
                          test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def captured(work, warm_up=3):
    """A graph of the work, after some runs on another stream, as torch's pages ask for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = work()
    return graph, result


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(20, 8, 64), (7, 3, 40), (12, 64, 512)], ids=str)
def test_training_steps_are_captured(kind, dtype, shape, gpu):
    time, rows, width = shape
    own = getattr(sluice.torch, kind)(width, width, 2, device=gpu, dtype=dtype)
    x = torch.randn(time, rows, width, device=gpu, dtype=dtype)

    def step():
        for parameter in own.parameters():
            parameter.grad = None
        y = own(x)[0]
        y.float().square().sum().backward()
        return y, [parameter.grad for parameter in own.parameters()]

    graph, result = captured(step)
    for _ in range(3):
        with torch.no_grad():
            x.copy_(torch.randn_like(x))
            for parameter in own.parameters():
                parameter.mul_(0.9)  # a replay must read them anew
        graph.replay()
        found = [tensor.clone() for tensor in flat(result)]
        assert equal(found, step())


def test_captured_without_a_warm_up(gpu):
    own = sluice.torch.LSTM(64, 96, 3, device=gpu, dtype=torch.bfloat16).eval()
    x = torch.randn(15, 5, 64, device=gpu, dtype=torch.bfloat16)
    with torch.no_grad():
        graph, result = captured(lambda: own(x)[0], warm_up=0)
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(result, own(x)[0])


def test_captured_inference_follows_weights_unless_they_are_frozen(gpu, monkeypatch):
    own = sluice.torch.GRU(64, 96, device=gpu).eval()
    x = torch.randn(15, 5, 64, device=gpu)
    with torch.no_grad():
        graph, result = captured(lambda: own(x)[0])
        own.weight_hh_l0.mul_(0.5)
        graph.replay()
        assert torch.equal(result, own(x)[0])
        own.requires_grad_(False)
        packs = []
        real = sluice.torch._runs._pack
        monkeypatch.setattr(sluice.torch._runs, "_pack", lambda *args: packs.append(1) or real(*args))
        graph, result = captured(lambda: own(x)[0])
        graph.replay()
        assert torch.equal(result, own(x)[0])
        assert len(packs) == 1  # before the capture, on another stream


def test_dropout_in_a_captured_graph_draws_anew(gpu):
    own = sluice.torch.LSTM(64, 96, 2, dropout=0.5, device=gpu)
    x = torch.randn(15, 5, 64, device=gpu)
    graph, result = captured(lambda: own(x)[0].detach())
    graph.replay()
    first = result.clone()
    graph.replay()
    assert not torch.equal(result, first)


def test_reduce_overhead(gpu):
    own = sluice.torch.LSTM(32, 64, 2, device=gpu)
    compiled = torch.compile(own, fullgraph=True, mode="reduce-overhead")
    for _ in range(5):
        x = torch.randn(9, 4, 32, device=gpu, requires_grad=True)
        assert equal(run_with_gradients(compiled, x, None), run_with_gradients(own, x, None))
    own.eval()
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(9, 4, 32, device=gpu)
            assert equal([tensor.clone() for tensor in flat(compiled(x))], own(x))


def test_streams_of_the_callers(gpu):
    own = sluice.torch.LSTM(64, 96, 2, device=gpu)
    x = torch.randn(15, 5, 64, device=gpu)
    expected = own(x)[0]
    for _ in range(3):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = own(x * 1)[0]
        torch.cuda.current_stream().wait_stream(stream)
        assert torch.equal(y, expected)
