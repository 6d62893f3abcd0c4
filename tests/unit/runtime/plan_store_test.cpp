#include "runtime/plan_store.h"

#include <gtest/gtest.h>

#include "runtime/test/test_device.h"
#include "unit/support/on_device.h"
#include "unit/support/temporary_folder.h"

namespace sluice::runtime {
namespace {

constexpr std::size_t kKiB = 1024;

/// Books memory for itself and weights in a layout.
struct Plan {
  Plan(ArenaPlanner& planner, std::size_t working, const std::string& layout, std::size_t weights)
      : memory(planner.saved_bytes(working)), packed(planner.packed_bytes(layout, weights)) {}
  /// Writes what it has been given, as packing and running do.
  void run(const Context& context, const Arena& arena, std::uint64_t version = 1) const {
    context.stream().fill_zero(arena.data(memory), memory.bytes);
    if (packed.holds(version)) return;
    context.stream().fill_zero(arena.data(packed), packed.bytes);
    packed.note_packed(version);
  }

  Slot memory, packed;
};

class PlanStoreTest : public testing::OnDevice {
 protected:
  /// A plan whose key says all of it.
  Plan& plan(PlanStore& store, std::size_t working, const std::string& layout = "weights",
             std::size_t weights = kKiB, const Context* context = nullptr) {
    const std::string key = fmt::format("{} {} {}", working, layout, weights);
    return store.plan<Plan>(context == nullptr ? context_ : *context, key,
                            [&](ArenaPlanner& planner) {
                              return std::make_unique<Plan>(planner, working, layout, weights);
                            });
  }
  void run(PlanStore& store, std::size_t working, const std::string& layout = "weights",
           std::size_t weights = kKiB) {
    plan(store, working, layout, weights).run(context_, store.arena());
  }
};

TEST(RoundToFew, GivesFewSizesWithLittleToSpare) {
  std::int64_t last = 0, sizes = 0;
  for (std::int64_t size = 1; size <= 4096; ++size) {
    const std::int64_t rounded = round_to_few(size);
    ASSERT_GE(rounded, size);
    ASSERT_GE(rounded, last);
    ASSERT_EQ(round_to_few(rounded), rounded);
    ASSERT_LT(rounded, size <= 8 ? 2 * size : size * 3 / 2 + 1);
    sizes += rounded != last ? 1 : 0;
    last = rounded;
  }
  EXPECT_EQ(sizes, 22);
  EXPECT_EQ(round_to_few(0), 0);
}

TEST_P(PlanStoreTest, MakesAPlanOnceAndPacksALayoutOnce) {
  PlanStore store(kKiB * kKiB);
  Plan* const first = &plan(store, 100);
  for (const std::size_t working : {100, 3000, 100, 200, 3000}) run(store, working);
  EXPECT_EQ(&plan(store, 100), first);
  EXPECT_EQ(store.plans_made(), 3);
  EXPECT_EQ(store.plans(), 3u);
  EXPECT_EQ(store.packs(), 1);
  run(store, 100, "another");
  EXPECT_EQ(store.packs(), 2);
  // Those without a name are each plan's own.
  run(store, 100, "");
  run(store, 200, "");
  EXPECT_EQ(store.packs(), 4);
  // One arena for all, of the largest.
  EXPECT_EQ(store.bytes(), 3008 + 4 * kKiB);
}

TEST_P(PlanStoreTest, PacksAgainWhatHasChanged) {
  PlanStore store(kKiB * kKiB);
  plan(store, 100).run(context_, store.arena(), 1);
  plan(store, 200).run(context_, store.arena(), 2);
  EXPECT_EQ(store.packs(), 2);
  plan(store, 100).run(context_, store.arena(), 2);
  EXPECT_EQ(store.packs(), 2);
}

TEST_P(PlanStoreTest, PacksEachTimeWhereWeightsLieInTheArena) {
  PlanStore store(PlanStore::kNoBound, PlanStore::Weights::kPackedEachRun);
  for (int i = 0; i < 3; ++i) run(store, 64);
  EXPECT_FALSE(plan(store, 64).packed.holds(1));
  EXPECT_EQ(store.bytes(), 64 + kKiB);
}

TEST_P(PlanStoreTest, DropsThoseNotUsedForLongest) {
  PlanStore store(8 * kKiB);
  for (const char* layout : {"a", "b", "c", "d"}) run(store, kKiB, layout, 2 * kKiB);
  store.trim();
  EXPECT_LE(store.bytes(), 8 * kKiB);
  EXPECT_EQ(store.plans(), 3u);
  run(store, kKiB, "b", 2 * kKiB);
  EXPECT_EQ(store.plans_made(), 4) << "b was kept";
  run(store, kKiB, "a", 2 * kKiB);
  EXPECT_EQ(store.plans_made(), 5) << "a was dropped";
  store.trim();
  run(store, kKiB, "b", 2 * kKiB);
  EXPECT_EQ(store.plans_made(), 5) << "c went before b";
}

TEST_P(PlanStoreTest, KeepsOthersThanThoseTooLargeForIt) {
  PlanStore store(8 * kKiB);
  run(store, kKiB);
  run(store, 100 * kKiB);
  EXPECT_GE(store.bytes(), 100 * kKiB) << "it is in use";
  store.trim();
  EXPECT_EQ(store.plans(), 1u);
  EXPECT_LE(store.bytes(), 8 * kKiB);
  run(store, kKiB);
  EXPECT_EQ(store.plans_made(), 2);
  EXPECT_EQ(store.packs(), 1);
}

TEST_P(PlanStoreTest, KeepsNothingWithoutRoom) {
  PlanStore store(0);
  for (int i = 0; i < 2; ++i) {
    run(store, kKiB);
    store.trim();
    EXPECT_EQ(store.bytes(), 0u);
    EXPECT_EQ(store.plans(), 0u);
  }
  EXPECT_EQ(store.packs(), 2);
}

TEST_P(PlanStoreTest, KeepsNoMorePlansThanItMay) {
  PlanStore store(kKiB * kKiB);
  for (std::size_t i = 0; i < PlanStore::kMostPlans + 5; ++i) run(store, 64 * (i + 1));
  store.trim();
  EXPECT_EQ(store.plans(), PlanStore::kMostPlans);
}

TEST_P(PlanStoreTest, LetsGoOfAllAndGoesOn) {
  PlanStore store(kKiB * kKiB);
  run(store, kKiB);
  store.clear();
  EXPECT_EQ(store.bytes(), 0u);
  run(store, kKiB);
  EXPECT_EQ(store.plans_made(), 2);
}

/// On a device of limited memory.
class LimitedPlanStore : public PlanStoreTest {
 protected:
  static constexpr std::size_t kMemory = 64 * kKiB;
  test::TestDevice small_{kMemory};
  Context on_small_{small_};
};

TEST_P(LimitedPlanStore, DropsWhatItKeepsWhenMemoryRunsOut) {
  PlanStore store(10 * kMemory);
  plan(store, 8 * kKiB, "a", 24 * kKiB, &on_small_).run(on_small_, store.arena());
  int tries = 0;
  store.with_room([&] {
    ++tries;
    plan(store, 8 * kKiB, "b", 40 * kKiB, &on_small_).run(on_small_, store.arena());
  });
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(store.plans(), 1u);
  store.with_room([&] {
    ++tries;
    const Buffer beside(small_, 32 * kKiB);  // taken while a plan runs
  });
  EXPECT_EQ(tries, 4);
  EXPECT_EQ(store.bytes(), 0u);
}

TEST_P(LimitedPlanStore, RefusesWhatNeverFits) {
  PlanStore store(kMemory);
  const auto run_large = [&] {
    store.with_room([&] { plan(store, 2 * kMemory, "a", kKiB, &on_small_); });
  };
  EXPECT_EQ(testing::error_of(run_large).code(), ErrorCode::kOutOfMemory);
  EXPECT_EQ(store.bytes(), 0u);
  plan(store, 8 * kKiB, "a", kKiB, &on_small_).run(on_small_, store.arena());
  on_small_.synchronize();
}

TEST_P(LimitedPlanStore, TriesOtherErrorsOnce) {
  PlanStore store(kMemory);
  plan(store, 8 * kKiB, "a", kKiB, &on_small_);
  int tries = 0;
  const auto fail = [&] {
    store.with_room([&] {
      ++tries;
      base::fail(ErrorCode::kInvalidArgument, "no");
    });
  };
  EXPECT_EQ(testing::error_of(fail).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(tries, 1);
  EXPECT_EQ(store.plans(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlanStoreTest, testing::devices(), testing::device_name);
INSTANTIATE_TEST_SUITE_P(Devices, LimitedPlanStore, ::testing::Values("cpu"), testing::device_name);

}  // namespace
}  // namespace sluice::runtime
