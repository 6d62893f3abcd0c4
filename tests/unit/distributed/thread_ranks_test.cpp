#include "distributed/threads/thread_ranks.h"

#include <cmath>
#include <numeric>
#include <random>
#include <type_traits>

#include "unit/support/on_device.h"
#include "unit/support/on_ranks.h"

namespace sluice::distributed {
namespace {

using testing::no_errors;
using testing::on_ranks;

/// Each rank opens a device of its own.
class ThreadRanks : public ::testing::TestWithParam<const char*> {
 protected:
  ThreadRanks() { RecordProperty("seed", std::to_string(seed_)); }

  /// What rank `rank` has, `count` numbers: the same for whoever asks.
  template <typename T>
  std::vector<T> drawn(std::int64_t rank, std::size_t count) const {
    std::mt19937 random(seed_ + static_cast<unsigned>(rank));
    std::vector<T> values(count);
    for (T& value : values) {
      value = static_cast<T>(random() % 200);
      // Sizes differ so much that a sum depends on its order.
      if constexpr (std::is_floating_point_v<T>) {
        value = std::ldexp(value - 99.5f, static_cast<int>(random() % 40));
      }
    }
    return values;
  }

  /// Runs `work(ranks, context, tensor)` on tensors of drawn numbers and returns what each rank has
  /// afterwards.
  template <typename T, typename Work>
  std::vector<std::vector<T>> after(std::int64_t ranks, std::size_t count, const Work& work) const {
    std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
    const auto thrown = on_ranks(ranks, [&](Communicator& rank) {
      const auto device = runtime::open_device(GetParam());
      const Context context(*device);
      const runtime::Buffer memory(*device, count * sizeof(T));
      const Tensor tensor = memory.tensor(base::dtype_of<T>(), {static_cast<std::int64_t>(count)});
      context.upload<T>(tensor, drawn<T>(rank.rank(), count));
      work(rank, context, tensor);
      results[static_cast<std::size_t>(rank.rank())] = context.download<T>(tensor);
    });
    EXPECT_EQ(thrown, no_errors(ranks));
    return results;
  }

  template <typename T, typename Reduce>
  void expect_reduced(Reduction reduction, const Reduce& reduce) const {
    for (const std::int64_t ranks : {1, 2, 3, 5}) {
      // Fewer elements than ranks, as many, and so many that shares are uneven.
      for (const std::size_t count : {1u, 3u, 5u, 1003u}) {
        std::vector<T> expected = drawn<T>(0, count);
        for (std::int64_t rank = 1; rank < ranks; ++rank) {
          const std::vector<T> more = drawn<T>(rank, count);
          for (std::size_t i = 0; i < count; ++i) expected[i] = reduce(expected[i], more[i]);
        }
        const auto found = after<T>(
            ranks, count, [&](Communicator& rank, const Context& context, const Tensor& tensor) {
              rank.all_reduce(context, tensor, reduction);
            });
        for (const std::vector<T>& one : found) EXPECT_EQ(one, expected) << ranks << ' ' << count;
      }
    }
  }

  unsigned seed_ = std::random_device()();
};

TEST_P(ThreadRanks, AddUpInTheOrderOfRanks) {
  expect_reduced<float>(Reduction::kSum, [](float a, float b) { return a + b; });
  expect_reduced<double>(Reduction::kSum, [](double a, double b) { return a + b; });
}

TEST_P(ThreadRanks, FindTheLargest) {
  expect_reduced<std::uint8_t>(Reduction::kMax,
                               [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
}

/// The halves of a sum make the whole, also of rounded numbers.
TEST_P(ThreadRanks, AddUpByParts) {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    const auto count = static_cast<std::size_t>(ranks * 77);
    const auto whole = after<float>(ranks, count, [](auto& rank, auto& context, auto& tensor) {
      rank.all_reduce(context, tensor, Reduction::kSum);
    });
    const auto parts = after<float>(ranks, count, [](auto& rank, auto& context, auto& tensor) {
      rank.reduce_scatter(context, tensor);
      rank.all_gather(context, tensor);
    });
    EXPECT_EQ(parts, whole) << ranks;
  }
}

TEST_P(ThreadRanks, RefusePartsThatAreUneven) {
  const auto thrown = on_ranks(2, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const runtime::Buffer memory(*device, 3 * sizeof(float));
    rank.reduce_scatter(context, memory.tensor(base::DType::kFloat32, {3}));
  });
  for (const std::string& one : thrown)
    EXPECT_EQ(one, "3 elements do not divide into 2 equal parts");
}

TEST_P(ThreadRanks, RoundSumsOfBfloat16) {
  const auto thrown = on_ranks(3, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const runtime::Buffer memory(*device, 2 * sizeof(base::BFloat16));
    const Tensor sums = memory.tensor(base::DType::kBFloat16, {2});
    // 256 + 1 is no number of 8 bits, so the first sum stays 256 and the second gets 258 at once.
    const float own[3][2] = {{256, 1}, {1, 1}, {1, 256}};
    const float* mine = own[rank.rank()];
    context.upload<base::BFloat16>(
        sums, std::vector<base::BFloat16>{base::BFloat16(mine[0]), base::BFloat16(mine[1])});
    rank.all_reduce(context, sums, Reduction::kSum);
    const auto found = context.download<base::BFloat16>(sums);
    EXPECT_EQ(static_cast<float>(found[0]), 256);
    EXPECT_EQ(static_cast<float>(found[1]), 258);
  });
  EXPECT_EQ(thrown, no_errors(3));
}

TEST_P(ThreadRanks, GiveWhatOneHas) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    for (std::int64_t root = 0; root < ranks; ++root) {
      const auto found = after<float>(
          ranks, 77, [&](Communicator& rank, const Context& context, const Tensor& tensor) {
            rank.broadcast(context, tensor, root);
          });
      for (const auto& one : found) EXPECT_EQ(one, drawn<float>(root, 77)) << ranks << ' ' << root;
    }
  }
}

/// Ranks run ahead of each other on host and device; nobody may take what belongs to another round.
TEST_P(ThreadRanks, ManyRoundsStayApart) {
  constexpr std::int64_t kRanks = 3, kRounds = 200;
  const auto thrown = on_ranks(kRanks, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const runtime::Buffer memory(*device, kRounds * sizeof(double));
    std::vector<double> own(kRounds);
    std::iota(own.begin(), own.end(), static_cast<double>(1000 * rank.rank()));
    const Tensor all = memory.tensor(runtime::DType::kFloat64, {kRounds});
    context.upload<double>(all, own);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      rank.all_reduce(context, all.slice(0, round, round + 1), Reduction::kSum);
      const std::string said = std::to_string(rank.rank() * kRounds + round);
      const auto heard = rank.exchange(said);
      for (std::int64_t other = 0; other < kRanks; ++other) {
        ASSERT_EQ(heard[static_cast<std::size_t>(other)], std::to_string(other * kRounds + round));
      }
    }
    const std::vector<double> sums = context.download<double>(all);
    for (std::int64_t round = 0; round < kRounds; ++round) {
      ASSERT_EQ(sums[static_cast<std::size_t>(round)], 3000 + 3 * static_cast<double>(round));
    }
  });
  EXPECT_EQ(thrown, no_errors(kRanks));
}

/// Whoever waits, on the host or in work of a device, hears what made another rank fail.
TEST_P(ThreadRanks, WhatOneThrowsEndsTheOthers) {
  for (const bool on_device : {false, true}) {
    const auto thrown = on_ranks(3, [&](Communicator& rank) {
      const auto device = runtime::open_device(GetParam());
      const Context context(*device);
      const runtime::Buffer memory(*device, 4 * sizeof(float));
      const Tensor tensor = memory.tensor(runtime::DType::kFloat32, {4});
      context.zero(tensor);
      rank.exchange("");
      if (rank.rank() == 1) throw Error(ErrorCode::kNumeric, "rank 1 has a headache");
      if (on_device) rank.all_reduce(context, tensor, Reduction::kSum);
      context.synchronize();
      if (!on_device) rank.exchange("");
    });
    for (const std::string& one : thrown) EXPECT_EQ(one, "rank 1 has a headache") << on_device;
  }
}

TEST_P(ThreadRanks, RefuseOtherTensors) {
  const auto thrown = on_ranks(2, [&](Communicator& rank) {
    const auto device = runtime::open_device(GetParam());
    const Context context(*device);
    const runtime::Buffer memory(*device, 64);
    const Tensor numbers = memory.tensor(runtime::DType::kInt32, {4});
    EXPECT_THROW(rank.all_reduce(context, numbers, Reduction::kSum), Error);
    EXPECT_THROW(rank.all_reduce(context, numbers, Reduction::kMax), Error);
    EXPECT_THROW(rank.broadcast(context, numbers, 2), Error);
  });
  EXPECT_EQ(thrown, no_errors(2));
}

INSTANTIATE_TEST_SUITE_P(Devices, ThreadRanks, testing::host_devices());

TEST(Agreement, NamesWhoDiffersAndInWhat) {
  const auto thrown = on_ranks(3, [](Communicator& rank) {
    agree(rank, "seed", "7");
    agree(rank, "configuration", rank.rank() == 2 ? "b" : "a");
  });
  for (const std::string& one : thrown) {
    EXPECT_EQ(one,
              "rank 2 has another configuration than rank 0; start all ranks with the same files "
              "and options");
  }
}

TEST(Agreement, HearsEverybody) {
  const auto thrown = on_ranks(3, [](Communicator& rank) {
    EXPECT_TRUE(any(rank, rank.rank() == 1));
    EXPECT_FALSE(any(rank, false));
    EXPECT_EQ(from_first(rank, std::to_string(rank.rank())), "0");
  });
  EXPECT_EQ(thrown, no_errors(3));
}

TEST(Shares, AreAllElementsOnceInOrder) {
  for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
    for (const std::int64_t ranks : {1, 2, 3, 8}) {
      std::int64_t end = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const Share share = share_of(count, rank, ranks);
        EXPECT_EQ(share.begin, end);
        EXPECT_LE(share.end - share.begin, count / ranks + 1);
        end = share.end;
      }
      EXPECT_EQ(end, count);
    }
  }
}

}  // namespace
}  // namespace sluice::distributed
