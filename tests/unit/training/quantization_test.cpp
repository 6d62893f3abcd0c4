#include "training/quantization.h"

#include <algorithm>
#include <cmath>

#include "model_files/stored_weights.h"
#include "training/validation.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

class Quantization : public testing::OnDevice {
 protected:
  Quantization() : narrow_(*device_) {
    narrow_.set_precision(runtime::Precision::parse("int8"));
    config_.learning_rate.learning_rate = 2e-2;
    config_.learning_rate.schedule = "constant";
    config_.loop.max_steps = 150;
    config_.loop.validate_every = 150;
    config_.loop.checkpoint_every = 0;
    data_ = reversal_data(config_);
  }

  LoadedModel train() {
    Trainer(context_, config_, reversal_data(config_), Start::kFresh).run({});
    return model_files::load_model(context_, folder_ / "run" / "last");
  }

  double loss(const Context& context, const LoadedModel& loaded) {
    const Validation validation(data_, {.max_tokens = 200}, task_of(loaded), "loss");
    model_files::PlanCache plans(*loaded.model);
    return validation.run(context, *loaded.model, plans, 0, nullptr)->loss;
  }

  testing::TemporaryFolder folder_;
  TrainConfig config_ = reversal_config(folder_ / "run");
  TrainData data_;
  Context narrow_;
};

INSTANTIATE_TEST_SUITE_P(, Quantization, testing::host_devices(), testing::device_name);

TEST_P(Quantization, KeepsWhatWasLearned) {
  const LoadedModel loaded = train();
  const std::vector<float> weights = get<float>(loaded.model->parameters().values());
  const Calibration calibration = calibrate(narrow_, loaded, *data_.validation);
  const std::vector<double>& clips = calibration.clips;
  EXPECT_EQ(get<float>(loaded.model->parameters().values()), weights);
  ASSERT_EQ(clips.size(), loaded.model->parameters().specs().size());

  const io::Container container = quantized_container(context_, loaded, io::DType::kInt8, clips);
  const LoadedModel quantized = model_files::load_model(narrow_, container);
  EXPECT_EQ(quantized.stored, io::DType::kInt8);
  const double before = loss(context_, loaded), after = loss(narrow_, quantized);
  EXPECT_NE(before, after);
  EXPECT_LT(after, 1.02 * before + 0.01);

  // Calibration brings the model nearer to what it was.
  EXPECT_LE(calibration.after, calibration.before);
  EXPECT_EQ(calibration.after < calibration.before,
            std::any_of(
                clips.begin(), clips.end(), [](double clip) { return clip < 1; }));

  // In 16 bits, which the CPU widens.
  const LoadedModel bfloat16 = model_files::load_model(
      context_, quantized_container(context_, loaded, io::DType::kBFloat16));
  EXPECT_EQ(bfloat16.stored, io::DType::kBFloat16);
  EXPECT_NEAR(loss(context_, bfloat16), before, 0.01 * before + 1e-3);
}

// With an output layer three times as large a model is too sure of itself: shrinking it again would
// win loss, and change what the model says.
TEST_P(Quantization, StaysNearTheModelRatherThanBetterIt) {
  const LoadedModel loaded = train();
  const layers::Parameters& parameters = loaded.model->parameters();
  const auto& specs = parameters.specs();
  const auto output = static_cast<layers::ParameterId>(
      std::find_if(specs.begin(), specs.end(),
                   [](const auto& spec) { return spec.name == "output.weight"; }) -
      specs.begin());
  auto weights = parameters.download<float>(context_, output);
  for (float& weight : weights) weight *= 3;
  parameters.upload<float>(context_, output, weights);
  const Calibration calibration = calibrate(narrow_, loaded, *data_.validation);
  EXPECT_EQ(calibration.clips[output], 1) << calibration.before << ' ' << calibration.after;
  const LoadedModel quantized = model_files::load_model(
      narrow_, quantized_container(context_, loaded, io::DType::kInt8, calibration.clips));
  // No mean of differences is more than the mean of their magnitudes; targets are a few an example.
  EXPECT_LE(std::abs(loss(narrow_, quantized) - loss(context_, loaded)), calibration.after + 1e-6);
  EXPECT_GT(calibration.after, 0);
}

// The file holds what products take: no weight is rounded a second time on its way there.
TEST_P(Quantization, OfTheRangeIsWhatPrecisionInt8DoesByItself) {
  config_.loop.max_steps = 20;
  const LoadedModel loaded = train();
  io::Container container = quantized_container(context_, loaded, io::DType::kInt8);
  // But for embeddings, which are looked up and not multiplied.
  const auto& specs = loaded.model->parameters().specs();
  for (layers::ParameterId id = 0; id < specs.size(); ++id) {
    if (!specs[id].name.ends_with("embedding.weight")) continue;
    const auto values = model_files::stored_values(container, specs[id].name, specs[id].shape);
    loaded.model->parameters().upload<float>(context_, id, values);
  }
  const LoadedModel quantized = model_files::load_model(narrow_, container);
  EXPECT_EQ(loss(narrow_, quantized), loss(narrow_, loaded));
  EXPECT_NE(loss(narrow_, quantized), loss(context_, loaded));
}

TEST_P(Quantization, TakesMatricesAndEmbeddingsAlone) {
  config_.loop.max_steps = 1;
  const LoadedModel loaded = train();
  std::set<std::string> narrow;
  const io::Container container = quantized_container(context_, loaded, io::DType::kInt8);
  for (const auto& [name, tensor] : container.tensors) {
    if (tensor.dtype == io::DType::kInt8) narrow.insert(name);
  }
  EXPECT_EQ(narrow, (std::set<std::string>{
                        "source_embedding.weight", "encoder.weight_ih_l0", "encoder.weight_hh_l0",
                        "encoder.weight_ih_l0_reverse", "encoder.weight_hh_l0_reverse",
                        "target_embedding.weight", "decoder.weight_ih_l0", "decoder.weight_hh_l0",
                        "decoder.attention.query_weight", "decoder.attention.memory_weight",
                        "decoder.attention.output_weight", "output.weight"}));
}

TEST_P(Quantization, ReadsFilesAsTheModelsKindDoes) {
  config_.loop.max_steps = 1;
  const LoadedModel loaded = train();
  const TrainConfig one = config_to_read(loaded, "pairs.tsv", "");
  EXPECT_EQ(one.data.tsv, "");
  EXPECT_EQ(one.data.validation_tsv, "pairs.tsv");
  const TrainConfig two = config_to_read(loaded, "a", "b");
  EXPECT_EQ(two.data.validation_source + two.data.validation_target, "ab");
  EXPECT_EQ(usual_metric(loaded), "bleu");
}

}  // namespace
}  // namespace sluice::training
