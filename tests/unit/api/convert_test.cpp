#include "sluice/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "api/conversion.h"
#include "api/conversion_check.h"
#include "data/line_reader.h"
#include "interchange/assemble.h"
#include "interchange/model_chain.h"
#include "interchange/write_target.h"
#include "io/checkpoint.h"
#include "sluice/tagger.h"
#include "unit/api/random_layers.h"
#include "unit/interchange/fixtures.h"
#include "unit/interchange/random_cell.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice {
namespace {

using namespace interchange;
using interchange::fixture_path;
using testing::message_of;

/// Assembles the chain, runs the model and compares each layer; returns the kind.
std::string converted(SourceModel source, const AssembleOptions& options = {}) {
  const Assembled made = assemble(source, options);
  const CheckReport report = api::check_conversion(source, made, 3);
  EXPECT_TRUE(report.agrees()) << to_text(report);
  EXPECT_FALSE(report.layers.empty());
  // Compared are numbers, not zeros with zeros.
  for (const LayerCheck& layer : report.layers) EXPECT_GT(layer.scale, 0.01) << layer.name;
  // And back: the model as a chain computes the same.
  const SourceModel back = chain_of_model(made.container, Convention::kTorch);
  EXPECT_GE(back.layers.size(), 1U);
  return made.kind;
}

TEST(Convert, MakesFeaturesOfAnyStack) {
  RandomNumbers random(1);
  for (int i = 0; i < 20; ++i) {
    const auto kind = static_cast<CellKind>(random.between(0, 2));
    const std::int64_t features = random.between(1, 6);
    std::vector<SourceLayer> layers;
    std::int64_t width = features;
    const std::int64_t count = random.between(1, 3);
    for (std::int64_t layer = 0; layer < count; ++layer) {
      RecurrentLayer made{.name = "layer " + std::to_string(layer)};
      const std::int64_t hidden = random.between(1, 7), directions = random.between(1, 3);
      if (directions != 2) made.forward = random_cell(random, kind, width, hidden);
      if (directions != 1) made.backward = random_cell(random, kind, width, hidden);
      width = made.output();
      layers.emplace_back(std::move(made));
    }
    const char* poolings[] = {"none", "last", "mean", "max"};
    const std::string pooling = poolings[random.between(0, 3)];
    if (pooling != "none") layers.emplace_back(PoolingLayer{.name = "pooling", .kind = pooling});
    if (random.coin()) layers.emplace_back(random_linear(random, width, 3, "softmax"));
    SCOPED_TRACE(::testing::Message() << "case " << i << " " << pooling);
    EXPECT_EQ(converted(chain(std::move(layers))), "features");
  }
}

TEST(Convert, FoldsLinearLayersAndScales) {
  RandomNumbers random(2);
  const auto affine = [&](std::int64_t width) {
    return AffineLayer{
        .name = "scale", .scale = random.tensor({width}), .shift = random.tensor({width})};
  };
  const auto lstm = [&](std::int64_t input, std::int64_t hidden) {
    return RecurrentLayer{.name = "lstm",
                          .forward = random_cell(random, CellKind::kLstm, input, hidden),
                          .backward = random_cell(random, CellKind::kLstm, input, hidden)};
  };
  EXPECT_EQ(converted(chain({affine(3), random_linear(random, 3, 4), lstm(4, 5), affine(10),
                             lstm(10, 2), affine(4), PoolingLayer{.name = "p", .kind = "mean"},
                             random_linear(random, 4, 6), random_linear(random, 6, 2)})),
            "features");
}

TEST(Convert, MakesModelsOfTokens) {
  RandomNumbers random(3);
  const auto recurrent = [&](bool backward) {
    RecurrentLayer layer{.name = "gru", .forward = random_cell(random, CellKind::kGru, 4, 5)};
    if (backward) layer.backward = random_cell(random, CellKind::kGru, 4, 5);
    return layer;
  };
  EXPECT_EQ(converted(chain(
                {random_embedding(random, 9, 4), recurrent(false), random_linear(random, 5, 9)})),
            "language_model");
  EXPECT_EQ(converted(chain({random_embedding(random, 9, 4), recurrent(false),
                             random_linear(random, 5, 9)}),
                      {.kind = "tagger"}),
            "tagger");
  EXPECT_EQ(converted(chain({random_embedding(random, 9, 4), recurrent(true),
                             random_linear(random, 10, 3),
                             CrfLayer{.name = "crf",
                                      .transitions = random.tensor({3, 3}),
                                      .start = random.tensor({3}),
                                      .end = random.tensor({3})}})),
            "tagger");
  EXPECT_EQ(converted(chain({random_embedding(random, 9, 4), recurrent(true),
                             PoolingLayer{.name = "last", .kind = "last"},
                             random_linear(random, 10, 1, "sigmoid")}),
                      {.pad = 0, .unknown = 1}),
            "classifier");
}

TEST(Convert, MakesLanguageModelsOfUnequalLayers) {
  RandomNumbers random(8);
  const auto projected = [&](std::int64_t input, std::int64_t hidden, std::int64_t output) {
    SourceCell cell = random_cell(random, CellKind::kLstm, input, hidden);
    cell.output = output;
    cell.tensors["weight_hh"] = random.tensor({4 * hidden, output});
    cell.tensors["weight_hr"] = random.tensor({output, hidden});
    return RecurrentLayer{.name = "lstm", .forward = cell};
  };
  const auto gru = [&](std::int64_t input, std::int64_t hidden) {
    return RecurrentLayer{.name = "gru",
                          .forward = random_cell(random, CellKind::kGru, input, hidden)};
  };
  EXPECT_EQ(converted(chain({random_embedding(random, 9, 4), gru(4, 6), gru(6, 3), gru(3, 5),
                             random_linear(random, 5, 9)})),
            "language_model");
  EXPECT_EQ(converted(chain({random_embedding(random, 9, 4), projected(4, 7, 3), projected(3, 5, 4),
                             random_linear(random, 4, 9)})),
            "language_model");
}

TEST(Convert, RefusesToWidenManyNarrowLayers) {
  RandomNumbers random(10);
  std::vector<SourceLayer> layers{random_embedding(random, 9, 4)};
  const auto add = [&](std::int64_t input, std::int64_t units) {
    layers.push_back(RecurrentLayer{.name = "gru",
                                    .forward = random_cell(random, CellKind::kGru, input, units)});
  };
  add(4, 200);
  add(200, 1);
  for (int i = 0; i < 180; ++i) add(1, 1);
  layers.push_back(random_linear(random, 1, 9));
  SourceModel source = chain(std::move(layers));
  EXPECT_NE(message_of([&] { assemble(source, {}); }).find("as wide as the widest"),
            std::string::npos);
}

TEST(Convert, GivesIdsTheirTexts) {
  RandomNumbers random(4);
  SourceModel source =
      chain({random_embedding(random, 5, 4),
             RecurrentLayer{.name = "lstm", .forward = random_cell(random, CellKind::kLstm, 4, 3)},
             random_linear(random, 3, 2)});
  const Assembled made = assemble(
      source, {.words = {"<pad>", "the", "cat", "a b", "cat"}, .labels = {"X", "Y"}, .pad = 0});
  EXPECT_EQ(made.ids, (std::vector<std::int32_t>{0, 4, 5, 6, 7}));
  const SourceModel back = chain_of_model(made.container, Convention::kTorch);
  EXPECT_EQ(back.pieces[4], "the");
  EXPECT_EQ(back.pieces[6], "<id2>");
  EXPECT_EQ(back.labels, (std::vector<std::string>{"X", "Y"}));
}

TEST(Convert, RefusesChainsThatNoModelHolds) {
  RandomNumbers random(5);
  const auto lstm = [&](std::int64_t input) {
    return RecurrentLayer{.name = "lstm",
                          .forward = random_cell(random, CellKind::kLstm, input, 3)};
  };
  const auto message = [&](std::vector<SourceLayer> layers) {
    SourceModel source = chain(std::move(layers));
    return message_of([&] { assemble(source, {}); });
  };
  EXPECT_EQ(
      message({lstm(2), random_linear(random, 3, 3, "relu"), lstm(3)}),
      "'x': layer 'lstm' stands behind the layer 'linear', which can only be the last one in "
      "Sluice; take the recurrent part alone, with --subgraph and the name of a recurrent layer");
  EXPECT_EQ(message({lstm(2), random_linear(random, 3, 3, "relu")}),
            "'x': layer 'linear' ends with relu; Sluice's models end with linear outputs or a "
            "softmax");
  EXPECT_EQ(
      message({lstm(2), RecurrentLayer{.name = "gru",
                                       .forward = random_cell(random, CellKind::kGru, 3, 3)}}),
      "layer 'lstm' is lstm and layer 'gru' is gru; a stack of Sluice has one cell");
  EXPECT_EQ(message({random_linear(random, 3, 3)}), "'x' has no recurrent layer");
}

TEST(Convert, WritesWholeModelsOrNothing) {
  const testing::TemporaryFolder folder;
  const std::string target = (folder.path() / "model").native();
  ConvertRequest request{.source = fixture_path("torch/lstm_tagger.pt").native(), .target = target};
  request.verify = true;
  const ConvertReport report = convert(request);
  EXPECT_EQ(report.kind, "tagger");
  ASSERT_TRUE(report.check.has_value());
  EXPECT_TRUE(report.check->agrees());
  EXPECT_NE(message_of([&] { convert(request); }), "");  // it is there already

  ConvertRequest back{.source = target, .target = target + ".pt", .to = "torch"};
  back.verify = true;
  convert(back);
  EXPECT_TRUE(std::filesystem::exists(target + ".pt.words.txt"));
  request.source = target + ".pt";
  request.target = (folder.path() / "again").native();
  EXPECT_EQ(convert(request).layers,
            (std::vector<std::string>{
                "embedding: embedding 15 ids -> 5", "recurrent.l0: LSTM 5 -> 4, both directions",
                "recurrent.l1: LSTM 8 -> 4, both directions", "output: linear 8 -> 3"}));
  EXPECT_EQ(message_of([&] { convert({.source = target, .target = "", .to = "sluice"}); }),
            "'" + target + "' is a model of Sluice already; say by --to what to make of it");
}

TEST(Convert, RefusesOptionsThatHaveNoUse) {
  const std::string tagger = fixture_path("torch/lstm_tagger.pt").native();
  const std::string features = fixture_path("torch/projected_lstm.pt").native();
  const auto message = [](const ConvertRequest& request) {
    return message_of([&] { convert(request); });
  };
  EXPECT_NE(message({.source = tagger, .target = "x.onnx"}).find("say --to onnx"),
            std::string::npos);
  EXPECT_NE(message({.source = features, .target = "", .pad = 0}).find("reads numbers, not ids"),
            std::string::npos);
  EXPECT_NE(message({.source = features, .target = "", .labels = features}), "");
  EXPECT_EQ(message({.source = tagger, .target = "", .begin = 2}),
            "--begin and --end mark the texts that a model writes, and a tagger writes none: leave "
            "them out, and the ids stay ordinary words");
}

/// A vocabulary and labels beside an export are taken, and its special ids are what they were.
TEST(Convert, TakesTheWordsBesideASource) {
  const testing::TemporaryFolder folder;
  const std::string words = folder.write("words", "the\ncat\nsat\na\nb\nc\nd\ne\nf\ng\nh\n");
  const std::string first = (folder.path() / "first").native();
  convert({.source = fixture_path("torch/lstm_tagger.pt").native(),
           .target = first,
           .words = words,
           .labels = folder.write("labels", "O\nB-PER\nI-PER\n")});
  convert({.source = first, .target = first + ".onnx", .to = "onnx"});
  const std::string second = (folder.path() / "second").native();
  const ConvertReport report =
      convert({.source = first + ".onnx", .target = second, .kind = "tagger"});
  ASSERT_GE(report.found.size(), 2U);
  EXPECT_EQ(report.found[report.found.size() - 2], "the texts in '" + first + ".onnx.words.txt'");
  EXPECT_EQ(report.found.back(), "the texts of ids are words: each token is an id");
  EXPECT_EQ(io::read_model(second).blobs, io::read_model(first).blobs);
}

/// Bytes of all files below a folder that are those of the number become those of its negative.
int negate_in_files(const std::filesystem::path& folder, float number) {
  int found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const std::string pattern(reinterpret_cast<const char*>(&number), sizeof(number));
    for (std::size_t at = bytes.find(pattern); at != std::string::npos;
         at = bytes.find(pattern, at + 1)) {
      bytes[at + 3] = static_cast<char>(bytes[at + 3] ^ '\x80');
      ++found;
    }
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  return found;
}

const std::pair<const char*, const char*> kTargets[]{
    {"sluice", "x"},   {"torch", "x.pt"},    {"torch", "x.safetensors"},
    {"keras", "x.h5"}, {"keras", "x.keras"}, {"tf1", "x.ckpt"},
    {"pb", "x.pb"},    {"savedmodel", "x"},  {"onnx", "x.onnx"},
    {"cudnn", "x.npz"}};

ConvertRequest verified(const std::string& source, const std::filesystem::path& target,
                        const std::string& to) {
  ConvertRequest request{.source = source, .target = target.native(), .to = to};
  request.verify = true;
  return request;
}

TEST(Convert, ProvesTheFilesThatItWrites) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "model").native();
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  convert({.source = source, .target = model});
  for (const auto& [to, file] : kTargets) {
    for (const std::string& from : {source, model}) {
      if (to == std::string("sluice") && from == model) continue;
      SCOPED_TRACE(::testing::Message() << from << " to " << file);
      const testing::TemporaryFolder out;
      const ConvertReport report = convert(verified(from, out.path() / file, to));
      ASSERT_TRUE(report.check.has_value());
      EXPECT_TRUE(report.check->agrees());
      EXPECT_EQ(report.written.has_value(), to != std::string("sluice"));
      EXPECT_LT(report.written.value_or(0), 1e-6);
    }
  }
}

/// A bit of a weight that changes on its way to the disk.
TEST(Convert, KeepsNoFileWithAnotherWeight) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "model").native();
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  convert({.source = source, .target = model});
  const io::Container made = io::read_model(model);
  const float weight = made.tensors.find("recurrent.weight_hh_l0")->values<float>()[3];
  for (const auto& [to, file] : kTargets) {
    SCOPED_TRACE(file);
    const testing::TemporaryFolder out;
    int negated = 0;
    const std::string message = message_of([&, name = file, format = to] {
      api::run_conversion(verified(source, out.path() / name, format), [&](const auto& path) {
        negated = negate_in_files(path.parent_path(), weight);
      });
    });
    // A checkpoint runs, and then the difference may be the conversion's as well.
    const char* expected = to == std::string("sluice")
                               ? " of the model of Sluice, float32 on the CPU differs from"
                               : "what was written is not what was read, and is removed: ";
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find(".sluice-"), std::string::npos) << message;
    EXPECT_GT(negated, 0);
    EXPECT_TRUE(std::filesystem::is_empty(out.path()));
  }
}

/// A packed buffer says nothing about itself, so its map is proved as well.
TEST(Convert, KeepsNoPackedBufferWithAnotherMap) {
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  const std::pair<const char*, const char*> damages[]{{"hidden = 4", "hidden = 5"},
                                                      {"directions = 2", "directions = 1"},
                                                      {"cell = \"lstm\"", "cell = \"gru\""},
                                                      {"\"weights\"", "\"weight\""}};
  for (const auto& [was, is] : damages) {
    SCOPED_TRACE(is);
    const testing::TemporaryFolder out;
    const std::string target = (out.path() / "x.npz").native();
    const std::string message = message_of([&, from = std::string(was), to = std::string(is)] {
      api::run_conversion(verified(source, target, "cudnn"), [&](const auto& path) {
        std::ifstream file(path.native() + ".toml");
        std::string map{std::istreambuf_iterator<char>(file), {}};
        const std::size_t at = map.find(from);
        ASSERT_NE(at, std::string::npos) << map;
        std::ofstream(path.native() + ".toml") << map.replace(at, from.size(), to);
      });
    });
    EXPECT_TRUE(message.starts_with("what was written is not what was read, and is removed: "))
        << message;
    EXPECT_EQ(message.find(".sluice-"), std::string::npos) << message;
    EXPECT_TRUE(std::filesystem::is_empty(out.path()));
  }
}

TEST(Convert, NamesTheFilesThatItWrites) {
  const testing::TemporaryFolder folder;
  const std::string target = (folder.path() / "x.npz").native();
  const ConvertRequest request =
      verified(fixture_path("torch/lstm_tagger.pt").native(), target, "cudnn");
  const ConvertReport report = convert(request);
  EXPECT_EQ(report.files, (std::vector<std::string>{target, target + ".toml", target + ".words.txt",
                                                    target + ".labels.txt"}));
  EXPECT_EQ(to_text(report).find(".sluice-"), std::string::npos) << to_text(report);
  std::filesystem::remove(target);
  EXPECT_EQ(message_of([&] { convert(request); }),
            "'" + target + ".toml' is there already; name another file");
}

TEST(Convert, SaysWhatAPartOfAModelLeavesOut) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "model").native();
  convert({.source = fixture_path("torch/lstm_tagger.pt").native(), .target = model});
  EXPECT_EQ(
      convert({.source = model, .target = "", .to = "onnx", .subgraph = "recurrent"}).left_out,
      (std::vector<std::string>{"the layer 'embedding'", "the layer 'output'"}));
  EXPECT_EQ(message_of([&] {
              convert({.source = model,
                       .target = model + ".onnx",
                       .to = "onnx",
                       .verify_with = "onnxruntime"});
            }),
            "--verify-with has the program run the source, and '" + model +
                "' is a model of Sluice: convert without it, then run: sluice convert " + model +
                ".onnx --verify-with onnxruntime");
}

/// A writer whose table of gates is wrong: its file is whole, and its reader has no complaint.
TEST(Convert, KeepsNoFileWithGatesInAnotherOrder) {
  const testing::TemporaryFolder folder;
  const std::string model = (folder.path() / "model").native();
  const std::string source = fixture_path("torch/lstm_tagger.pt").native();
  convert({.source = source, .target = model});
  const auto swap_columns = [](SourceCell& cell, const char* name) {
    io::HostTensor& tensor = cell.tensors.at(name);
    const auto values = tensor.values<float>();
    const std::int64_t columns = tensor.shape[1], gate = columns / 4;
    for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
      for (std::int64_t i = 0; i < gate; ++i) {
        std::swap(values[static_cast<std::size_t>(row * columns + i)],
                  values[static_cast<std::size_t>(row * columns + gate + i)]);
      }
    }
  };
  for (const auto& [to, file, names] :
       {std::tuple<const char*, const char*, std::vector<const char*>>{
            "keras", "x.h5", {"kernel", "recurrent_kernel"}},
        {"tf1", "x.ckpt", {"kernel"}},
        {"pb", "x.pb", {"kernel"}}}) {
    SCOPED_TRACE(file);
    Export exported = export_model(io::read_model(model), to, "");
    for (SourceLayer& layer : exported.chain.layers) {
      auto* recurrent = std::get_if<RecurrentLayer>(&layer);
      if (recurrent == nullptr) continue;
      for (const char* name : names) swap_columns(*recurrent->forward, name);
      break;
    }
    const testing::TemporaryFolder out;
    const std::string message = message_of([&, name = file, format = to] {
      api::run_conversion(verified(source, out.path() / name, format), [&](const auto& path) {
        for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
          std::filesystem::remove_all(entry.path());
        }
        write_target(exported, format, path);
      });
    });
    EXPECT_NE(message.find("differs from the equations of"), std::string::npos) << message;
    EXPECT_TRUE(std::filesystem::is_empty(out.path()));
  }
}

TEST(Convert, RefusesAnswersBeforeItReadsTheFile) {
  const testing::TemporaryFolder folder;
  // Only the first bytes are those of a model.
  const std::string source = folder.write("model.h5", "\x89HDF\r\n\x1a\n");
  EXPECT_EQ(
      message_of([&] { convert({.source = source, .target = "", .answers = {"reset_aftr=1"}}); }),
      "a Keras file does not ask for 'reset_aftr'; it may ask for: activation, "
      "hard_sigmoid_slope, recurrent_activation, reset_after; did you mean 'reset_after'?");
  EXPECT_EQ(message_of([&] {
              convert({.source = fixture_path("torch/lstm_tagger.pt").native(),
                       .target = "",
                       .answers = {"nonlinearity=relu"}});
            }).substr(0, 53),
            "this source does not ask for 'nonlinearity'; it asks ");
}

/// Its words may be characters: it is given them one by one all the same.
TEST(Convert, MakesTaggersOfCharacters) {
  const testing::TemporaryFolder folder;
  const std::string words = folder.write("words", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n");
  const std::string target = (folder.path() / "model").native();
  convert(
      {.source = fixture_path("torch/lstm_tagger.pt").native(), .target = target, .words = words});
  Tagger tagger = Tagger::load(target);
  const std::vector<std::vector<std::string>> sentences{{"a", "b", "k"}};
  const std::vector<TaggedSentence> tagged = tagger.tag(sentences);
  EXPECT_EQ(tagged.at(0).labels.size(), 3U);
}

TEST(Convert, ReadsArraysByAMap) {
  const testing::TemporaryFolder folder;
  const std::string map = (folder.path() / "names.toml").native();
  ConvertRequest request{.source = fixture_path("arrays/gates_apart.npz").native(), .target = ""};
  request.map = map;
  request.verify = true;
  std::ofstream(map) << R"([[layer]]
cell = "lstm"
gates = "ifgo"
transposed = true
weight_ih = ["W_i", "W_f", "W_c", "W_o"]
weight_hh = ["U_i", "U_f", "U_c", "U_o"]
bias_ih = ["b_i", "b_f", "b_c", "b_o"]
forget_bias = 1.0
[pooling]
kind = "last"
[output]
weight = "fc"
transposed = true
)";
  const ConvertReport report = convert(request);
  EXPECT_TRUE(report.check->agrees());
  EXPECT_EQ(report.left_out, (std::vector<std::string>{"'unused', which the map does not name"}));

  std::ofstream(map) << "[[layer]]\ncell = \"lstm\"\ngates = \"ifoo\"\n";
  EXPECT_EQ(message_of([&] { convert(request); }),
            "'" + map +
                "' line 3: gates is 'ifoo'; give the letters i (input), f (forget), g (candidate, "
                "Keras's c) and o (output) in the order in which the arrays have them");
  std::ofstream(map) << "[[layer]]\ncell = \"gru\"\n";
  EXPECT_EQ(message_of([&] { convert(request); }),
            "'" + map +
                "' line 1: 'gates' is missing here; give the letters r (reset), z (update) and n "
                "(candidate) in the order in which the arrays have them");
  std::ofstream(map) << "[[layer]]\ncell = \"rnn_tanh\"\nweight_ih = \"W\"\n";
  EXPECT_NE(message_of([&] { convert(request); }).find("has no array 'W'; it has: "),
            std::string::npos);
  std::ofstream(map) << "[[layer]]\ncel = \"lstm\"\n";
  EXPECT_NE(message_of([&] { convert(request); }).find("line 2: there is no key 'cel'"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice
