// One GPU can have one rank, whose sums are its own numbers. So these show that NCCL is found,
// takes every type, and can be captured; sums are shown where there are two GPUs
// (end_to_end/ranks_test.cpp).
#include "distributed/nccl_part.h"
#include "distributed/threads/thread_ranks.h"
#include "unit/support/on_device.h"

namespace sluice::distributed {
namespace {

class NcclRanks : public testing::OnDevice {
 protected:
  void SetUp() override {
    if (context_.device().type() != runtime::DeviceType::kCuda) {
      GTEST_SKIP() << "this is a test of GPUs";
    }
    rank_ = join_nccl(context_.device(), *hosts_.front());
  }

  std::vector<std::unique_ptr<Communicator>> hosts_ = threads::make_ranks(1);
  std::unique_ptr<Communicator> rank_;
};

TEST_P(NcclRanks, OneKeepsItsNumbers) {
  EXPECT_EQ(rank_->size(), 1);
  EXPECT_EQ(rank_->exchange("words"), std::vector<std::string>{"words"});
  const std::vector<float> floats{1.5f, -2.25f, 3e38f};
  const std::vector<double> doubles{1e300, 1.0 / 3};
  const std::vector<std::uint8_t> bytes{0, 1, 255};
  const std::vector<base::BFloat16> halves{base::BFloat16(1.5f), base::BFloat16(-300.0f)};
  const Tensor a = put(floats), b = put(doubles), c = put(bytes), d = put(halves);
  const auto work = [&] {
    rank_->all_reduce(context_, a, Reduction::kSum);
    rank_->all_reduce(context_, b, Reduction::kSum);
    rank_->all_reduce(context_, c, Reduction::kMax);
    rank_->broadcast(context_, a, 0);
    rank_->reduce_scatter(context_, a);
    rank_->all_gather(context_, b);
    rank_->all_reduce(context_, d, Reduction::kSum);
  };
  work();
  const auto graph = context_.stream().capture(work);
  for (int i = 0; i < 3; ++i) graph->launch(context_.stream());
  EXPECT_EQ(context_.download<float>(a), floats);
  EXPECT_EQ(context_.download<double>(b), doubles);
  EXPECT_EQ(context_.download<std::uint8_t>(c), bytes);
  EXPECT_EQ(context_.download<base::BFloat16>(d)[1].bits, halves[1].bits);
}

TEST_P(NcclRanks, RefuseAnotherDevice) {
  const auto cpu = runtime::open_device("cpu");
  const Context context(*cpu);
  const runtime::Buffer memory(*cpu, 4);
  EXPECT_THROW(
      rank_->all_reduce(context, memory.tensor(base::DType::kFloat32, {1}), Reduction::kSum),
      Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, NcclRanks, testing::devices(), testing::device_name);

}  // namespace
}  // namespace sluice::distributed
