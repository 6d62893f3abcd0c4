"""Nothing piles up, however often layers are called."""

import gc

import pytest
import sluice.torch
import torch
from resident import resident_bytes


@pytest.mark.parametrize("training", [False, True])
def test_calls_leave_no_memory(training, device):
    own = sluice.torch.LSTM(16, 32, 2, device=device).train(training)
    x = torch.randn(3, 2, 16, device=device)
    lengths = torch.tensor([3, 2], device=device)

    def rounds(count):
        for i in range(count):
            with torch.set_grad_enabled(training):
                y, state = own(x, lengths=lengths)
                if training:
                    torch.autograd.grad(y.sum(), list(own.parameters()))
            if i % 10 == 0:
                with pytest.raises(RuntimeError):
                    own(x[..., :2])
            if i % 50 == 0:
                sluice.torch.GRU(16, 32, device=device)(x)
        gc.collect()

    rounds(600)
    before = resident_bytes(), torch.cuda.memory_allocated() if device.type == "cuda" else 0
    rounds(4000)
    assert resident_bytes() - before[0] < 3 << 20
    if device.type == "cuda":
        assert torch.cuda.memory_allocated() == before[1]


def test_packed_weights_go_with_their_module(device):
    before = len(sluice.torch._runs._kept)
    x = torch.randn(3, 2, 16, device=device)
    for _ in range(50):
        own = sluice.torch.LSTM(16, 32, device=device).eval()
        with torch.no_grad():
            own(x)
        del own
    gc.collect()
    assert len(sluice.torch._runs._kept) <= before
