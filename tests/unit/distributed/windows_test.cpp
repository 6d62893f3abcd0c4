// Memory that ranks in threads share. Windows of MPI are tested where programs are run.
#include "unit/support/on_device.h"
#include "unit/support/on_ranks.h"

namespace sluice::distributed {
namespace {

class Windows : public ::testing::TestWithParam<const char*> {};

/// Each rank adds to each element of all ranks' memory, many times: no addition is lost.
TEST_P(Windows, AreOneRanksAtATime) {
  constexpr std::int64_t kRanks = 4, kRounds = 50, kCount = 300;
  std::vector<std::vector<double>> found(kRanks);
  std::vector<std::int64_t> drawn(kRanks * kRounds);
  const auto thrown = testing::on_ranks(kRanks, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const runtime::Buffer memory(*device, kCount * sizeof(double));
    const Tensor tensor = memory.tensor(base::DType::kFloat64, {kCount});
    const auto window = rank.open_window(context, 64 + kCount * sizeof(double), 3);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      ++drawn[static_cast<std::size_t>(window->add(2, 1))];
      for (std::int64_t i = 0; i < kRanks; ++i) {
        const std::int64_t owner = (rank.rank() + i) % kRanks;
        window->lock(owner);
        window->get(context, owner, 64, tensor);
        std::vector<double> values = context.download<double>(tensor);
        for (double& value : values) value += static_cast<double>(1 + owner);
        context.upload<double>(tensor, values);
        window->put(context, owner, 64, tensor);
        window->unlock(context, owner);
      }
    }
    rank.exchange("");
    const std::int64_t next = (rank.rank() + 1) % kRanks;
    window->lock(next);
    window->get(context, next, 64, tensor);
    window->unlock(context, next);
    found[static_cast<std::size_t>(rank.rank())] = context.download<double>(tensor);
    EXPECT_EQ(window->add(2, 0), kRanks * kRounds);
    EXPECT_EQ(window->add(0, 0), 0);
    EXPECT_THROW(window->put(context, 0, 72, tensor), Error);
    window->finish();
  });
  EXPECT_EQ(thrown, testing::no_errors(kRanks));
  EXPECT_EQ(drawn, std::vector<std::int64_t>(kRanks * kRounds, 1));
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const auto sum = static_cast<double>(kRanks * kRounds * (1 + (rank + 1) % kRanks));
    EXPECT_EQ(found[static_cast<std::size_t>(rank)], std::vector<double>(kCount, sum)) << rank;
  }
}

/// A rank that waits for one that failed while it held memory hears of it.
TEST_P(Windows, WakeWhoWaitsForOneThatFailed) {
  const auto thrown = testing::on_ranks(3, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const auto window = rank.open_window(context, 8, 1);
    if (rank.rank() == 1) window->lock(2);
    rank.exchange("");
    if (rank.rank() == 1) throw Error(ErrorCode::kDevice, "the cable is loose");
    window->lock(2);
  });
  for (const std::string& one : thrown) EXPECT_EQ(one, "the cable is loose");
}

INSTANTIATE_TEST_SUITE_P(Devices, Windows, testing::host_devices());

}  // namespace
}  // namespace sluice::distributed
