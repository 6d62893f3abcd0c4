"""Initial weights, as layers::Parameters draws them."""

import torch

from .data import WORD


def initial_values(name, count, limit, seed, device):
    """As layers::Parameters::initialize: Philox4x32-10 keyed by seed and name, counted by element;
    uniform in [-limit, limit]."""
    if limit == 0:
        return torch.zeros(count, device=device)
    low32 = 0xFFFFFFFF
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = ((hashed ^ byte) * 0x100000001B3) & WORD
    key = seed ^ hashed
    k0, k1 = key & low32, key >> 32
    blocks = torch.arange((count + 3) // 4, device=device)
    c = [blocks & low32, blocks >> 32, torch.zeros_like(blocks), torch.zeros_like(blocks)]
    for _ in range(10):
        # Products of two 32-bit words wrap in int64; their bits are those of uint64.
        p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [((p1 >> 32) & low32) ^ c[1] ^ k0, p1 & low32,
             ((p0 >> 32) & low32) ^ c[3] ^ k1, p0 & low32]
        k0, k1 = (k0 + 0x9E3779B9) & low32, (k1 + 0xBB67AE85) & low32
    unit = (torch.stack(c, dim=1).reshape(-1)[:count].double() + 0.5) / 4294967296.0
    return ((2 * unit - 1) * limit).float()


def initialize(module, limit_of, seed):
    """Every parameter of `module`, uniform in [-limit_of(name, parameter), the same]."""
    for name, parameter in module.named_parameters():
        values = initial_values(name, parameter.numel(), limit_of(name, parameter), seed,
                                parameter.device)
        parameter.data.copy_(values.reshape(parameter.shape))
