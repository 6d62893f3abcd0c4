#include "training/average.h"

#include <gtest/gtest.h>

#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

class AverageTest : public testing::OnDevice {
 protected:
  /// Writes a model of random weights; returns them, in the layout of the flat arena.
  std::vector<float> save(const std::string& name, const TrainConfig& config,
                          std::uint64_t data_seed = 1) {
    const TrainData data = reversal_data(config, data_seed);
    const auto model = make_model(context_, config, data);
    model_files::save_model(context_, folder / name, *model, data.tokenizers, to_toml(config));
    return get<float>(model->parameters().values());
  }
  std::string refusal(std::initializer_list<const char*> names) {
    std::vector<std::filesystem::path> paths;
    for (const char* name : names) paths.push_back(folder / name);
    const Error error = testing::error_of([&] { average_models(context_, paths); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }

  testing::TemporaryFolder folder;
  TrainConfig config_ = reversal_config("run");
};

TEST_P(AverageTest, IsTheMeanRoundedOnce) {
  std::vector<std::vector<float>> weights;
  std::vector<std::filesystem::path> paths;
  for (const std::int64_t seed : {3, 1, 2}) {
    config_.loop.seed = seed;
    const std::string name = std::to_string(seed);
    weights.push_back(save(name, config_));
    paths.push_back(folder / name);
  }
  paths[1] /= "model.safetensors";
  const LoadedModel mean = average_models(context_, paths);
  EXPECT_EQ(run_config(mean).loop.seed, 3);
  const std::vector<float> values = get<float>(mean.model->parameters().values());
  ASSERT_EQ(values.size(), weights[0].size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double sum = double{weights[0][i]} + double{weights[1][i]} + double{weights[2][i]};
    ASSERT_EQ(values[i], static_cast<float>(sum / 3)) << i;
  }
  EXPECT_NE(values, weights[0]);
}

TEST_P(AverageTest, RefusesWhatIsNotAlike) {
  save("a", config_);
  TrainConfig other = config_;
  other.model.hidden = 18;
  other.model.encoder_peepholes = true;
  save("wide", other);
  const std::string shapes = refusal({"a", "wide"});
  EXPECT_NE(shapes.find("differ in encoder_peepholes (off and true), hidden (16 and 18);"),
            std::string::npos)
      << shapes;
  EXPECT_NE(shapes.find((folder / "wide").native()), std::string::npos) << shapes;

  // As many characters, but others.
  TextData text = reversal_text();
  for (auto* part : {&text.train, &text.validation}) {
    for (data::TextPair& pair : *part) {
      for (char& character : pair.target) character = static_cast<char>(character + 4);
    }
  }
  const TrainData data = make_train_data(config_, text);
  model_files::save_model(context_, folder / "b", *make_model(context_, config_, data),
                          data.tokenizers, to_toml(config_));
  const std::string vocabularies = refusal({"a", "b"});
  EXPECT_NE(vocabularies.find("their target vocabularies differ"), std::string::npos)
      << vocabularies;
  EXPECT_NE(refusal({"a"}).find("two checkpoints or more, not 1"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, AverageTest, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
