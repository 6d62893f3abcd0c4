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
        if self.sets is None:
            self.prepare()
        if implementation == "sluice.torch":
            self.layer, self.frames = sluice.torch.replace(torch.nn.Sequential(self.module), verbose=False)[0], self.frames_of_set()
        else:
            weights = {name: value.numpy() for name, value in self.module.state_dict().items()}
            self.layer = sluice.numpy.Stack(self.shape.cell, weights)
            self.frames = [frame.numpy() for frame in self.frames_of_set()]
        return self.step_runner()

    def frames_of_set(self):
        return self.sets[0].x.detach().split(1)

    def steps_of(self, one):
        state = None
        with torch.inference_mode():
            for frame in self.frames:
                y, state = self.layer(frame, state)
                yield torch.as_tensor(y)

    def step_runner(self):
        frames, state, turn = self.frames, None, 0

        def run_steps():
            nonlocal state, turn
            with torch.inference_mode():
                for _ in range(self.calls):
                    turn = turn + 1 if turn + 1 < len(frames) else 0
                    _, state = self.layer(frames[turn], state)

        return lambda: self.milliseconds_of(run_steps) / self.calls
