"""LSTM, GRU and RNN layers in place of torch.nn's, on CPUs and NVIDIA GPUs.

    import sluice.torch

    layer = sluice.torch.LSTM(64, 128, num_layers=2)      # torch.nn.LSTM's arguments, shapes and state dict
    y, (hn, cn) = layer(x, lengths=lengths)

    model = sluice.torch.replace(model)                   # every nn.LSTM, nn.GRU, nn.RNN and cell in a model

They compile (torch.compile without a break), export and can be captured in CUDA graphs.
"""

from ._cells import GRUCell, LSTMCell, RNNCell
from ._layers import GRU, LSTM, RNN
from ._replace import replace

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNCell", "replace"]
