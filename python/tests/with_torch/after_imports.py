"""usage: after_imports.py MODULE...

Imports the modules in this order. Then sluice.numpy and all of these compute something. test_imports.py runs it.
"""

import importlib
import io
import pathlib
import sys
import tempfile

modules = {name: importlib.import_module(name) for name in sys.argv[1:]}

import numpy as np  # noqa: E402 - the modules above come first

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from cases import random_weights  # noqa: E402
from ml_dtypes import bfloat16  # noqa: E402
from model_cases import pairs  # noqa: E402
from reference import stack  # noqa: E402

from sluice.numpy import lstm  # noqa: E402

TIME, ROWS, WIDTH = 12, 8, 64
rng = np.random.default_rng(0)
# Numbers that bfloat16 has.
weights = {name: value.astype(bfloat16).astype(np.float32) for name, value in random_weights(rng, "lstm", WIDTH, WIDTH).items()}
weights = {name: value / 4 for name, value in weights.items()}
x = rng.uniform(-1, 1, (TIME, ROWS, WIDTH)).astype(bfloat16).astype(np.float32)
y_expected, h_expected, c_expected = stack("lstm", weights, x.astype(np.float64))


def check(y, h, c, tolerance):
    for found, expected in ((y, y_expected), (h, h_expected), (c, c_expected)):
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=0, atol=tolerance)


def check_sluice(implementation):
    # Roundings of 6e-8 in sums of 128 products that are less than 1/8.
    y, (h, c) = lstm(x, weights, implementation=implementation)
    check(y, h, c, 1e-5)
    # h is rounded to 2e-3 of its value, up to 1, in each step; gates make what is left of earlier roundings smaller.
    halves = {name: value.astype(bfloat16) for name, value in weights.items()}
    y, (h, c) = lstm(x.astype(bfloat16), halves, implementation=implementation)
    check(y, h, c, 1e-2)


def check_torch(torch):
    layer = torch.nn.LSTM(WIDTH, WIDTH)
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.no_grad():  # torch's own oneDNN is for inference
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
            y, (h, c) = layer.to(dtype)(torch.from_numpy(x).to(dtype))
            check(y.double().numpy(), h.double().numpy(), c.double().numpy(), tolerance)


def check_sluice_torch(own):
    import torch
    layer = own.LSTM(WIDTH, WIDTH)
    layer.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    with torch.no_grad():
        y, (h, c) = layer(torch.from_numpy(x))
    check(y.numpy(), h.numpy(), c.numpy(), 1e-5)


def check_sluice_models(models):
    # The library with Sluice's models has a sentencepiece, and in that a protobuf, of its own.
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        settings = {**pairs(folder), "tokenizer.kind": "unigram", "tokenizer.source_vocabulary": 18,
                    "tokenizer.target_vocabulary": 18, "output.directory": str(folder / "run")}
        report = models.train(settings, quiet=True)
        assert isinstance(models.load(report.model).decode("a b c").text, str)


def check_tensorflow(tensorflow):
    np.testing.assert_allclose(tensorflow.matmul(x[0], weights["weight_ih_l0"].T).numpy(), x[0] @ weights["weight_ih_l0"].T, atol=1e-5)


def check_jax(jax):
    np.testing.assert_allclose(jax.jit(jax.numpy.matmul)(x[0], weights["weight_ih_l0"].T), x[0] @ weights["weight_ih_l0"].T, atol=1e-5)


def check_onnx(onnx):
    tensor = onnx.numpy_helper.from_array(x)
    again = onnx.TensorProto.FromString(tensor.SerializeToString())
    onnx.checker.check_tensor(again)
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(again), x)


def check_sentencepiece(sentencepiece):
    model, text = io.BytesIO(), "one word after the other word, and one more"
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([text] * 20), model_writer=model, vocab_size=30,
                                             hard_vocab_limit=False, minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    assert len(processor.encode(text)) > 3 and processor.decode(processor.encode(text)) == text


CHECKS = {"torch": check_torch, "sluice.torch": check_sluice_torch, "sluice.models": check_sluice_models, "tensorflow": check_tensorflow, "jax": check_jax,
          "onnx": check_onnx, "sentencepiece": check_sentencepiece}
for turn in range(2):  # ours before and after theirs
    check_sluice("auto")
    try:
        check_sluice("onednn")
    except NotImplementedError as refusal:
        print("no oneDNN:", str(refusal).splitlines()[0])
    for name in modules.keys() & CHECKS.keys():
        CHECKS[name](modules[name])
print("all right")
