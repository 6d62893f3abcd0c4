"""LAC's models for Chinese words and their kinds: Sluice computes what Paddle 1.8 in Python 3.7 makes of them."""

import pathlib
import subprocess

import numpy
import pytest
from interop_cases import assert_same, outputs_of, token_outputs_of
from python37 import folder_of, python37

import sluice

#: LAC 2.1.2: each tagger's labels for its variables of emissions and of the best path.
TAGGERS = ("lac_model", "seg_model")
EMISSIONS, PATH = "fc_4.tmp_1", "crf_decoding_0.tmp_0"
SENTENCES = ("百度是一家高科技公司", "LAC是个优秀的分词工具", "我在北京的大学学习自然语言处理", "今天天气真好", "中")


def lac(name):
    """The folder of one of the package's models."""
    return folder_of("LAC") / name


def reference(model, sequences, names, folder):
    """What Paddle computes: {variable: [its numbers for each sequence]}, of [{feed: ids}]."""
    given, found = folder / "inputs.npz", folder / "outputs.npz"
    numpy.savez(given, **{f"{feed}.{row}": ids for row, one in enumerate(sequences) for feed, ids in one.items()})
    script = pathlib.Path(__file__).with_name("paddle_reference.py")
    done = subprocess.run([python37(), str(script), str(model), str(given), str(found), *names], capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    with numpy.load(found) as arrays:
        return {name: [arrays[f"{name}.{row}"] for row in range(len(sequences))] for name in names}


def entries(path):
    """{id: text} of a dictionary of LAC, whose lines are an id, a tab and a text; the first text of each id."""
    texts = {}
    for line in path.read_bytes().decode("utf-8").split("\n"):
        number, tab, text = line.partition("\t")
        if tab:
            texts.setdefault(int(number), text.strip("\r"))
    return texts


@pytest.mark.parametrize("name", TAGGERS)
def test_emissions(name, tmp_path):
    """Ids as they come, without the dictionaries of the package."""
    model = lac(name) / "model"
    report = sluice.convert(model, tmp_path / "sluice", verify=True)
    assert report.kind == "tagger" and report.check.agrees
    count = max(entries(lac(name) / "conf" / "word.dic")) + 1
    random = numpy.random.default_rng(1)
    sequences = [{"words": random.integers(count, size=steps)} for steps in (37, 100, 2, 1)]
    found = reference(model, sequences, (EMISSIONS, PATH), tmp_path)
    tagger = sluice.load(tmp_path / "sluice")
    for one, emissions, path in zip(sequences, found[EMISSIONS], found[PATH], strict=True):
        assert_same(token_outputs_of(tmp_path / "sluice", one["words"], "tagger"), emissions, report.text)
        (tagged,) = tagger.tag([[str(number) for number in one["words"]]])
        assert [int(label) for label in tagged.labels] == path[:, 0].tolist()


@pytest.mark.parametrize("name", TAGGERS)
def test_labels_of_sentences(name, tmp_path):
    """With the dictionaries, as docs/interchange.md makes them: texts in, names of labels out."""
    folder = lac(name)
    words, labels = (entries(folder / "conf" / file) for file in ("word.dic", "tag.dic"))
    for file, texts in (("words.txt", words), ("labels.txt", labels)):
        lines = [texts[number] for number in range(len(texts))]
        (tmp_path / file).write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
    numbers = {text: number for number, text in words.items()}
    sluice.convert(folder / "model", tmp_path / "sluice", verify=True, words=tmp_path / "words.txt",
                   labels=tmp_path / "labels.txt", unknown=numbers["OOV"])
    ids = [[numbers.get(letter, numbers["OOV"]) for letter in sentence] for sentence in SENTENCES]
    found = reference(folder / "model", [{"words": numpy.array(one)} for one in ids], (PATH,), tmp_path)
    tagged = sluice.load(tmp_path / "sluice").tag([list(sentence) for sentence in SENTENCES])
    for sentence, ours, theirs in zip(SENTENCES, tagged, found[PATH], strict=True):
        assert list(ours.labels) == [labels[int(number)] for number in theirs[:, 0]], sentence


def parameter(model, name, shape):
    """The numbers of a file of Paddle, which end it."""
    bytes_ = (model / name).read_bytes()
    return numpy.frombuffer(bytes_[-4 * int(numpy.prod(shape)):], "f4").reshape(shape).astype("f8")


def lstm(model, number, x, most):
    """A direction of rank_model in double precision, whose sigmoid limits its argument to `most`: Paddle's to 13."""
    width, units = x.shape[1], 128
    weight, bias = (parameter(model, f"fc_{number}.{name}", shape)
                    for name, shape in (("w_0", (width, 4 * units)), ("b_0", (4 * units,))))
    recurrent = parameter(model, f"lstm_{number}.w_0", (units, 4 * units))
    more = parameter(model, f"lstm_{number}.b_0", (7 * units,))
    gates, (p_i, p_f, p_o) = bias + more[:4 * units], numpy.split(more[4 * units:], 3)
    sigmoid = lambda a: 1 / (1 + numpy.exp(-numpy.minimum(a, most)))
    h, c, outputs = numpy.zeros(units), numpy.zeros(units), []
    for frame in x:
        candidate, i, f, o = numpy.split(frame @ weight + h @ recurrent + gates, 4)
        i, f = sigmoid(i + p_i * c), sigmoid(f + p_f * c)
        c = numpy.tanh(candidate) * i + c * f
        h = numpy.tanh(c) * sigmoid(o + p_o * c)
        outputs.append(h)
    return numpy.array(outputs)


def test_peephole_lstm(tmp_path):
    """The recurrent part of rank_model, which joins two embeddings. Its forget gates are saturated, where Paddle's sigmoid
    ends at 1 - 2.3e-6: over 40 steps that is 3e-5 in the outputs. So both are compared with their own equations."""
    model = lac("rank_model") / "model"
    report = sluice.convert(model, tmp_path / "sluice", subgraph="lstm_0", verify=True)
    assert report.check.agrees and "use_peepholes=1" in report.text
    random = numpy.random.default_rng(2)
    # Both feeds have ids below 50 in common.
    sequences = [{feed: random.integers(50, size=steps) for feed in ("word", "entity")} for steps in (40, 7, 1)]
    found = reference(model, sequences, ("dropout_0.tmp_0", "concat_1.tmp_0"), tmp_path)
    for x, theirs in zip(found["dropout_0.tmp_0"], found["concat_1.tmp_0"], strict=True):
        ours = outputs_of(tmp_path / "sluice", x)
        for outputs, most in ((theirs, 13), (ours, numpy.inf)):
            exact = numpy.concatenate([lstm(model, 0, x, most), lstm(model, 1, x[::-1], most)[::-1]], axis=1)
            assert_same(outputs, exact, report.text)
        assert numpy.abs(ours - theirs).max() < 1e-4
    with pytest.raises(NotImplementedError):
        sluice.convert(model, tmp_path / "whole")
