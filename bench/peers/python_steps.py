"""Single steps through Sluice's Python package, for turns.py: sluice.numpy's Stack and sluice.torch's layers."""

import numpy
import torch

import common
import sluice
import sluice.numpy
import sluice.torch
import torch_recurrent


def name_and_version():
    return f"sluice {sluice.__version__}, numpy {numpy.__version__}, torch {torch.__version__}"


class Contest(torch_recurrent.Contest):
    def runner(self, implementation):
        if self.pass_name != "step":
            raise common.Declined("it is measured for single steps")
        self.implementation = implementation
        return super().runner(implementation)

    def stepped(self):
        module, frames = super().stepped()
        if self.implementation == "sluice.torch":
            return sluice.torch.replace(torch.nn.Sequential(module), verbose=False)[0], frames
        weights = {name: value.numpy() for name, value in module.state_dict().items()}
        return sluice.numpy.Stack(self.shape.cell, weights), [frame.numpy() for frame in frames]
