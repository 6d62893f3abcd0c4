"""What the torch peers share."""

import time

import torch


def milliseconds_of(action, on_gpu):
    """Of what `action` does, by CUDA events on a GPU."""
    if not on_gpu:
        begin = time.perf_counter()
        action()
        return (time.perf_counter() - begin) * 1e3
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    action()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def compiled(function):
    """By torch.compile, recurrent layers and all, for sizes that stay; without CUDA graphs of its own, for
    callers capture the whole."""
    torch._dynamo.config.allow_rnn = True  # else its recurrent layers stay out
    torch.set_float32_matmul_precision("high" if torch.backends.cuda.matmul.allow_tf32 else "highest")
    return torch.compile(function, dynamic=False, mode="max-autotune-no-cudagraphs")


def name_and_version():
    """Name and version of what runs."""
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    return f"torch {torch.__version__}" + (f", cuDNN {cudnn}" if cudnn else "")


def mebibytes(peak_bytes):
    """Of a table; None: not measured."""
    return "-" if peak_bytes is None else f"{peak_bytes / 2**20:.0f}"
