#include "model_files/batch_upload.h"

#include "model_files/plan_cache.h"
#include "unit/support/on_device.h"

namespace sluice::model_files {
namespace {

using testing::DType;
using testing::Shape;
using testing::Tensor;
using Ints = std::vector<std::int32_t>;
using Floats = std::vector<float>;

class BatchUploadTest : public testing::OnDevice {
 protected:
  template <typename T>
  void expect(const Tensor& tensor, const Shape& shape, const std::vector<T>& values) {
    ASSERT_TRUE(tensor);
    EXPECT_EQ(tensor.dtype(), base::dtype_of<T>());
    EXPECT_EQ(tensor.shape(), shape);
    EXPECT_EQ(context_.download<T>(tensor), values);
  }

  BatchUpload upload_;
};

TEST_P(BatchUploadTest, PadsFramesAndValues) {
  data::Batch batch;
  batch.rows = 2;
  batch.source_time = batch.target_time = 2;
  batch.features = {1, 2, 3, 4, 5, 6, -7.5F, 8, 9, 10, 11, 12};
  batch.source_lengths = {2, 1};
  batch.values = {0.5F, 1.5F, 2.5F, 3.5F};
  batch.target_lengths = {2, 1};
  batch.global_row = {40, 41};
  const UploadedStep step = upload_.upload(context_, batch, {3, 4, 3}, {7, 0.25, 0.5});
  EXPECT_EQ(step.batch.extent, (models::Extent{3, 4, 3}));
  expect<float>(step.batch.source, {4, 3, 3}, {1,     2, 3, 4,  5,  6,  0, 0, 0,  //
                                               -7.5F, 8, 9, 10, 11, 12, 0, 0, 0,  //
                                               0,     0, 0, 0,  0,  0,  0, 0, 0,  //
                                               0,     0, 0, 0,  0,  0,  0, 0, 0});
  expect<std::int32_t>(step.batch.source_lengths, {3}, {2, 1, 0});
  expect<float>(step.batch.target_out, {3, 3, 1}, {0.5F, 1.5F, 0, 2.5F, 3.5F, 0, 0, 0, 0});
  expect<std::int32_t>(step.batch.target_lengths, {3}, {2, 1, 0});
  expect<std::int32_t>(step.batch.row_ids, {3}, {40, 41, 0});
  EXPECT_FALSE(step.batch.target_in);
  expect<std::int32_t>(step.step, {1}, {7});
  expect<double>(step.learning_rate, {1}, {0.25});
  expect<double>(step.scale, {1}, {0.5});
}

TEST_P(BatchUploadTest, LeavesAbsentWhatABatchLacks) {
  data::Batch batch;  // of a language model
  batch.rows = 2;
  batch.target_time = 3;
  batch.target_in = {2, 2, 5, 6, 7, 0};
  batch.target_out = {5, 6, 7, 3, 3, 0};
  batch.target_lengths = {3, 2};
  batch.global_row = {0, 1};
  const models::Batch uploaded = upload_.upload(context_, batch);
  EXPECT_EQ(uploaded.extent, (models::Extent{2, 0, 3}));
  EXPECT_FALSE(uploaded.source);
  EXPECT_FALSE(uploaded.source_lengths);
  expect<std::int32_t>(uploaded.target_in, {3, 2}, batch.target_in);
  expect<std::int32_t>(uploaded.target_out, {3, 2}, batch.target_out);
  // And again what it has, after one that lacked it: nothing is kept from before.
  batch.source_time = 1;
  batch.source = {8, 9};
  expect<std::int32_t>(upload_.upload(context_, batch).source, {1, 2}, {8, 9});
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchUploadTest, testing::devices(), testing::device_name);

TEST(PlanCache, RoundsLikeTimesAlikeAndKeepsNoneAndOne) {
  const auto capacity = [](std::int64_t source, std::int64_t target) {
    return PlanCache::capacity_of({5, source, target});
  };
  EXPECT_EQ(capacity(7, 9), (models::Extent{16, 8, 12}));
  EXPECT_EQ(capacity(0, 9), (models::Extent{16, 0, 12}));
  EXPECT_EQ(capacity(6, 1), (models::Extent{16, 8, 1}));
  for (std::int64_t time = 1; time < 20; ++time) {
    const models::Extent both = capacity(time, time);
    EXPECT_EQ(both.source_time, both.target_time);
    EXPECT_GE(both.source_time, time);
  }
}

}  // namespace
}  // namespace sluice::model_files
