// The functions of include/sluice, as a C++ program calls them; what the commands over them print
// is tests/end_to_end's.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>

#include "sluice/average.h"
#include "sluice/classifier.h"
#include "sluice/data.h"
#include "sluice/data_statistics.h"
#include "sluice/embeddings.h"
#include "sluice/evaluate.h"
#include "sluice/machine.h"
#include "sluice/measure.h"
#include "sluice/quantize.h"
#include "sluice/report.h"
#include "sluice/text.h"
#include "sluice/train.h"
#include "unit/support/temporary_folder.h"

namespace sluice {
namespace {

using testing::error_of;
using Words = std::vector<std::string>;

/// A classifier of six texts, trained once.
class Functions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    folder_->write("train.csv", "text,label\na b,x\nc,y\nb b c,x\nc a,y\na a b,x\nc c,y\n");
    report_ = sluice::train(request());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string at(const std::string& name) { return (*folder_ / name).native(); }
  static TrainRequest request(const std::string& name = "run") {
    TrainRequest request;
    for (const std::string& setting :
         {"data.table=" + at("train.csv"), "data.validation_table=" + at("train.csv"),
          "output.directory=" + at(name)}) {
      request.overrides.push_back(setting);
    }
    for (const char* setting : {"tokenizer.kind=words", "model.kind=classifier", "model.hidden=6",
                                "training.max_epochs=0", "training.max_steps=60",
                                "training.learning_rate=0.05", "training.validate_every=20"}) {
      request.overrides.emplace_back(setting);
    }
    request.quiet = true;
    return request;
  }
  static MeasureRequest judged() { return {.model = at("run"), .data = at("train.csv")}; }
  static std::string metric(const Measurement& measurement, const std::string& name) {
    for (const auto& [found, value] : measurement.metrics) {
      if (found == name) return value;
    }
    return "";
  }

  static inline std::optional<testing::TemporaryFolder> folder_;
  static inline TrainReport report_;
};

TEST_F(Functions, TrainReportsWhatCame) {
  EXPECT_EQ(report_.steps, 60);
  EXPECT_FALSE(report_.stopped);
  EXPECT_GE(report_.best_step, 20);
  EXPECT_FALSE(report_.best_metric_name.empty());
  EXPECT_TRUE(std::filesystem::exists(at("run/best/model.safetensors")));
}

TEST_F(Functions, TrainStopsWhenItIsTold) {
  std::atomic<bool> stop{true};
  TrainRequest stopped = request("stopped");
  stopped.stop = &stop;
  std::vector<bool> preparing;
  stopped.preparing = [&](bool now) { preparing.push_back(now); };
  const TrainReport report = train(stopped);
  EXPECT_TRUE(report.stopped);
  EXPECT_LT(report.steps, 60);
  EXPECT_EQ(preparing, (std::vector<bool>{true, false}));
  // To the same weights as the run that wasn't.
  stop = false;
  EXPECT_EQ(train(stopped).steps, 60);
  EXPECT_EQ(measure({.model = at("stopped"), .data = at("train.csv")}).metrics,
            measure(judged()).metrics);
  stopped.resume = false;
  EXPECT_EQ(error_of([&] { train(stopped); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { train_folds(request("folds"), 1); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(Functions, TrainWarnsWhoItWasTold) {
  TrainRequest more = request("threads");
  more.overrides.emplace_back("training.max_steps=2");
  more.overrides.emplace_back("machine.threads=1");
  std::vector<std::string> warnings;
  more.warnings = [&](std::string_view warning) { warnings.emplace_back(warning); };
  train(more);
  EXPECT_TRUE(warnings.empty());
  more.overrides.emplace_back("machine.threads=2");
  more.overrides.emplace_back("training.max_steps=3");
  ::testing::internal::CaptureStderr();
  train(more);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("was saved with 1 thread"), std::string::npos) << warnings[0];
}

TEST_F(Functions, MeasureSaysWhatAValidationWould) {
  const Measurement found = measure(judged());
  EXPECT_EQ(metric(found, "accuracy"), "100.00%");
  EXPECT_NE(to_text(found).find("accuracy 100.00%\n"), std::string::npos);
  MeasureRequest other = judged();
  other.kind = "tagger";
  EXPECT_EQ(error_of([&] { measure(other); }).code(), ErrorCode::kInvalidArgument);
  other = judged();
  other.resets = at("train.csv");
  EXPECT_NE(std::string(error_of([&] { measure(other); }).what()).find("takes no resets"),
            std::string::npos);
}

TEST_F(Functions, DescribeModelSaysWhatItHolds) {
  const ModelInfo info = describe_model(at("run"));
  EXPECT_EQ(info.kind, "classifier");
  EXPECT_EQ(kind_of_model(at("run")), "classifier");
  EXPECT_EQ(info.stored, "float32");
  EXPECT_EQ(info.path, at("run/best/model.safetensors"));
  EXPECT_FALSE(info.explanation.empty());
  EXPECT_EQ(error_of([] { kind_of_model(at("nowhere")); }).code(), ErrorCode::kNotFound);
}

TEST_F(Functions, AverageOfTheSameIsTheSame) {
  average_checkpoints({at("run/best"), at("run/best")}, at("mean"));
  EXPECT_EQ(measure({.model = at("mean"), .data = at("train.csv")}).metrics,
            measure({.model = at("run/best"), .data = at("train.csv")}).metrics);
  EXPECT_EQ(error_of([] { average_checkpoints({at("run/best")}, at("one")); }).code(),
            ErrorCode::kInvalidArgument);
}

TEST_F(Functions, QuantizeSaysWhatItCost) {
  QuantizeRequest request;
  request.model = at("run");
  request.output = at("small");
  request.data = at("train.csv");
  request.most_lost = 1;
  const QuantizeReport report = quantize(request);
  EXPECT_EQ(report.metric, "accuracy");
  EXPECT_EQ(report.examples, 6);
  EXPECT_GT(report.matrices, 0);
  EXPECT_EQ(describe_model(at("small")).stored, "int8");
  EXPECT_NE(quantize_table(report).find("int8"), std::string::npos);
  EXPECT_EQ(error_of([&] { quantize(request); }).code(), ErrorCode::kInvalidArgument);
}

TEST_F(Functions, EmbeddingsAndIdsAndReportsAreWritten) {
  const auto embeddings = export_embeddings(at("run"), at("projector"));
  ASSERT_EQ(embeddings.size(), 1U);
  EXPECT_EQ(embeddings[0].tokens, 7U);  // four special ones, a, b and c
  const ExportedIds ids = export_ids(request("ids"), at("exported"));
  ASSERT_EQ(ids.ids.size(), 2U);
  EXPECT_EQ(ids.ids[0].rows, 6);
  EXPECT_EQ(ids.ids[0].second_ids, 6);
  EXPECT_EQ(read_lines(ids.ids[0].path).size(), 7U);
  EXPECT_NE(training_report(at("run")).find("<h2>Curves</h2>"), std::string::npos);
}

TEST_F(Functions, StatisticsCountWhatTrainingWouldSee) {
  const DataStatistics statistics = data_statistics(request("none"));
  EXPECT_EQ(statistics.kind, "classifier");
  ASSERT_EQ(statistics.parts.size(), 2U);
  EXPECT_EQ(statistics.parts[0].examples, 6);
  EXPECT_EQ(statistics.parts[0].labels.at("x"), 3);
  EXPECT_EQ(statistics.parts[1].seen, 6);
  EXPECT_NE(to_json(statistics).find("\"seen\""), std::string::npos);
  EXPECT_FALSE(to_text(statistics).empty());
}

TEST(Evaluate, IsOneHundredForWhatIsRight) {
  const std::vector<std::pair<std::string, std::string>> pairs{
      {"the cat sat on the mat", "the cat sat on the mat"}, {"a b c d e", "a b c d e"}};
  const TextScores scores = evaluate(pairs);
  EXPECT_EQ(scores.lines, 2);
  EXPECT_EQ(scores.exact, 2);
  EXPECT_NEAR(scores.bleu, 100, 1e-9);
  EXPECT_NEAR(scores.chrf, 100, 1e-9);
  EXPECT_EQ(error_of([&] { evaluate(pairs, "other"); }).code(), ErrorCode::kInvalidArgument);
}

TEST(DescribeMachine, KnowsWhoRunsLayersHere) {
  const MachineInfo machine = describe_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_GE(machine.threads, 1);
  EXPECT_LE(machine.free_bytes, machine.memory_bytes);
  ASSERT_FALSE(machine.implementations.empty());
  EXPECT_EQ(machine.implementations[0].dtype, "float32");
  EXPECT_EQ(machine.gpus.empty(), !machine.gpus_missing.empty());
}

TEST(Text, IsReadAndWrittenWhole) {
  const testing::TemporaryFolder folder;
  const auto at = [&](const std::string& name) { return (folder / name).native(); };
  folder.write("lines.txt",
               "\xef\xbb\xbf"
               "a\r\nb\n");
  EXPECT_EQ(read_lines(at("lines.txt")), (Words{"a", "b"}));
  folder.write("pairs.tsv", "a\tb\nc\td\n");
  EXPECT_EQ(read_pairs(at("pairs.tsv"), "").at(1),
            std::make_pair(std::string("c"), std::string("d")));
  EXPECT_EQ(error_of([&] { read_pairs(at("lines.txt"), at("pairs.tsv.none")); }).code(),
            ErrorCode::kNotFound);
  folder.write("table.csv", "one,two\n1,2\n");
  EXPECT_EQ(read_column(at("table.csv"), "two"), Words{"2"});
  EXPECT_EQ(column_names("one,two"), (Words{"one", "two"}));
  EXPECT_EQ(error_of([&] { read_column(at("table.csv"), "three"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(name_of_input("-"), "standard input");
  EXPECT_EQ(counted(1, "line"), "1 line");
  EXPECT_EQ(counted(3, "line"), "3 lines");
  EXPECT_EQ(did_you_mean("trian", Words{"train", "tag"}), "; did you mean 'train'?");
  require_writable(at("out.txt"));
  EXPECT_FALSE(std::filesystem::exists(at("out.txt")));
  write_text(at("out.txt"), "x\n");
  EXPECT_EQ(read_lines(at("out.txt")), Words{"x"});
  EXPECT_TRUE(is_same_output(at("out.txt"), at("./out.txt")));
  EXPECT_FALSE(is_same_output(at("out.txt"), at("other.txt")));
  EXPECT_THROW(require_writable(at("nowhere/out.txt")), Error);
}

}  // namespace
}  // namespace sluice
