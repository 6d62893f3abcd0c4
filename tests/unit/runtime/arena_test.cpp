#include "runtime/arena.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

TEST(ArenaPlanner, ScopesShareScratchAndSavedNever) {
  ArenaPlanner planner;
  const Slot saved = planner.saved(DType::kFloat32, {10});
  Slot outer, first, second;
  {
    const ScratchScope scope(planner);
    outer = planner.scratch_bytes(100);
    {
      const ScratchScope inner(planner);
      first = planner.scratch_bytes(1000);
    }
    {
      const ScratchScope inner(planner);
      second = planner.scratch_bytes(200);
    }
  }
  const Slot later = planner.saved_bytes(1);
  EXPECT_EQ(first.offset, second.offset);
  EXPECT_GE(first.offset, outer.offset + outer.bytes);
  EXPECT_GE(later.offset, saved.offset + saved.bytes);
  EXPECT_GE(planner.scratch_total(), first.offset + first.bytes);
  EXPECT_LT(planner.scratch_total(), 100u + 1000u + 200u + 3 * 64u);
  EXPECT_EQ(first.offset % 64, 0u);
}

TEST(Arena, RefusesAViewLargerThanItsSlot) {
  const std::unique_ptr<Device> device = open_device("cpu");
  ArenaPlanner planner;
  const Slot slot = planner.saved(DType::kFloat32, {3, 4});
  const Arena arena(*device, planner);
  EXPECT_EQ(arena.tensor(slot, DType::kFloat32, {2, 4}).element_count(), 8);
  EXPECT_THROW(arena.tensor(slot, DType::kFloat32, {4, 4}), Error);
}

}  // namespace
}  // namespace sluice::runtime
