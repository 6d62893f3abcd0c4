"""Runs a model of Paddle 1.8 in Python 3.7: paddle_reference.py MODEL INPUTS.npz OUTPUTS.npz VARIABLE...

INPUTS has the ids of one sequence for each feed, in any number of sequences: FEED.0, FEED.1 and so on. OUTPUTS has
VARIABLE.0, VARIABLE.1.
"""

import sys

import numpy
import paddle.fluid as fluid


def main(model, inputs, outputs, *names):
    place = fluid.CPUPlace()
    executor = fluid.Executor(place)
    program, feeds, _ = fluid.io.load_inference_model(model, executor)
    block = program.global_block()
    for index in reversed(range(len(block.ops))):
        # run() adds feeds and fetches of its own.
        if block.ops[index].type in ("feed", "fetch"):
            block._remove_op(index)
    given, found = numpy.load(inputs), {}
    for row in range(len(given.files) // len(feeds)):
        sequences = {feed: given["%s.%d" % (feed, row)].astype("int64")[:, None] for feed in feeds}
        feed = {name: fluid.create_lod_tensor(ids, [[len(ids)]], place) for name, ids in sequences.items()}
        values = executor.run(program, feed=feed, fetch_list=list(names), return_numpy=False)
        found.update(("%s.%d" % (name, row), numpy.array(value)) for name, value in zip(names, values))
    numpy.savez(outputs, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
