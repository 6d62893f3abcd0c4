#include "interchange/paddle/paddle_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "interchange/evaluate/evaluate.h"
#include "interchange/folded_chain.h"
#include "interchange/read_source.h"
#include "interchange/source_format.h"
#include "io/npy.h"
#include "unit/interchange/fixtures.h"
#include "unit/interchange/random_cell.h"
#include "unit/io/temporary_folder.h"
#include "unit/support/message_of.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using testing::message_of;

// Paddle computes in float32.
constexpr double kTolerance = 2e-6;

fs::path fixture(const std::string& name) { return fixture_path("paddle/" + name); }

Sequence sequence_of(const io::NpyArray& array) {
  const std::int64_t width = array.shape.back();
  Sequence sequence = make_sequence(array.element_count() / width, width);
  std::ranges::copy(array.floats, sequence.values.begin());
  return sequence;
}

/// evaluate() gives logits where the model has a softmax.
void apply_softmax(const SourceModel& model, Sequence& output) {
  const auto* last = std::get_if<LinearLayer>(&model.layers.back());
  if (last == nullptr || !last->activation.is("softmax")) return;
  for (std::int64_t step = 0; step < output.steps; ++step) {
    double total = 0;
    for (std::int64_t i = 0; i < output.width; ++i) total += std::exp(output.row(step)[i]);
    for (std::int64_t i = 0; i < output.width; ++i) {
      output.row(step)[i] = std::exp(output.row(step)[i]) / total;
    }
  }
}

/// The last layer's output for the fixture's input.
Sequence run(const SourceModel& model, const std::string& name) {
  const io::NpyArray input = io::read_npy(fixture(name + ".in.npy"));
  const auto outputs =
      input.is_integer ? evaluate(model, input.integers) : evaluate(model, sequence_of(input));
  Sequence output = outputs.back().value;
  apply_softmax(model, output);
  return output;
}

ReadOptions subgraph(std::string name) {
  ReadOptions options;
  options.subgraph = std::move(name);
  return options;
}

ReadOptions with(std::string_view answer) {
  ReadOptions options;
  options.answer(answer);
  return options;
}

bool has(const std::vector<std::string>& lines, std::string_view text) {
  return std::ranges::any_of(
      lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

void expect_refused(const std::string& name, std::string_view says,
                    const ReadOptions& options = {}) {
  const std::string message = message_of([&] { read_paddle(fixture(name), options); });
  EXPECT_NE(message.find(says), std::string::npos) << name << ": " << message;
}

class PaddleFixtures : public ::testing::TestWithParam<std::string> {};

/// The source's equations, and the same model in Sluice's form, give what Paddle gave.
TEST_P(PaddleFixtures, GiveWhatTheyGiveInPaddle) {
  const SourceModel model = read_paddle(fixture(GetParam()), {});
  const Sequence expected = sequence_of(io::read_npy(fixture(GetParam() + ".out.npy")));
  EXPECT_LT(largest_difference(run(model, GetParam()), expected), kTolerance);
  EXPECT_LT(largest_difference(run(in_torch_convention(model), GetParam()), expected), kTolerance);
  EXPECT_NO_THROW(fold(model));
}

/// All models with an expected output.
std::vector<std::string> fixtures() {
  std::set<std::string> names;
  const std::string end = ".out.npy";
  for (const auto& entry : fs::directory_iterator(fixture(""))) {
    const std::string name = entry.path().filename();
    if (name.ends_with(end)) names.insert(name.substr(0, name.size() - end.size()));
  }
  return {names.begin(), names.end()};
}

INSTANTIATE_TEST_SUITE_P(Paddle, PaddleFixtures, ::testing::ValuesIn(fixtures()),
                         [](const auto& tested) { return tested.param; });

TEST(PaddleReader, SaysWhatItFound) {
  const SourceModel model = read_paddle(fixture("gru_crf"), {});
  EXPECT_TRUE(has(model.account.found, "Paddle 1.8.5, its parameters in a file for each"));
  EXPECT_TRUE(has(model.account.found, "feed 'ids'"));
  EXPECT_TRUE(has(model.account.found, "is_reverse=1, origin_mode=0, so h' = (1 - u) h + u c"));
  EXPECT_TRUE(has(model.account.found, "padding_idx=3, so the id's vector is zero"));
  EXPECT_TRUE(has(model.account.found, "crfw: the scores of 3 labels at the start (row 0)"));
  ASSERT_EQ(model.layers.size(), 5u);
  EXPECT_EQ(name_of(model.layers[0]), "embedding_0");
  EXPECT_EQ(name_of(model.layers[1]), "gru_0+gru_1");
  EXPECT_EQ(std::get<RecurrentLayer>(model.layers[2]).input(), 8);
  EXPECT_EQ(name_of(model.layers[3]), "fc_4");
  const SourceModel other = read_paddle(fixture("gru_origin"), {});
  EXPECT_TRUE(has(other.account.found, "its parameters in the file 'params'"));
  EXPECT_TRUE(has(other.account.found, "origin_mode=1, so h' = u h + (1 - u) c"));
  EXPECT_TRUE(has(read_paddle(fixture("lstm_plain"), {}).account.found,
                  "dropout_implementation=downgrade_in_infer, so its input is times 0.75"));
  EXPECT_TRUE(has(read_paddle(fixture("lstm_peepholes"), {}).account.found,
                  "use_peepholes=1, those of i f o behind the bias"));
  EXPECT_TRUE(has(read_paddle(fixture("gru_final"), {}).account.found, "takes the final step"));
}

/// The labels with the largest score, by trying all.
std::vector<std::int64_t> best_path(const CrfLayer& crf, const Sequence& scores) {
  const std::int64_t labels = scores.width;
  const auto start = crf.start.values<float>(), end = crf.end.values<float>();
  const auto transitions = crf.transitions.values<float>();
  std::vector<std::int64_t> path(static_cast<std::size_t>(scores.steps)), best;
  double most = -HUGE_VAL;
  for (bool is_more = true; is_more;) {
    double sum =
        start[static_cast<std::size_t>(path.front())] + end[static_cast<std::size_t>(path.back())];
    for (std::int64_t step = 0; step < scores.steps; ++step) {
      const std::int64_t label = path[static_cast<std::size_t>(step)];
      sum += scores.row(step)[label];
      if (step == 0) continue;
      const std::int64_t before = path[static_cast<std::size_t>(step - 1)];
      sum += transitions[static_cast<std::size_t>(before * labels + label)];
    }
    if (sum > most) best = path;
    most = std::max(most, sum);
    std::size_t digit = 0;
    while (digit < path.size() && ++path[digit] == labels) path[digit++] = 0;
    is_more = digit < path.size();
  }
  return best;
}

TEST(PaddleReader, ReadsTheTransitionsThatPaddleDecodesBy) {
  const SourceModel model = read_paddle(fixture("gru_crf"), {});
  EXPECT_EQ(best_path(std::get<CrfLayer>(model.layers.back()), run(model, "gru_crf")),
            io::read_npy(fixture("gru_crf.path.npy")).integers);
}

TEST(PaddleReader, TakesAnotherOutput) {
  const SourceModel model = read_paddle(fixture("gru_crf"), with("output=concat_0.tmp_0"));
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(name_of(model.layers[1]), "gru_0+gru_1");
  expect_refused("gru_crf", "no operation that is read puts out 'nothing'", with("output=nothing"));
  expect_refused("gru_crf", "has no gru or lstm before 'embedding_0.tmp_0'",
                 with("output=embedding_0.tmp_0"));
}

TEST(PaddleReader, TakesARecurrentLayerAlone) {
  for (const char* name : {"gru_0", "gru_1", "gru_0+gru_1", "gru_0.w_0", "gru_1.b_0", "gru_0.tmp_0",
                           "concat_0.tmp_0"}) {
    const SourceModel model = read_paddle(fixture("gru_crf"), subgraph(name));
    ASSERT_EQ(model.layers.size(), 2u) << name;
    EXPECT_EQ(name_of(model.layers[0]), "gru_0+gru_1");
    EXPECT_EQ(name_of(model.layers[1]), "gru_2+gru_3");
    EXPECT_TRUE(has(model.account.left_out, "all but the recurrent layers"));
  }
  ASSERT_EQ(read_paddle(fixture("gru_crf"), subgraph("gru_2.w_0")).layers.size(), 1u);
  expect_refused("gru_crf", "has no gru or lstm 'gru_9'; it has: 'gru_0', 'gru_1'",
                 subgraph("gru_9"));
  // What is around it may be of any kind.
  EXPECT_EQ(read_paddle(fixture("refused_operation"), subgraph("gru_0")).layers.size(), 1u);
  EXPECT_EQ(read_paddle(fixture("refused_skip"), subgraph("lstm_0")).layers.size(), 1u);
  EXPECT_EQ(read_paddle(fixture("refused_order"), subgraph("concat_0.tmp_0")).layers.size(), 1u);
  expect_refused("refused_start", "has the input 'H0'", subgraph("gru_0"));
}

/// The layer alone computes what it does in the model.
TEST(PaddleReader, ALayerAloneGivesWhatItGivesInTheModel) {
  const SourceModel model = read_paddle(fixture("lstm_peepholes"), subgraph("lstm_0"));
  const Sequence expected = sequence_of(io::read_npy(fixture("lstm_peepholes.out.npy")));
  EXPECT_LT(largest_difference(run(model, "lstm_peepholes"), expected), kTolerance);
}

TEST(PaddleReader, RefusesByName) {
  expect_refused("refused_operation",
                 "operations that Sluice does not read: 'sequence_conv'; "
                 "--subgraph NAME takes a recurrent layer alone: 'gru_0'");
  expect_refused("refused_relu",
                 "operation gru ('gru_0.tmp_0') reads 'fc_0.tmp_2', which has the "
                 "activation relu");
  expect_refused("refused_skip", "the outputs 'fc_0.tmp_1', 'lstm_0.tmp_0' come together");
  expect_refused("refused_start", "operation gru ('gru_0.tmp_0') has the input 'H0'");
  expect_refused("refused_order", "the outputs 'gru_0.tmp_0', 'gru_1.tmp_0' come together");
  expect_refused("refused_step", "'gru_0.tmp_0' is pooled in a way that Sluice lacks");
  expect_refused("refused_none", "has no gru or lstm before");
}

/// A copy of a fixture, for damage.
class PaddleFolder : public ::testing::Test {
 protected:
  fs::path copy(const std::string& name) {
    const fs::path target = folder_.path() / name;
    fs::copy(fixture(name), target, fs::copy_options::recursive);
    return target;
  }
  static std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static void expect_error(const fs::path& path, std::string_view says,
                           const ReadOptions& options = {}) {
    const std::string message = message_of([&] { read_paddle(path, options); });
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }

  io::TemporaryFolder folder_;
};

TEST_F(PaddleFolder, RefusesParametersThatAreNotThere) {
  const fs::path model = copy("gru_crf");
  fs::remove(model / "gru_0.w_0");
  expect_error(model, "'gru_0.w_0', which cannot be found");
  fs::copy(fixture("gru_crf") / "gru_0.b_0", model / "gru_0.w_0");
  expect_error(model, "holds another tensor than the parameter 'gru_0.w_0'");
  expect_error(copy("gru_origin"), "cannot be found", with("params=other"));
  expect_error(model, "no plain path within", with("params=../model"));
}

TEST_F(PaddleFolder, RefusesAFileOfOtherParameters) {
  const fs::path model = copy("gru_origin");
  write(model / "params", bytes_of(model / "params") + "x");
  expect_error(model, "of which the program's 3 parameters take");
  write(model / "params", "x");
  expect_error(model, "holds no tensor of Paddle");
}

TEST_F(PaddleFolder, RefusesNamesThatLeadOutOfTheFolder) {
  const fs::path model = copy("gru_crf");
  std::string program = bytes_of(model / "__model__");
  const std::string from = "gru_0.w_0", to = "../gru0_0";
  for (auto at = program.find(from); at != std::string::npos; at = program.find(from)) {
    program.replace(at, from.size(), to);
  }
  write(model / "__model__", program);
  write(folder_.path() / "gru0_0", bytes_of(model / "gru_0.w_0"));
  expect_error(model, "'../gru0_0', which is no plain path within the model's folder");
}

/// Any damage is refused or read, and never more.
TEST_F(PaddleFolder, SurvivesDamagedPrograms) {
  const fs::path model = copy("lstm_sum");
  const std::string good = bytes_of(model / "__model__");
  for (std::size_t at = 0; at < good.size(); at += 37) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << at % 8));
    write(model / "__model__", bytes);
    for (const char* name : {"", "lstm_0"}) {
      const std::string message = message_of([&] { fold(read_paddle(model, subgraph(name))); });
      EXPECT_LT(message.size(), 2000u);
    }
  }
}

TEST_F(PaddleFolder, IsRecognized) {
  EXPECT_EQ(recognize(fixture("gru_crf")), SourceFormat::kPaddle);
  EXPECT_EQ(describe(SourceFormat::kPaddle), "a model of Paddle");
  ReadOptions options;
  const SourceModel model = read_source(fixture("gru_mean"), SourceFormat::kPaddle, options);
  EXPECT_EQ(model.layers.size(), 3u);
}

}  // namespace
}  // namespace sluice::interchange
