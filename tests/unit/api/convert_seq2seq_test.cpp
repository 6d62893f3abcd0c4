#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/line_reader.h"
#include "interchange/assemble.h"
#include "sluice/convert.h"
#include "sluice/sequence_model.h"
#include "unit/api/random_layers.h"
#include "unit/interchange/fixtures.h"
#include "unit/support/message_of.h"
#include "unit/support/temporary_folder.h"

namespace sluice {
namespace {

using namespace interchange;
using testing::message_of;

/// The map of the encoder-decoder that fixtures/make_arrays.py writes.
constexpr const char* kEncoderDecoder = R"([embedding]
table = "enc_emb.weight"
[[layer]]
cell = "lstm"
gates = "ifgo"
weight_ih = "enc.weight_ih_l0"
weight_hh = "enc.weight_hh_l0"
bias_ih = "enc.bias_ih_l0"
bias_hh = "enc.bias_hh_l0"
[layer.backward]
weight_ih = "enc.weight_ih_l0_reverse"
weight_hh = "enc.weight_hh_l0_reverse"
bias_ih = "enc.bias_ih_l0_reverse"
bias_hh = "enc.bias_hh_l0_reverse"
[[layer]]
cell = "lstm"
gates = "ifgo"
weight_ih = "enc.weight_ih_l1"
weight_hh = "enc.weight_hh_l1"
bias_ih = "enc.bias_ih_l1"
bias_hh = "enc.bias_hh_l1"
[layer.backward]
weight_ih = "enc.weight_ih_l1_reverse"
weight_hh = "enc.weight_hh_l1_reverse"
bias_ih = "enc.bias_ih_l1_reverse"
bias_hh = "enc.bias_hh_l1_reverse"
[decoder.embedding]
table = "dec_emb.weight"
[[decoder.layer]]
cell = "lstm"
gates = "ifgo"
weight_ih = "dec.weight_ih_l0"
weight_hh = "dec.weight_hh_l0"
bias_ih = "dec.bias_ih_l0"
bias_hh = "dec.bias_hh_l0"
[[decoder.layer]]
cell = "lstm"
gates = "ifgo"
weight_ih = "dec.weight_ih_l1"
weight_hh = "dec.weight_hh_l1"
bias_ih = "dec.bias_ih_l1"
bias_hh = "dec.bias_hh_l1"
[decoder.output]
weight = "fc.weight"
bias = "fc.bias"
)";

TEST(ConvertSeq2Seq, AnswersAsAnEncoderDecoderOfTorch) {
  const testing::TemporaryFolder folder;
  const std::string map = (folder.path() / "names.toml").native();
  const std::string made = (folder.path() / "model").native();
  std::ofstream(map) << kEncoderDecoder;
  const ConvertReport report = convert({.source = fixture_path("arrays/encoder_decoder.npz"),
                                        .target = made,
                                        .begin = 2,
                                        .end = 3,
                                        .map = map,
                                        .verify = true});
  EXPECT_EQ(report.kind, "seq2seq");
  EXPECT_EQ(report.check->layers.size(), 5U);
  EXPECT_TRUE(report.check->agrees());
  EXPECT_TRUE(report.left_out.empty());

  std::vector<std::string> inputs;
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<double> scores;
  for (const std::string& line : data::read_lines(fixture_path("arrays/encoder_decoder.tsv"))) {
    std::istringstream fields(line);
    std::string read, written, score;
    std::getline(fields, read, '\t');
    std::getline(fields, written, '\t');
    std::getline(fields, score);
    inputs.push_back(read);
    pairs.emplace_back(read, written);
    scores.push_back(std::stod(score));
  }
  ASSERT_EQ(inputs.size(), 12U);
  SequenceModel model = SequenceModel::load(made, {.device = "cpu"});
  DecodeOptions greedy;
  greedy.beam = greedy.nbest = 1;
  const std::vector<Decoded> answers = model.decode(inputs, greedy);
  const std::vector<Scored> scored = model.score(pairs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(answers[i].hypotheses.front().text, pairs[i].second) << inputs[i];
    EXPECT_NEAR(scored[i].log_probability, scores[i], 1e-5) << inputs[i];
  }
  greedy.attention = true;
  EXPECT_NE(message_of([&] { model.decode(inputs, greedy); }).find("there is no attention to show"),
            std::string::npos);
}

TEST(ConvertSeq2Seq, TakesNoIdsOfADecoderFromWordsBesideIt) {
  const testing::TemporaryFolder folder;
  const std::string map = folder.write("names.toml", kEncoderDecoder);
  const auto source = folder.path() / "model.npz";
  std::filesystem::copy_file(fixture_path("arrays/encoder_decoder.npz"), source);
  std::string words = "<pad>\n<unk>\n<s>\n</s>\n";
  for (const char letter : std::string("abcdefgh")) words += std::string(1, letter) + "\n";
  folder.write("model.npz.words.txt", words);
  ConvertRequest request{.source = source.native(), .target = ""};
  request.map = map;
  const ConvertReport report = convert(request);
  EXPECT_NE(std::ranges::find(report.found, "the texts in '" + source.native() + ".words.txt'"),
            report.found.end());
  const auto assumes = [&](const char* begin) {
    return std::ranges::any_of(report.assumed,
                               [&](const std::string& line) { return line.starts_with(begin); });
  };
  EXPECT_TRUE(assumes("no id begins an answer"));
  EXPECT_TRUE(assumes("no id ends an answer"));
}

TEST(ConvertSeq2Seq, RefusesADecoderThatDoesNotFitItsEncoder) {
  RandomNumbers random(7);
  const auto made_with = [&](std::vector<SourceLayer> decoder, AssembleOptions options = {}) {
    SourceModel source = chain(
        {random_embedding(random, 7, 3),
         RecurrentLayer{.name = "encoder", .forward = random_cell(random, CellKind::kGru, 3, 4)}});
    source.path = "file";
    source.decoder = std::move(decoder);
    return message_of([&] { assemble(source, options); });
  };
  const auto layer = [&](CellKind kind, std::int64_t units) {
    return RecurrentLayer{.name = "decoder", .forward = random_cell(random, kind, 3, units)};
  };
  EXPECT_EQ(
      made_with(
          {random_embedding(random, 6, 3), layer(CellKind::kGru, 5), random_linear(random, 5, 6)}),
      "'file': its encoder has 4 units and embeddings of 3 numbers, its decoder 5 and 3; those "
      "of a seq2seq are equal");
  EXPECT_EQ(
      made_with(
          {random_embedding(random, 6, 3), layer(CellKind::kLstm, 4), random_linear(random, 4, 6)}),
      "'file': its encoder is of gru cells and its decoder of lstm; those of a seq2seq are of "
      "one kind");
  EXPECT_EQ(made_with({random_embedding(random, 6, 3), layer(CellKind::kGru, 4),
                       random_linear(random, 4, 5)}),
            "'file' has 5 outputs for 6 ids that it writes");
  EXPECT_EQ(made_with({random_embedding(random, 6, 3), layer(CellKind::kGru, 4),
                       random_linear(random, 4, 6)},
                      {.kind = "tagger"}),
            "'file' has a decoder, so it can't be a tagger; leave out --kind, or the decoder");
}

TEST(ConvertSeq2Seq, RefusesEncodersWhoseStatesDoNotFitADecoder) {
  RandomNumbers random(9);
  const auto layer = [&](std::int64_t input, bool forward, bool backward) {
    RecurrentLayer made{.name = "gru"};
    if (forward) made.forward = random_cell(random, CellKind::kGru, input, 4);
    if (backward) made.backward = random_cell(random, CellKind::kGru, input, 4);
    return made;
  };
  const auto refusal = [&](std::vector<SourceLayer> encoder, std::int64_t units) {
    encoder.insert(encoder.begin(), random_embedding(random, 7, 3));
    SourceModel source = chain(std::move(encoder));
    source.path = "file";
    source.decoder = {
        random_embedding(random, 6, 3),
        RecurrentLayer{.name = "decoder", .forward = random_cell(random, CellKind::kGru, 3, units)},
        random_linear(random, units, 6)};
    return message_of([&] { assemble(source, {}); });
  };
  const std::string mixed =
      "'file': the layers of the encoder of a seq2seq all run forward, or all in both directions";
  EXPECT_EQ(refusal({layer(3, true, false), layer(4, true, true)}, 8), mixed);
  EXPECT_EQ(refusal({layer(3, true, true), layer(8, true, false)}, 8), mixed);
  EXPECT_EQ(refusal({layer(3, false, true)}, 4), mixed);
  EXPECT_EQ(refusal({layer(3, true, false), layer(4, true, false)}, 4),
            "'file': its encoder has 2 recurrent layers and its decoder 1; layer l of a decoder "
            "starts from layer l of its encoder, so the others would do nothing");
}

}  // namespace
}  // namespace sluice
