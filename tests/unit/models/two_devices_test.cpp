#include <gtest/gtest.h>

#include <random>

#include "kernels/loss/loss.h"
#include "models/seq2seq_training.h"
#include "unit/support/on_device.h"

namespace sluice::models {
namespace {

/// A model, a batch and all that its training takes, on a device of its own.
class Engine {
 public:
  explicit Engine(const std::string& device)
      : device_(runtime::open_device(device)), context_(*device_), model_(config()) {
    model_.parameters().allocate(context_, DType::kFloat32, true);
    model_.parameters().initialize(context_, 3);
    std::mt19937 random(5);
    const auto tokens = [&](std::int64_t time) {
      std::vector<std::int32_t> values(static_cast<std::size_t>(time * kExtent.rows));
      for (auto& value : values) value = static_cast<std::int32_t>(4 + random() % 16);
      return put({time, kExtent.rows}, values);
    };
    batch_.extent = kExtent;
    batch_.source = tokens(kExtent.source_time);
    batch_.source_lengths = put({kExtent.rows}, {6, 1, 4});
    batch_.target_in = tokens(kExtent.target_time);
    batch_.target_out = tokens(kExtent.target_time);
    batch_.target_lengths = put({kExtent.rows}, {2, 5, 3});
    batch_.row_ids = put({kExtent.rows}, {0, 1, 2});
    runtime::ArenaPlanner planner;
    plan_.emplace(context_, model_, planner, kExtent, true);
    arena_ = runtime::Arena(*device_, planner);
  }

  /// The gradients of a step.
  std::vector<float> step() {
    context_.zero(model_.parameters().gradients());
    plan_->forward_backward(context_, arena_, batch_, {});
    return context_.download<float>(model_.parameters().gradients());
  }

 private:
  static constexpr Extent kExtent{3, 6, 5};

  static Seq2SeqConfig config() {
    Seq2SeqConfig config;
    config.bidirectional = true;
    config.encoder_layers = 2;
    config.source_vocabulary = config.target_vocabulary = 20;
    config.embedding = 16;
    config.hidden = 32;
    config.dropout = 0;
    return config;
  }
  Tensor put(const Shape& shape, const std::vector<std::int32_t>& values) {
    buffers_.emplace_back(*device_, values.size() * sizeof(std::int32_t));
    const Tensor tensor = buffers_.back().tensor(DType::kInt32, shape);
    context_.upload<std::int32_t>(tensor, values);
    return tensor;
  }

  std::unique_ptr<runtime::Device> device_;
  Context context_;
  Seq2Seq model_;
  std::vector<runtime::Buffer> buffers_;
  Batch batch_;
  std::optional<Seq2SeqTraining> plan_;
  runtime::Arena arena_;
};

/// Two engines in one process.
class TwoEngines : public ::testing::TestWithParam<const char*> {
 protected:
  /// Whichever was opened or used last, each works; what a plan captures comes with its second
  /// step.
  static void take_turns(const std::string& one, const std::string& other) {
    Engine first(one);
    const std::vector<float> expected = first.step();
    {
      Engine second(other);
      for (int turn = 0; turn < 3; ++turn) {
        EXPECT_TRUE(testing::same_bits(second.step(), expected)) << "turn " << turn;
        EXPECT_TRUE(testing::same_bits(first.step(), expected)) << "turn " << turn;
      }
      Engine third(one);
      EXPECT_TRUE(testing::same_bits(third.step(), expected));
      EXPECT_TRUE(testing::same_bits(second.step(), expected));
    }
    EXPECT_TRUE(testing::same_bits(first.step(), expected));
  }
};

TEST_P(TwoEngines, TakeTurnsOnOneDevice) { take_turns(GetParam(), GetParam()); }

TEST_P(TwoEngines, TakeTurnsOnTwoGpus) {
  if (std::string(GetParam()) != "cuda") GTEST_SKIP() << "this device is no GPU";
  try {
    runtime::open_device("cuda:1");
  } catch (const Error&) {
    GTEST_SKIP() << "this machine has one GPU";
  }
  take_turns("cuda:0", "cuda:1");
}

INSTANTIATE_TEST_SUITE_P(Devices, TwoEngines, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::models
