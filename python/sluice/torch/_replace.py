"""Swaps the recurrent layers of a model that somebody else wrote."""

import torch
from torch import nn

from ._cells import GRUCell, LSTMCell, RNNCell
from ._layers import GRU, LSTM, RNN

_LAYERS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}
_CELLS = {nn.LSTMCell: LSTMCell, nn.GRUCell: GRUCell, nn.RNNCell: RNNCell}
_SHARED = ("_parameters", "_buffers", "training", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
           "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook",
           "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")
_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _reason_against(module):
    """Why a recurrent module can't be swapped; None: it can."""
    if isinstance(module, torch.jit.ScriptModule):
        return "it is compiled by torch.jit"
    own = _LAYERS.keys() | _CELLS.keys()
    if type(module) not in own:
        base = next(kind for kind in own if isinstance(module, kind))
        return f"{type(module).__module__}.{type(module).__qualname__} changes {base.__name__}"
    if torch.nn.utils.parametrize.is_parametrized(module):
        return "its weights are parametrized"
    weights = list(module.parameters(recurse=False))
    names = getattr(module, "_flat_weights_names", None) or [name for name, _ in module.named_parameters(recurse=False)]
    if any(name not in module._parameters for name in names):
        return "its weights are computed, for example by weight_norm"
    if "forward" in module.__dict__:
        return "its forward was replaced"
    dtypes = {weight.dtype for weight in weights}
    if len(dtypes) != 1 or not dtypes <= set(_DTYPES):
        return f"its weights are {', '.join(sorted(str(dtype) for dtype in dtypes))}"
    devices = {weight.device.type for weight in weights}
    if not devices <= {"cpu", "cuda", "meta"}:
        return f"it is on {', '.join(sorted(devices))}"
    if devices == {"cuda"} and dtypes == {torch.float64}:
        return "on a GPU there is no float64"
    return None


def _swapped(module):
    """A module of ours with the parameters, buffers and hooks of torch's."""
    common = {"bias": module.bias, "device": "meta", "dtype": module.weight_ih_l0.dtype if type(module) in _LAYERS else
              module.weight_ih.dtype}
    if type(module) in _LAYERS:
        options = {name: getattr(module, name) for name in ("num_layers", "batch_first", "bidirectional")}
        if type(module) is nn.LSTM:
            options["proj_size"] = module.proj_size
        if type(module) is nn.RNN:
            options["nonlinearity"] = module.mode.removeprefix("RNN_").lower()
        own = _LAYERS[type(module)](module.input_size, module.hidden_size, **common, **options)
        own.dropout = module.dropout  # torch warns of one that has no effect; it did so already
    else:
        options = {"nonlinearity": module.nonlinearity} if type(module) is nn.RNNCell else {}
        own = _CELLS[type(module)](module.input_size, module.hidden_size, **common, **options)
    for name in _SHARED:
        if name in module.__dict__:
            own.__dict__[name] = module.__dict__[name]
    for name, value in module.__dict__.items():
        own.__dict__.setdefault(name, value)  # what the model's author set
    if type(module) in _LAYERS:
        own._init_flat_weights()
    return own


def replace(model: nn.Module, *, verbose: bool = True) -> nn.Module:
    """Swaps every nn.LSTM, nn.GRU, nn.RNN, nn.LSTMCell, nn.GRUCell and nn.RNNCell in a model for Sluice's.

    They keep their parameters: optimizers, state dicts and tied weights stay as they are. Prints what it swapped, and what it
    left as it was, and why; verbose=False prints nothing. Returns the model, which is another object only if the model itself
    is such a layer.
    """
    kinds = (*_LAYERS, *_CELLS)
    done = {}  # from a module to its replacement: one may stand in several places
    report = []
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if not isinstance(module, kinds):
            continue
        title = f"{path or 'the model'}: {type(module).__name__}({module.input_size}, {module.hidden_size})"
        if module not in done:
            reason = _reason_against(module)
            done[module] = None if reason else _swapped(module)
            report.append(f"left {title}: {reason}" if reason else f"swapped {title}")
        own = done[module]
        if own is None:
            continue
        if not path:
            model = own
        else:
            parent, _, name = path.rpartition(".")
            model.get_submodule(parent)._modules[name] = own
    if verbose:
        print("\n".join(report) if report else "no recurrent layer to swap")
    return model
