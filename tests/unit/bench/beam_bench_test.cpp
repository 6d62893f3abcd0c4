#include "bench/decode/beam_bench.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "bench/decode/beam_search_work.h"
#include "bench/report/result_file.h"
#include "data/tokenizer.h"
#include "unit/support/message_of.h"
#include "unit/support/on_device.h"
#include "unit/support/source_path.h"
#include "unit/support/temporary_folder.h"

namespace sluice::bench::decode {
namespace {

std::string message_of(std::string_view text) {
  return testing::message_of([&] { parse_shapes(text, "f.shapes"); });
}

TEST(BeamShape, ReadsEveryKey) {
  const auto shapes = parse_shapes(
      "a cell=gru vocabulary=9 embedding=3 hidden=4 layers=2 inputs=5 beam=6 steps=7 dtype=bf16 "
      "seed=8 device=test\nb # all as in beam\n",
      "f");
  ASSERT_EQ(shapes.size(), 2u);
  const models::LanguageModelConfig config = shapes[0].config();
  EXPECT_EQ(config.cell, "gru");
  EXPECT_EQ(config.vocabulary, 9);
  EXPECT_EQ(config.embedding, 3);
  EXPECT_EQ(config.hidden, 4);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(shapes[0].inputs, 5);
  EXPECT_EQ(shapes[0].beam, 6);
  EXPECT_EQ(shapes[0].steps, 7);
  EXPECT_EQ(shapes[0].dtype, "bfloat16");
  EXPECT_EQ(shapes[0].seed, 8u);
  EXPECT_EQ(shapes[0].device, "test");
  BeamShape named = read_shapes(testing::source_path("bench/shapes/beam.shapes"), "", "").at(0);
  named.name = "b";
  EXPECT_EQ(named, shapes[1]);
}

TEST(BeamShape, RefusesWhatDoesNotFit) {
  EXPECT_EQ(message_of("a beams=3"),
            "f.shapes:1: beams: there is no such key; did you mean 'beam'?");
  for (const char* text : {"a steps=1", "a beam=0", "a vocabulary=4", "a dtype=float64",
                           "a dtype=int8", "a cell=tagger", "a inputs=many"}) {
    EXPECT_NE(message_of(text), "") << text;
  }
}

TEST(BeamSearchWork, TakesAllStepsAndDiffersByInput) {
  const auto device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  const BeamShape shape =
      parse_shapes("a vocabulary=9 embedding=6 hidden=8 layers=1 inputs=3 beam=4 steps=5", "f")[0];
  BeamSearchWork work(context, shape);
  work.run();
  const auto found = work.found();
  ASSERT_EQ(found.size(), 3u);
  for (const auto& hypotheses : found) {
    ASSERT_EQ(hypotheses.size(), 4u);
    for (const auto& hypothesis : hypotheses) {
      ASSERT_EQ(hypothesis.tokens.size(), 4u);  // and the end
      for (const std::int32_t token : hypothesis.tokens) EXPECT_GE(token, data::kFirstPieceId);
    }
  }
  EXPECT_NE(found[0][0].score, found[1][0].score);
}

class BeamBenchOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, BeamBenchOn, ::testing::Values("cpu", "test"),
                         sluice::testing::device_name);

// So many steps that most of them are captured on the test device.
TEST_P(BeamBenchOn, SearchesAndWritesWhatTheReportReads) {
  const testing::TemporaryFolder folder;
  folder.write("tiny.shapes",
               "tiny vocabulary=9 embedding=6 hidden=8 layers=2 inputs=3 beam=4 steps=35\n"
               "gru cell=gru vocabulary=9 embedding=6 hidden=8 layers=1 inputs=2 beam=1 steps=4\n");
  BeamBenchOptions options;
  options.shapes = (folder / "tiny.shapes").string();
  options.device = GetParam();
  options.repeats = 1;
  options.check = true;
  options.json = (folder / "out.json").string();
  std::ostringstream out, progress;
  const std::vector<BeamResult> results = run_beam_bench(options, out, progress);
  EXPECT_NE(progress.str().find("tiny: 4 searches in float32 on "), std::string::npos);
  EXPECT_NE(progress.str().find("gru: one search in float32 on the CPU\n"), std::string::npos);
  ASSERT_EQ(results.size(), 2u);
  for (const BeamResult& result : results) {
    EXPECT_GT(result.milliseconds, 0);
    EXPECT_GT(result.peak_bytes, static_cast<std::size_t>(4 * result.parameters));
    EXPECT_LT(result.score, 0);
    EXPECT_EQ(result.agreement.count, result.shape.inputs * result.shape.beam);
    EXPECT_EQ(result.agreement.same, result.agreement.count);
    EXPECT_EQ(result.agreement.found, result.agreement.count);
    EXPECT_EQ(result.agreement.best, result.shape.inputs);
    EXPECT_EQ(result.agreement.score, 0);
  }
  EXPECT_NEAR(results[0].tokens_per_second() * results[0].milliseconds, 3 * 4 * 35 * 1e3, 1e-6);
  const auto read = report::read_results(options.json);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].workload.sizes, "V9 E6 H8 L2 3 inputs x 4 beams x 35 steps");
  EXPECT_EQ(read[1].workload.sizes, "V9 E6 H8 L1 2 inputs x 1 beams x 4 steps gru");
  EXPECT_EQ(read[0].workload.pass, "beam search");
  EXPECT_TRUE(read[0].is_default);
}

}  // namespace
}  // namespace sluice::bench::decode
