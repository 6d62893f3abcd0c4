"""Trained models that packages bring along: Sluice computes what the package's own code makes of them."""

import ast
import importlib.util
import os
import pickle
import string

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
import onnx
import onnx_chains
import pytest
from interop_cases import assert_same, features_and_ids, outputs_of
from onnx import TensorProto, helper, numpy_helper
from packages import file_of, unpack

import sluice


def random():
    return numpy.random.default_rng(1)


def frames(steps, width):
    return random().normal(size=(steps, width)).astype("f4")


# --- medaka: calls of nanopore reads ---------------------------------------------------------------------------------

MEDAKA = ("r1041_e82_400bps_hac_v6.0.0", "r1041_e82_400bps_hac_variant_v5.0.0", "r1041_e82_400bps_sup_v5.2.0",
          "r1041_e82_400bps_sup_variant_v5.0.0")


@pytest.mark.parametrize("name", MEDAKA)
def test_medaka(name, tmp_path):
    import torch

    unpack(file_of("medaka", "2.2.2", f"medaka/data/{name}_model_pt.tar.gz"), tmp_path)
    path = tmp_path / "model" / "weights.pt"
    report = sluice.convert(path, tmp_path / "sluice", verify=True)
    assert report.check.agrees
    state = torch.load(path, map_location="cpu", weights_only=True)
    hidden = state["gru.weight_hh_l0"].shape[1]
    gru = torch.nn.GRU(10, hidden, num_layers=2, bidirectional=True, batch_first=True)  # medaka.architectures.gru
    gru.load_state_dict({key[4:]: value for key, value in state.items() if key.startswith("gru.")})
    x = random().dirichlet(numpy.full(10, 0.3), size=200).astype("f4")  # counts of bases, which add up to 1
    with torch.no_grad():
        y = torch.nn.functional.linear(gru(torch.from_numpy(x)[None])[0][0], state["linear.weight"], state["linear.bias"])
    assert_same(outputs_of(tmp_path / "sluice", x), y.numpy(), report.text)


# --- silero-vad: speech or silence -----------------------------------------------------------------------------------

SILERO = (
    ("silero_vad_16k_sequence", "/recurrent/LSTM"),
    ("silero_vad_16k_op15", "/model/decoder/If_1/then_branch//model/decoder/rnn/LSTM"),
    ("silero_vad_16k_op15", "/model/decoder/If_1/else_branch//model/decoder/rnn_1/LSTM"),
    ("silero_vad_half", "/decoder/If_1/then_branch//decoder/rnn/LSTM"),
    ("silero_vad_half", "/decoder/If_1/else_branch//decoder/rnn_1/LSTM"),
    ("silero_vad_openvino_16k", "F2::If_0_then_branch__Inline_0__/decoder/rnn/LSTM"),
) + tuple(("silero_vad", f"If_0/{rate}_branch/If_0_{rate}_branch__Inline_0__/decoder/If_1/{state}_branch/"
           f"If_0_{rate}_branch__Inline_0__/decoder/{rnn}/LSTM")
          for rate in ("then", "else") for state, rnn in (("then", "rnn"), ("else", "rnn_1")))


def silero(name):
    return file_of("silero-vad", "6.2.3", f"silero_vad/data/{name}.onnx")


@pytest.mark.parametrize(("name", "node"), SILERO)
def test_silero_vad(name, node, tmp_path):
    path = silero(name)
    report = sluice.convert(path, tmp_path / "sluice", subgraph=node, verify=True)
    assert report.check.agrees
    alone, width = node_alone(onnx.load(path), node)
    x = frames(50, width)
    theirs = onnx_chains.run(alone, {"x": x[:, None]})[0]
    assert_same(outputs_of(tmp_path / "sluice", x), theirs[:, 0, 0], report.text)


@pytest.mark.parametrize("name", sorted({name for name, _ in SILERO} | {"silero_vad_op18_ifless"}))
def test_silero_vad_as_a_whole_is_refused_by_its_nodes(name, tmp_path):
    """It has convolutions in front; op18_ifless says its LSTM by other nodes."""
    with pytest.raises(NotImplementedError, match="has nodes that Sluice does not read"):
        sluice.convert(silero(name), tmp_path / "sluice")


def node_alone(model, path):
    """A model of the node of that path with what its weights are made of, from the input "x"; and its width."""
    found = find_node(model.graph, path, []) or next(
        found for function in model.functions if (found := find_node(function, path, [])))
    node, scopes = found
    made, tensors = {}, {}
    for scope in scopes:
        made |= {output: each for each in scope.node for output in each.output}
        tensors |= {tensor.name: tensor for tensor in getattr(scope, "initializer", ())}
    nodes, weights, done = [], [], set()

    def take(name):
        if not name or name in done:
            return
        done.add(name)
        if name in tensors:
            weights.append(tensors[name])
            return
        for given in made[name].input:
            take(given)
        nodes.append(made[name])

    for name in node.input[1:4]:
        take(name)
    names = list(node.input[1:4])
    value = lambda name, shape=None: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    opsets = model.opset_import
    parts = helper.make_graph(nodes, "weights", [], [helper.make_empty_tensor_value_info(n) for n in names], weights)
    numbers = onnx_chains.run(helper.make_model(parts, opset_imports=opsets, ir_version=8), {}, names)
    numbers = [numpy.asarray(one, "f4") for one in numbers]
    lstm = helper.make_node("LSTM", ["x", *names], ["y"])
    lstm.attribute.extend(node.attribute)
    graph = helper.make_graph([lstm], "node", [value("x", ["time", "batch", numbers[0].shape[2]])], [value("y")],
                              [numpy_helper.from_array(one, name) for one, name in zip(numbers, names, strict=True)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), numbers[0].shape[2]


def find_node(graph, path, scopes):
    """The node, and the graphs that it stands in, the outer ones first."""
    for node in graph.node:
        if node.op_type == "LSTM" and path in (node.name, f"{getattr(graph, 'name', '')}::{node.name}"):
            return node, [*scopes, graph]
        for attribute in node.attribute:
            if not attribute.HasField("g"):
                continue
            before = f"{node.name}/{attribute.name}/"
            if path.startswith(before):
                found = find_node(attribute.g, path[len(before):], [*scopes, graph])
                if found:
                    return found
    return None


# --- g2pM: Chinese readings ------------------------------------------------------------------------------------------


def test_g2pm(tmp_path):
    path = file_of("g2pM", "0.1.2.5", "g2pM/np_ckpt.pkl")
    report = sluice.convert(path, tmp_path / "sluice", subgraph="lstm", verify=True)
    assert report.check.agrees
    spec = importlib.util.spec_from_file_location("g2pM", path.parent / "g2pM.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    theirs = module.G2pM.__new__(module.G2pM)
    theirs.load_variable(pickle.loads(path.read_bytes()))
    ids = random().integers(1, len(theirs.embeddings), size=40)
    x = theirs.embeddings[ids]
    forward, backward, states = [], [], [None, None]
    for step in range(len(x)):
        states = [theirs.fw_lstm_cell(x[None, step], states[0]), theirs.bw_lstm_cell(x[None, -1 - step], states[1])]
        forward.append(states[0][0][0])
        backward.append(states[1][0][0])
    assert_same(outputs_of(tmp_path / "sluice", x), numpy.concatenate([forward, backward[::-1]], 1), report.text)


def test_g2pm_as_a_whole_is_refused(tmp_path):
    """It has two linear layers with a relu between them, of which the state dict says nothing."""
    with pytest.raises((NotImplementedError, sluice.Error)):
        sluice.convert(file_of("g2pM", "0.1.2.5", "g2pM/np_ckpt.pkl"), tmp_path / "sluice")


# --- g2p-en: English phonemes ----------------------------------------------------------------------------------------


G2P_METHODS = ("load_variables", "sigmoid", "grucell", "gru", "encode", "predict")


def g2p():
    """The class of g2p.py with its words and weights. An import would download corpora."""
    path = file_of("g2p-en", "2.1.0", "g2p_en/g2p.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (kind,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "G2p"]
    (init,) = [node for node in kind.body if getattr(node, "name", "") == "__init__"]
    init.body = [node for node in init.body if isinstance(node, ast.Assign)
                 and node.targets[0].attr in ("graphemes", "phonemes", "g2idx", "idx2g", "p2idx", "idx2p")]
    kind.body = [init] + [node for node in kind.body if getattr(node, "name", "") in G2P_METHODS]
    kind.bases = []
    names = {"np": numpy, "os": os, "dirname": str(path.parent)}
    exec(compile(ast.Module([kind], []), "g2p.py", "exec"), names)
    theirs = names["G2p"]()
    theirs.load_variables()
    return theirs


def g2p_layer(part, table="layer"):
    return f"""
[[{table}]]
cell = "gru"
gates = "rzn"
weight_ih = "{part}_w_ih"
weight_hh = "{part}_w_hh"
bias_ih = "{part}_b_ih"
bias_hh = "{part}_b_hh"
"""


@pytest.mark.parametrize("part", ["enc", "dec"])
def test_g2p_en(part, tmp_path):
    path = file_of("g2p-en", "2.1.0", "g2p_en/checkpoint20.npz")
    with numpy.load(path) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    output = '[output]\nweight = "fc_w"\nbias = "fc_b"\n' if part == "dec" else ""
    table = tmp_path / "map.toml"
    table.write_text(f'[embedding]\ntable = "{part}_emb"\n' * (part == "dec") + g2p_layer(part) + output, encoding="utf-8")
    kind = "tagger" if part == "dec" else None
    report = sluice.convert(path, tmp_path / "sluice", map=table, kind=kind, verify=True)
    assert report.check.agrees
    table = values[f"{part}_emb"]
    ids = random().integers(len(table), size=25)
    rows = table[ids][None]
    y = g2p().gru(rows, 25, *[values[f"{part}_{name}"] for name in ("w_ih", "w_hh", "b_ih", "b_hh")])[0]
    if part == "dec":
        y = y @ values["fc_w"].T + values["fc_b"]
    given = ids if part == "dec" else rows[0]
    assert_same(features_and_ids(tmp_path / "sluice", given, report.kind), y, report.text)


def test_g2p_en_says_words(tmp_path):
    """The whole model: its encoder reads letters and </s>, and its decoder starts from that state."""
    theirs = g2p()
    table, letters, sounds = (tmp_path / name for name in ("map.toml", "letters.txt", "sounds.txt"))
    table.write_text('[embedding]\ntable = "enc_emb"\n' + g2p_layer("enc") + '[decoder.embedding]\ntable = "dec_emb"\n'
                     + g2p_layer("dec", "decoder.layer") + '[decoder.output]\nweight = "fc_w"\nbias = "fc_b"\n',
                     encoding="utf-8")
    letters.write_text("\n".join(theirs.graphemes) + "\n", encoding="utf-8")
    sounds.write_text("\n".join(theirs.phonemes) + "\n", encoding="utf-8")
    path = file_of("g2p-en", "2.1.0", "g2p_en/checkpoint20.npz")
    report = sluice.convert(path, tmp_path / "sluice", map=table, words=letters, target_words=sounds, pad=0, unknown=1,
                            begin=2, end=3, verify=True)
    assert report.kind == "seq2seq" and report.check.agrees
    draw = random()
    words = "sluice recurrent basecalling phoneme molecule control series speech conversation cached".split()
    words += ["".join(draw.choice(list(string.ascii_lowercase), size=draw.integers(1, 13))) for _ in range(490)]
    model = sluice.load(tmp_path / "sluice")
    answers = model.decode([" ".join([*word, "</s>"]) for word in words], beam=1, nbest=1, max_length=20)
    said = {word: theirs.predict(word) for word in words}
    # An answer that has not ended after 20 sounds is none to Sluice.
    ended = [word for word in words if len(said[word]) < 20]
    assert len(ended) > 450
    for word, answer in zip(words, answers):
        if word in ended:
            assert answer.hypotheses[0].text == " ".join(said[word]), word


# --- textgenrnn: texts by characters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["rnn_1", "rnn_2", "rnn_1,rnn_2"])
def test_textgenrnn(layers, tmp_path):
    import tf_keras as keras

    path = file_of("textgenrnn", "2.0.0", "**/textgenrnn_weights.hdf5")
    report = sluice.convert(path, tmp_path / "sluice", subgraph=layers, verify=True)
    assert report.check.agrees
    # Keras itself converts the weights of CuDNNLSTM. They let rounding grow from step to step, so a second run of Keras
    # in float64 is the reference, and tells how far float32 is away from it.
    def run(x, dtype):
        stack = [keras.layers.LSTM(128, return_sequences=True, name=name, dtype=dtype) for name in layers.split(",")]
        model = keras.Sequential([keras.Input(x.shape, dtype=dtype), *stack])
        model.load_weights(path, by_name=True)
        return model(x.astype(dtype)[None]).numpy()[0]

    x = numpy.tanh(frames(12, 128 if layers == "rnn_2" else 100))
    theirs = run(x, "float64")
    noise = float(numpy.abs(theirs - run(x, "float32")).max())
    assert noise < 1e-3
    assert_same(outputs_of(tmp_path / "sluice", x), theirs, report.text, tolerance=max(1e-5, 8 * noise))


def test_textgenrnn_as_a_whole_is_refused(tmp_path):
    """The file has weights alone, and attention over all layers together."""
    with pytest.raises((NotImplementedError, sluice.Error), match="weights alone"):
        sluice.convert(file_of("textgenrnn", "2.0.0", "**/textgenrnn_weights.hdf5"), tmp_path / "sluice")
