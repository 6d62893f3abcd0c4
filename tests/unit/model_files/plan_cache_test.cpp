#include "model_files/plan_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <string>

#include "models/seq2seq_training.h"
#include "runtime/test/test_device.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::model_files {
namespace {

using models::Extent;

/// Of a size that a GPU's allocations, which come in pieces of some megabytes, tell apart by rows.
models::Seq2SeqConfig small_config() {
  models::Seq2SeqConfig config;
  config.source_vocabulary = config.target_vocabulary = 100;
  config.embedding = config.hidden = 128;
  return config;
}

/// Memory is limited to what `rows` rows need, the arena that is there before included.
class PlanCacheTest : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::int64_t kTime = 96;

  static std::unique_ptr<runtime::Device> open() {
    if (std::string_view(GetParam()) != "test") return runtime::open_device(GetParam());
    return std::make_unique<runtime::test::TestDevice>(std::size_t{1} << 30);
  }

  explicit PlanCacheTest(const models::Seq2SeqConfig& config = small_config())
      : device_(open()), context_(*device_), model_(config), plans_(model_) {
    model_.parameters().allocate(context_, runtime::DType::kFloat32, true);
    model_.parameters().initialize(context_, 1);
  }

  std::size_t bytes_for(std::int64_t rows) const {
    runtime::ArenaPlanner planner;
    const models::Seq2SeqTraining plan(context_, model_, planner, {rows, kTime, kTime}, true);
    return planner.total();
  }
  void leave_room_for(std::int64_t rows) {
    const std::size_t room = (bytes_for(rows) + bytes_for(rows + 16)) / 2;
    taken_ = runtime::Buffer(*device_, device_->free_bytes() - room);
  }
  std::string refusal_of(std::int64_t rows) {
    const Error error = testing::error_of([&] {
      plans_.plan(context_, {rows, kTime, kTime}, true);
    });
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    return error.what();
  }
  /// Queues work in the memory of a plan.
  void use(std::int64_t rows) {
    plans_.plan(context_, {rows, kTime, kTime}, true);
    EXPECT_NE(plans_.arena().data({}), nullptr);
    context_.stream().fill_zero(plans_.arena().data({}), bytes_for(rows) / 2);
    context_.synchronize();
  }

  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  models::Seq2Seq model_;
  PlanCache plans_;
  runtime::Buffer taken_;
};

TEST_P(PlanCacheTest, UncountedPlansLeaveNoTrace) {
  runtime::Tuning tuning;
  context_.set_tuning(&tuning);
  plans_.uncounted_plan(context_, {3, 5, 7});
  EXPECT_TRUE(plans_.implementations().empty());
  EXPECT_TRUE(tuning.choices().empty());
  plans_.plan(context_, {3, 5, 7}, false);
  EXPECT_EQ(plans_.implementations().size(), 1u);
  EXPECT_FALSE(tuning.choices().empty());
}

TEST_P(PlanCacheTest, SaysWhatWouldFit) {
  leave_room_for(32);
  const std::string said = refusal_of(100);
  EXPECT_NE(said.find("a batch of 112 rows"), std::string::npos) << said;
  EXPECT_NE(said.find(fmt::format("takes {} MiB", bytes_for(112) >> 20)), std::string::npos)
      << said;
  EXPECT_NE(said.find("32 rows, 6144 tokens with padding, would fit"), std::string::npos) << said;
  EXPECT_NE(said.find("training.max_tokens"), std::string::npos) << said;
  use(32);
}

TEST_P(PlanCacheTest, GoesOnWithSmallerBatches) {
  use(16);
  leave_room_for(16);
  EXPECT_NE(refusal_of(64).find("would fit"), std::string::npos);
  use(16);
}

TEST_P(PlanCacheTest, SaysThatNothingFits) {
  taken_ = runtime::Buffer(*device_, device_->free_bytes() - bytes_for(16) / 2);
  EXPECT_NE(refusal_of(16).find("smaller model"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlanCacheTest, ::testing::Values("test"), testing::device_name);

/// A device that others may use too: its memory is asked for, but not taken.
class PlanCacheInCompany : public PlanCacheTest {
 protected:
  PlanCacheInCompany() : PlanCacheTest(deep_config()) {}

  /// Of many layers: the batch has fewer than 2^31 gates of a layer.
  static models::Seq2SeqConfig deep_config() {
    models::Seq2SeqConfig config = small_config();
    config.encoder_layers = config.decoder_layers = 8;
    return config;
  }
};

// A batch for more memory than any GPU has is refused; how many rows would fit follows from the
// free memory that the message itself names, whatever others take meanwhile.
TEST_P(PlanCacheInCompany, SaysWhatWouldFitAndGoesOn) {
  constexpr std::size_t kMoreThanAnyGpu = std::size_t{200} << 30;
  constexpr std::int64_t kStep = 16;
  const std::size_t step_bytes = bytes_for(2 * kStep) - bytes_for(kStep);
  const std::int64_t rows = kStep * static_cast<std::int64_t>(kMoreThanAnyGpu / step_bytes);
  use(kStep);
  const std::string said = refusal_of(rows);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(said, found,
                                std::regex("has ([0-9]+) MiB free; ([0-9]+) rows, .* would fit")))
      << said;
  const std::size_t free = std::stoull(found[1]) << 20;
  const std::int64_t fitting = std::stoll(found[2]);
  EXPECT_EQ(fitting % kStep, 0) << said;
  EXPECT_LT(bytes_for(fitting), free + (std::size_t{1} << 20)) << said;
  EXPECT_GT(bytes_for(fitting + kStep), free) << said;
  use(kStep);
}

std::vector<const char*> limited_devices() {
  std::vector<const char*> names = testing::device_names();
  std::erase_if(names, [](const char* name) { return std::string_view(name) == "cpu"; });
  return names;
}
INSTANTIATE_TEST_SUITE_P(Devices, PlanCacheInCompany, ::testing::ValuesIn(limited_devices()),
                         testing::device_name);

}  // namespace
}  // namespace sluice::model_files
