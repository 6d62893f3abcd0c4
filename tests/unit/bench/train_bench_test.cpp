#include "bench/train/train_bench.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bench/report/result_file.h"
#include "bench/train/token_batches.h"
#include "data/tokenizer.h"
#include "sluice/error.h"
#include "unit/bench/trace_counts.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::train {
namespace {

std::string message_of(std::string_view text) {
  return testing::message_of([&] { parse_shapes(text, "f.shapes"); });
}

TEST(TrainShape, ReadsEveryKey) {
  const auto shapes = parse_shapes(
      "a cell=gru vocabulary=9 embedding=3 hidden=4 layers=1 directions=2 "
      "attention=multiplicative dropout=0.25 batch=5 source_time=6 target_time=7 dtype=bf16 "
      "seed=8 device=test\nb # all as in chat\n",
      "f");
  ASSERT_EQ(shapes.size(), 2u);
  const models::Seq2SeqConfig config = shapes[0].config();
  EXPECT_EQ(config.cell, "gru");
  EXPECT_EQ(config.source_vocabulary, 9);
  EXPECT_EQ(config.target_vocabulary, 9);
  EXPECT_EQ(config.embedding, 3);
  EXPECT_EQ(config.hidden, 4);
  EXPECT_EQ(config.encoder_layers, 1);
  EXPECT_EQ(config.decoder_layers, 1);
  EXPECT_TRUE(config.bidirectional);
  EXPECT_EQ(config.attention, "multiplicative");
  EXPECT_EQ(config.dropout, 0.25);
  EXPECT_EQ(shapes[0].tokens(), 5 * (6 + 7));
  EXPECT_EQ(shapes[0].dtype, "bfloat16");
  EXPECT_EQ(shapes[0].seed, 8u);
  EXPECT_EQ(shapes[0].device, "test");
  EXPECT_EQ(shapes[1].config().hidden, 1024);
}

TEST(TrainShape, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of("a hiden=3"),
            "f.shapes:1: hiden: there is no such key; did you mean 'hidden'?");
  EXPECT_NE(message_of("a\nb vocabulary=4").find("f.shapes:2: vocabulary"), std::string::npos);
  EXPECT_NE(message_of("a dropout=1").find("f.shapes:1: model.dropout is 1"), std::string::npos);
  for (const char* text : {"a dropout=half", "a dropout=nan", "a directions=3", "a cell=rnn",
                           "a directions=2 hidden=3", "a dtype=float64", "a batch=0"}) {
    EXPECT_NE(message_of(text), "") << text;
  }
}

TEST(TrainShape, ReadsTheFileOfTheChatModel) {
  const auto shapes =
      read_shapes(testing::source_path("bench/shapes/chat.shapes"), "tf32", "cuda:1");
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].batch, 64);
  EXPECT_EQ(shapes[1].batch, 512);
  EXPECT_EQ(shapes[1].dtype, "tf32");
  EXPECT_EQ(shapes[1].device, "cuda:1");
}

TEST(TokenBatches, AreFreshAndShifted) {
  const TrainShape shape =
      parse_shapes("a vocabulary=6 batch=3 source_time=4 target_time=5", "f").front();
  TokenBatches batches(shape);
  const data::Batch first = batches.next().front(), second = batches.next().front();
  EXPECT_NE(first.source, second.source);
  EXPECT_EQ(second.global_row, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(first.target_tokens(), 15);
  for (std::size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(first.target_in[i], i < 3 ? data::kBosId : first.target_out[i - 3]);
    EXPECT_EQ(first.target_out[i] == data::kEosId, i >= 12);
  }
  const std::set<std::int32_t> tokens(first.source.begin(), first.source.end());
  EXPECT_GE(*tokens.begin(), data::kFirstPieceId);
  EXPECT_LT(*tokens.rbegin(), 6);
}

class TrainBenchOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, TrainBenchOn, ::testing::Values("cpu", "test"),
                         sluice::testing::device_name);

TEST_P(TrainBenchOn, TrainsAndWritesWhatTheReportReads) {
  const testing::TemporaryFolder folder;
  // Sizes that captured steps don't pad: another number of rows may sum in another order.
  folder.write("tiny.shapes",
               "tiny vocabulary=20 embedding=6 hidden=8 batch=16 source_time=4 target_time=8\n"
               "gru cell=gru vocabulary=20 embedding=6 hidden=8 layers=1 directions=2 "
               "attention=multiplicative dropout=0 batch=16 source_time=4 target_time=8\n");
  TrainBenchOptions options;
  options.shapes = (folder / "tiny.shapes").string();
  options.device = GetParam();
  options.repeats = 2;
  options.json = (folder / "out.json").string();
  std::ostringstream out;
  const std::vector<TrainResult> results = run_train_bench(options, out);
  // The test device captures, too.
  const bool captures = GetParam() == std::string_view("test");
  ASSERT_EQ(results.size(), captures ? 4u : 2u);
  std::map<std::string, std::vector<double>> losses;
  for (const TrainResult& result : results) {
    EXPECT_EQ(result.is_default, captures == (result.implementation == "sluice+graph"));
    losses[result.shape.name].push_back(result.loss);
    EXPECT_GT(result.milliseconds, 0);
    EXPECT_NEAR(result.pairs_per_second() * result.milliseconds, 16 * 1e3, 1e-6);
    EXPECT_NEAR(result.tokens_per_second() * result.milliseconds, 192 * 1e3, 1e-6);
    // Values, gradients and two moments are the least it takes.
    EXPECT_GT(result.peak_bytes, static_cast<std::size_t>(16 * result.parameters));
    // Nothing can be learnt of random tokens.
    EXPECT_NEAR(result.loss, std::log(20), 1);
  }
  // Captured or not, the same steps on the same tokens.
  for (const auto& [name, found] : losses) EXPECT_EQ(found.front(), found.back()) << name;
  const auto read = report::read_results(options.json);
  ASSERT_EQ(read.size(), results.size());
  EXPECT_EQ(read.front().workload.sizes, "V20 E6 H8 L2 B16 T4+8 dropout 0.5");
  EXPECT_EQ(read.back().workload.sizes, "V20 E6 H8 L1 B16 T4+8 D2 gru multiplicative dropout 0");
  EXPECT_EQ(read.back().workload.cell, "seq2seq");
}

std::string language_model(const testing::TemporaryFolder& folder, const std::string& name,
                           const std::string& training) {
  std::string text;
  for (std::size_t i = 0; i < 40; ++i) text += std::string("abcdefgh").substr(0, 1 + i % 8) + "\n";
  const std::string path = folder.write("text", text).string();
  return folder
      .write(name + ".toml", "[data]\ntext = \"" + path +
                                 "\"\n[tokenizer]\nkind = \"characters\"\n[model]\nkind = "
                                 "\"language_model\"\nembedding = 6\nhidden = 8\ndropout = 0\n"
                                 "[training]\nmax_tokens = 64\n" +
                                 training)
      .string();
}

std::string tagger(const testing::TemporaryFolder& folder) {
  const std::string path = folder.write("tagged", "a X\nb Y\n\nc X\n\na X\nc X\nb Y\n").string();
  return folder
      .write("tagger.toml", "[data]\nconll = \"" + path +
                                "\"\n[tokenizer]\nkind = \"words\"\n[model]\nkind = "
                                "\"tagger\"\nembedding = 6\nhidden = 8\n")
      .string();
}

TEST_P(TrainBenchOn, TrainsConfigurationsOfAnyKind) {
  const testing::TemporaryFolder folder;
  TrainBenchOptions options;
  options.config.paths = {language_model(folder, "lines", ""),
                          language_model(folder, "running", "bptt = 4\n"), tagger(folder)};
  options.device = GetParam();
  options.repeats = 2;
  options.json = (folder / "out.json").string();
  std::ostringstream out;
  const std::vector<ConfigResult> results = run_config_bench(options, out);
  const std::size_t each = GetParam() == std::string_view("test") ? 2 : 1;
  ASSERT_EQ(results.size(), 3 * each);
  const ConfigSizes &lines = results[0].sizes, &running = results[each].sizes,
                    &sentences = results[2 * each].sizes;
  EXPECT_EQ(lines.name, "lines");
  EXPECT_EQ(lines.kind, "language_model");
  EXPECT_EQ(lines.examples, 40);
  EXPECT_EQ(lines.source_tokens, 0);
  EXPECT_EQ(lines.target_tokens, 180 + 40);  // and their ends
  EXPECT_EQ(running.batches, 4);             // 16 stretches of 13 or 14 tokens
  EXPECT_EQ(running.target_tokens, lines.target_tokens);
  EXPECT_EQ(sentences.batches, 1);
  EXPECT_EQ(sentences.source_tokens, 6);
  EXPECT_EQ(sentences.target_tokens, 6);
  for (const ConfigResult& result : results) {
    EXPECT_GT(result.parameters, 0);
    EXPECT_TRUE(std::isfinite(result.loss));
    EXPECT_NEAR(result.step_milliseconds() * static_cast<double>(result.sizes.batches),
                result.milliseconds, 1e-9);
  }
  const auto read = report::read_results(options.json);
  ASSERT_EQ(read.size(), results.size());
  EXPECT_EQ(read.front().workload.cell, "language_model");
  EXPECT_EQ(read.front().workload.sizes,
            fmt::format("{} parameters, {} batches of 40 examples, 0+220 tokens",
                        results[0].parameters, lines.batches));
}

TEST(TrainBench, TakesTheFirstBatchesOfAConfiguration) {
  const testing::TemporaryFolder folder;
  ConfigRequest request{.overrides = {"training.max_tokens=20"}, .batches = 3};
  const std::string path = language_model(folder, "lines", "");
  const ConfigWork work = read_config_work(request, path, "test", "bfloat16");
  EXPECT_EQ(work.work.device, "test");
  EXPECT_EQ(work.work.dtype, "bfloat16");
  EXPECT_EQ(work.sizes.batches, 3);
  const auto batches = work.work.make_batches();
  const auto round = batches->next();
  ASSERT_EQ(round.size(), 3u);
  std::int64_t tokens = 0;
  for (const data::Batch& batch : round) tokens += batch.target_tokens();
  EXPECT_EQ(tokens, work.sizes.target_tokens);
  EXPECT_EQ(batches->next().data(), round.data());  // and again

  request.overrides = {"training.accumulate=2"};
  EXPECT_THROW(read_config_work(request, path, "", ""), Error);
  request = {.batches = 0};
  EXPECT_THROW(read_config_work(request, path, "", ""), Error);
}

TEST(TrainBench, ProfilesFurtherSteps) {
  const testing::TemporaryFolder folder;
  TrainBenchOptions options;
  options.shapes =
      folder
          .write("tiny.shapes",
                 "a vocabulary=20 embedding=6 hidden=8 batch=3 source_time=4 target_time=5\n"
                 "b vocabulary=20 embedding=6 hidden=8 batch=3 source_time=4 target_time=5\n")
          .string();
  options.repeats = 2;
  options.profile.trace = (folder / "trace.json").string();
  std::ostringstream out;
  run_train_bench(options, out);
  TraceCounts trace(options.profile.trace);
  EXPECT_EQ(trace.steps, (std::map<std::string, int>{{"a sluice step 1", 1},
                                                     {"a sluice step 2", 1},
                                                     {"a sluice step 3", 1},
                                                     {"b sluice step 1", 1},
                                                     {"b sluice step 2", 1},
                                                     {"b sluice step 3", 1}}));
  for (const char* module : {"encoder forward", "decoder backward", "optimizer step"}) {
    EXPECT_EQ(trace.modules[module], 6) << module;
  }
}

TEST(TrainBench, RefusesWhatItCannotDo) {
  const testing::TemporaryFolder folder;
  folder.write("tiny.shapes", "tiny vocabulary=20 embedding=6 hidden=8 batch=3\n");
  TrainBenchOptions options;
  options.shapes = (folder / "tiny.shapes").string();
  std::ostringstream out;
  options.repeats = 0;
  EXPECT_THROW(run_train_bench(options, out), Error);
  options.repeats = 1;
  options.dtype = "int8";
  EXPECT_THROW(run_train_bench(options, out), Error);
  options.dtype = "";
  options.json = "/nonexistent/out.json";
  EXPECT_THROW(run_train_bench(options, out), Error);
}

}  // namespace
}  // namespace sluice::bench::train
