// What a run leaves for TensorBoard beside curves: histograms of weights and pictures of attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "unit/support/on_device.h"
#include "unit/support/png_reader.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/event_reader.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

class RunPictures : public testing::OnDevice {
 protected:
  TrainConfig config() const {
    TrainConfig config = reversal_config(output());
    config.loop.checkpoint_every = 0;
    config.loop.validate_every = 6;
    config.loop.max_steps = 14;
    return config;
  }
  std::filesystem::path output() const { return folder_ / "run"; }

  /// What was written of tags that begin with `prefix`, in files in the order of their names.
  std::vector<SummaryValue> summaries(const std::string& prefix) const {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(output() / "tensorboard")) {
      files.insert(entry.path());
    }
    std::vector<SummaryValue> found;
    for (const auto& file : files) {
      for (SummaryValue& summary : read_summaries(file)) {
        if (summary.tag.starts_with(prefix)) found.push_back(std::move(summary));
      }
    }
    return found;
  }

  testing::TemporaryFolder folder_;
};

std::vector<std::int64_t> steps_of(const std::vector<SummaryValue>& summaries,
                                   const std::string& tag) {
  std::vector<std::int64_t> steps;
  for (const SummaryValue& summary : summaries) {
    if (summary.tag == tag) steps.push_back(summary.step);
  }
  return steps;
}

TEST_P(RunPictures, HistogramsOfEveryParameterAndItsGradient) {
  TrainConfig with = config();
  with.output.histogram_every = 6;
  Trainer trainer(context_, with, reversal_data(with), Start::kFresh);
  trainer.run();
  const layers::Parameters& parameters = trainer.model().parameters();
  const auto histograms = summaries("weights/"), gradients = summaries("gradients/");
  // At the validations after steps 6 and 12; at the end only two more steps have been done.
  ASSERT_EQ(histograms.size(), 2 * parameters.specs().size());
  ASSERT_EQ(gradients.size(), histograms.size());
  for (std::size_t id = 0; id < parameters.specs().size(); ++id) {
    const std::string& name = parameters.specs()[id].name;
    EXPECT_EQ(steps_of(histograms, "weights/" + name), (std::vector<std::int64_t>{6, 12}));
    EXPECT_EQ(steps_of(gradients, "gradients/" + name), (std::vector<std::int64_t>{6, 12}));
  }
  for (const SummaryValue& summary : histograms) {
    const Message histogram(summary.value.fields.at(5));
    double counted = 0;
    for (const double count : doubles_of(histogram.fields.at(7))) counted += count;
    EXPECT_EQ(counted, histogram.fixed<double>(3));
    EXPECT_LT(histogram.fixed<double>(1), histogram.fixed<double>(2)) << summary.tag;
  }
}

// The last ones of a run are of the weights that it leaves.
TEST_P(RunPictures, HistogramsAreOfTheWeightsThereAre) {
  TrainConfig with = config();
  with.output.histogram_every = 5;
  with.loop.max_steps = 12;
  Trainer trainer(context_, with, reversal_data(with), Start::kFresh);
  trainer.run();
  const layers::Parameters& parameters = trainer.model().parameters();
  const auto histograms = summaries("weights/");
  ASSERT_EQ(histograms.back().step, 12);
  for (std::size_t id = 0; id < parameters.specs().size(); ++id) {
    const auto& spec = parameters.specs()[id];
    const std::vector<float> values = parameters.download<float>(context_, id);
    const SummaryValue& last = histograms[histograms.size() - parameters.specs().size() + id];
    EXPECT_EQ(last.tag, "weights/" + spec.name);
    const Message histogram(last.value.fields.at(5));
    EXPECT_EQ(histogram.fixed<double>(1), *std::min_element(values.begin(), values.end()));
    EXPECT_EQ(histogram.fixed<double>(2), *std::max_element(values.begin(), values.end()));
    EXPECT_EQ(histogram.fixed<double>(3), static_cast<double>(values.size()));
  }
}

TEST_P(RunPictures, AttentionOfSomeExamplesAtEachValidation) {
  TrainConfig with = config();
  with.loop.max_steps = 12;
  with.output.attention_images = 3;
  Trainer(context_, with, reversal_data(with), Start::kFresh).run();
  const auto images = summaries("attention/");
  ASSERT_GE(images.size(), 1u);
  ASSERT_LE(images.size(), 6u);
  for (const SummaryValue& image : images) {
    const Message fields(image.value.fields.at(4));
    const testing::PngPixels pixels = testing::read_png(fields.fields.at(4));
    EXPECT_EQ(pixels.height, fields.numbers.at(1));
    EXPECT_EQ(pixels.width, fields.numbers.at(2));
    // Sources have one to four digits.
    EXPECT_TRUE(pixels.width % 16 == 0 && pixels.width <= 4 * 16) << pixels.width;
    EXPECT_TRUE(image.step == 6 || image.step == 12) << image.step;
  }
}

TEST_P(RunPictures, ChangeNothingOfTheRun) {
  TrainConfig plain = config();
  Trainer(context_, plain, reversal_data(plain), Start::kFresh).run();
  const Outcome without = outcome_of(output());
  TrainConfig with = config();
  with.output.directory = (folder_ / "pictured").native();
  with.output.histogram_every = 1;
  with.output.attention_images = 2;
  Trainer(context_, with, reversal_data(with), Start::kFresh).run();
  const Outcome pictured = outcome_of(folder_ / "pictured");
  EXPECT_EQ(without.tensor_names, pictured.tensor_names);
  EXPECT_TRUE(without.tensors == pictured.tensors);
}

INSTANTIATE_TEST_SUITE_P(Devices, RunPictures, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
