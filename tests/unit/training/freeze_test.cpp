// Parameters that training.freeze names.
#include <gtest/gtest.h>

#include <cmath>

#include "training/parameter_patterns.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"
#include "unit/training/reversal_task.h"

namespace sluice::training {
namespace {

/// An optimiser's steps on drawn gradients of three parameters.
class FrozenParameters : public testing::OnDevice {
 protected:
  static constexpr int kSteps = 3;
  static const std::vector<runtime::Shape>& shapes() {
    static const std::vector<runtime::Shape> shapes{{7, 5}, {3}, {40}};
    return shapes;
  }

  struct Result {
    std::vector<std::vector<float>> values;   ///< by parameter
    std::vector<std::vector<float>> moments;  ///< in the order they are saved in
    std::vector<double> squares;              ///< by step
  };

  /// Of those of the parameters a, b and c that `present` names.
  Result run(const OptimizerConfig& config, const std::string& present, double scale = 1) {
    layers::Parameters parameters;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name(1, "abc"[i]);
      if (present.find(name) != std::string::npos) parameters.declare(name, shapes()[i], {0.5});
    }
    parameters.allocate(context_, runtime::DType::kFloat32, true);
    parameters.initialize(context_, 1);
    Optimizer optimizer(context_, parameters, config, scale != 1);
    if (scale != 1) context_.upload<double>(optimizer.loss_scale(), std::vector{scale, 0., 0.});
    Result result;
    for (int step = 1; step <= kSteps; ++step) {
      for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
        const layers::ParameterSpec& spec = parameters.specs()[id];
        std::mt19937 random(static_cast<unsigned>(100 * spec.name[0] + step));
        std::vector<float> gradient(static_cast<std::size_t>(spec.shape.element_count()));
        // The sum of their squares is exact, in whichever order.
        for (float& g : gradient) {
          g = static_cast<float>((static_cast<int>(random() % 513) - 256) / 256.0 * scale);
        }
        // Not even what is not finite may come through.
        if (spec.name == frozen_name_) gradient[1] = INFINITY;
        context_.upload<float>(parameters.gradient(id), gradient);
      }
      optimizer.step(context_, put_number<std::int32_t>(step), put_number<double>(0.1));
      result.squares.push_back(get_scalar<double>(optimizer.sum_of_squares()));
    }
    for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
      result.values.push_back(parameters.download<float>(context_, id));
    }
    io::TensorTable saved;
    optimizer.save(context_, saved);
    for (const auto& [name, tensor] : saved) {
      if (tensor.dtype != runtime::DType::kFloat32) continue;
      const auto values = tensor.values<float>();
      result.moments.emplace_back(values.begin(), values.end());
    }
    return result;
  }

  std::string frozen_name_;
};

// All is as if they were not there, whichever they are.
TEST_P(FrozenParameters, StayAndTheOthersTrainAsWithoutThem) {
  OptimizerConfig adam, sgd;
  adam.weight_decay = sgd.weight_decay = 0.1;
  adam.clip_norm = sgd.clip_norm = 0.7;
  sgd.optimizer = "sgd";
  sgd.momentum = 0.9;
  for (const OptimizerConfig& base : {adam, sgd}) {
    for (std::size_t frozen = 0; frozen < 3; ++frozen) {
      for (const double scale : {1.0, 1024.0}) {
        SCOPED_TRACE(::testing::Message() << base.optimizer << ' ' << frozen << ' ' << scale);
        frozen_name_ = "abc"[frozen];
        const Result before = run(base, "abc", scale);  // nothing moves: infinity
        OptimizerConfig config = base;
        config.freeze = frozen_name_;
        const Result result = run(config, "abc", scale);
        std::string others = "abc";
        others.erase(frozen, 1);
        const Result expected = run(base, others, scale);
        EXPECT_EQ(result.values[frozen], before.values[frozen]);
        const std::size_t moments = result.moments.size() / 3;
        for (std::size_t m = 0; m < moments; ++m) {
          const std::vector<float>& moment = result.moments[3 * m + frozen];
          EXPECT_EQ(moment, std::vector<float>(moment.size()));
        }
        for (std::size_t i = 0, other = 0; i < 3; ++i) {
          if (i == frozen) continue;
          EXPECT_EQ(result.values[i], expected.values[other]);
          EXPECT_NE(result.values[i], before.values[i]);
          for (std::size_t m = 0; m < moments; ++m) {
            EXPECT_EQ(result.moments[3 * m + i], expected.moments[2 * m + other]);
          }
          ++other;
        }
        EXPECT_EQ(result.squares, expected.squares);
      }
    }
  }
}

TEST_P(FrozenParameters, AreNamedByPatternsThatAreOfUse) {
  const auto refusal = [&](const char* freeze) {
    OptimizerConfig config;
    config.freeze = freeze;
    const Error error = testing::error_of([&] { run(config, "abc"); });
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return std::string(error.what());
  };
  EXPECT_EQ(refusal("a,d*"), "'d*' of training.freeze matches no parameter; choose from: a, b, c");
  EXPECT_EQ(refusal("?"), "training.freeze is '?', which leaves nothing to train");
}

class FrozenRuns : public testing::OnDevice {};

// With static shapes, whose steps are captured where that can be.
TEST_P(FrozenRuns, KeepWhatIsFrozenAndResumeExactly) {
  const testing::TemporaryFolder folder;
  TrainConfig config = reversal_config(folder / "whole");
  config.optimizer.freeze = "target_embedding.*,encoder.*,output.bias";
  config.optimizer.weight_decay = 0.1;
  config.loop.checkpoint_every = 0;
  config.static_shapes = "on";
  const TrainData data = reversal_data(config);
  const auto drawn = make_model(context_, config, data);
  Trainer whole(context_, config, data, Start::kFresh);
  whole.run();
  const ParameterPatterns frozen("training.freeze", config.optimizer.freeze);
  const layers::Parameters& parameters = drawn->parameters();
  int kept = 0;
  for (layers::ParameterId id = 0; id < parameters.specs().size(); ++id) {
    const std::string& name = parameters.specs()[id].name;
    const bool same = whole.model().parameters().download<float>(context_, id) ==
                      parameters.download<float>(context_, id);
    EXPECT_EQ(same, frozen.match(name)) << name;
    kept += same;
  }
  EXPECT_GT(kept, 8);
  const Outcome expected = outcome_of(folder / "whole");

  config.output.directory = folder / "cut";
  config.loop.max_steps = 7;
  Trainer(context_, config, data, Start::kFresh).run();
  config.loop.max_steps = 21;
  Trainer(context_, config, data, Start::kResume).run();
  EXPECT_EQ(outcome_of(folder / "cut"), expected);

  config.optimizer.freeze = "encoder.*";
  const Error error = testing::error_of([&] { Trainer(context_, config, data, Start::kResume); });
  EXPECT_NE(std::string(error.what()).find("training.freeze"), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Devices, FrozenParameters, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, FrozenRuns, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::training
