#!/usr/bin/env python3
"""Measures sluice.torch with resets beside TorchRL's recurrent modes: B128 T128 H256, 3 % resets, forward and backward.

TorchRL's backends: pad (cuDNN on split sequences), triton (its own kernels) and, if --backends names it and there is the package
hoptorch, scan, which takes hundreds of times as long. All get the same weights and inputs. Outputs and gradients are compared with torch's in float64, trajectory by trajectory; the error is the root
of the mean square over that of the expected values.

    torchrl_layers.py --device cuda --dtype bfloat16 --json rl.json
"""

import argparse
import sys

import torch
import torchrl
from tensordict import TensorDict
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence
from torchrl.modules import GRUModule, LSTMModule, set_recurrent_mode

import common
import sluice.torch
import torch_common
from shape_files import Shape

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Task:
    """Inputs, and a layer of torch's whose weights all share."""

    def __init__(self, cell, dtype, device, rows, time, width, rate):
        self.cell, self.device, self.width = cell, device, width
        kind = torch.nn.LSTM if cell == "lstm" else torch.nn.GRU
        generator = torch.Generator().manual_seed(1)
        torch.manual_seed(1)
        self.layer = kind(width, width, batch_first=True).to(device, dtype)
        self.own = sluice.torch.replace(torch.nn.Sequential(self.layer), verbose=False)[0]
        self.weights = list(self.layer.parameters())

        def draw(*shape):
            return (torch.rand(shape, generator=generator) * 2 - 1).to(device, dtype)

        self.x, self.dy = draw(rows, time, width), draw(rows, time, width)
        self.resets = (torch.rand((rows, time), generator=generator) < rate).to(device)
        self.states = [draw(1, rows, width) for _ in range(2 if cell == "lstm" else 1)]

    def sluice(self):
        x = self.x.detach().requires_grad_()
        state = tuple(self.states) if self.cell == "lstm" else self.states[0]
        y = self.own(x, state, resets=self.resets)[0]
        return [y.detach(), *torch.autograd.grad(y, [x, *self.weights], self.dy)]

    def torchrl(self, backend):
        names = ["h", "c"][:len(self.states)]
        module_of = LSTMModule if self.cell == "lstm" else GRUModule
        options = {"lstm": self.layer} if self.cell == "lstm" else {"gru": self.layer}
        if backend == "triton":
            options["recurrent_compute_dtype"] = self.x.dtype
        module = module_of(in_keys=["x", *names], out_keys=["y", *(("next", name) for name in names)],
                           recurrent_backend=backend, **options)
        rows, time = self.resets.shape
        # TorchRL stores the states of all steps, and reads those where trajectories begin.
        kept = {name: state[0][:, None, None].expand(rows, time, 1, self.width) * (~self.resets)[:, :, None, None]
                for name, state in zip(names, self.states)}

        def run():
            x = self.x.detach().requires_grad_()
            data = TensorDict({"x": x, "is_init": self.resets[..., None], **kept}, [rows, time])
            with set_recurrent_mode(True):
                y = module(data)["y"]
            return [y.detach(), *torch.autograd.grad(y, [x, *self.weights], self.dy)]

        return run

    def expected(self):
        """In float64, each trajectory a sequence of its own."""
        layer = type(self.layer)(self.width, self.width, batch_first=True, dtype=torch.float64, device=self.device)
        layer.load_state_dict({name: value.double() for name, value in self.layer.state_dict().items()})
        x, dy = self.x.double().requires_grad_(), self.dy.double()
        pieces = []  # row, begin, end
        for row, resets in enumerate(self.resets.cpu()):
            begins = sorted({0, *resets.nonzero().flatten().tolist()})
            pieces += [(row, begin, end) for begin, end in zip(begins, [*begins[1:], x.shape[1]])]
        states = torch.zeros((len(self.states), 1, len(pieces), self.width), dtype=torch.float64, device=self.device)
        for place, (row, begin, _) in enumerate(pieces):
            if begin == 0 and not self.resets[row, 0]:
                for state, own in zip(states, self.states):
                    state[:, place] = own[:, row]
        packed = pack_sequence([x[row, begin:end] for row, begin, end in pieces], enforce_sorted=False)
        y = pad_packed_sequence(layer(packed, tuple(states) if self.cell == "lstm" else states[0])[0], batch_first=True)[0]
        outputs = torch.cat([y[place, :end - begin] for place, (_, begin, end) in enumerate(pieces)]).view(dy.shape)
        gradients = torch.autograd.grad(outputs, [x, *layer.parameters()], dy)
        return [tensor.detach().cpu() for tensor in (outputs, *gradients)]


def error_of(found, expected):
    return max(((a.double().cpu() - b).square().mean() / b.square().mean()).sqrt().item() for a, b in zip(found, expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--cell", choices=("lstm", "gru", "all"), default="all")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--time", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--resets", type=float, default=0.03, metavar="RATE", help="share of steps that begin a sequence")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--backends", default="pad,triton", help="of TorchRL: pad, triton, scan")
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    on_gpu = arguments.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        sys.exit("torch finds no GPU here; use --device cpu")
    model = torch.cuda.get_device_name() if on_gpu else "cpu"
    library = f"torchrl {torchrl.__version__}, {torch_common.name_and_version()}"
    rows = []
    for cell in ("lstm", "gru") if arguments.cell == "all" else (arguments.cell,):
        shape = Shape("resets", cell, arguments.time, arguments.rows, arguments.width, arguments.width, dtype=arguments.dtype,
                      reset=arguments.resets)
        task = Task(cell, DTYPES[arguments.dtype], torch.device(arguments.device), arguments.rows, arguments.time, arguments.width,
                    arguments.resets)
        expected = task.expected()
        runs = {"sluice": task.sluice}
        for backend in arguments.backends.split(","):
            try:
                run = task.torchrl(backend)
                run()
                runs[f"torchrl {backend}"] = run
            except Exception as error:  # noqa: BLE001
                print(f"# {cell}: torchrl's {backend} declines: {str(error).splitlines()[0][:150]}")
        errors = {name: error_of(run(), expected) for name, run in runs.items()}
        times = {name: [] for name in runs}
        for repeat in range(arguments.repeats + 3):
            for name, run in runs.items():
                milliseconds = torch_common.milliseconds_of(run, on_gpu)
                if repeat >= 3:
                    times[name].append(milliseconds)
        for name, values in times.items():
            row = common.result_of(shape, "forward+backward", name, common.median(values), arguments.device, model, 1, library)
            row["peer"], row["default"], row["error"] = name != "sluice", name == "sluice", errors[name]
            rows.append(row)
            print(f"{cell:<5} {arguments.dtype:<9} {name:<16} {row['milliseconds']:9.3f} ms   error {row['error']:.1e}   "
                  f"{row['milliseconds'] / common.median(times['sluice']):6.2f}x of sluice's time")
        if arguments.json:
            common.write_results(arguments.json, rows)


if __name__ == "__main__":
    main()
