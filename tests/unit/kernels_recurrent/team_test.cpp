#include "kernels/recurrent/cpu/team.h"

#include <gtest/gtest.h>

#include <vector>

namespace sluice::kernels::recurrent::cpu {
namespace {

// Every panel of every row must be some thread's, and only one's, in each direction.
TEST(Team, SharesEveryPanelOfEveryRowOnce) {
  for (const std::int64_t directions : {1, 2}) {
    for (const std::int64_t rows : {1, 7, 8, 17, 64}) {
      for (const std::int64_t panels : {1, 3, 32}) {
        for (std::int64_t threads = 1; threads <= 9; ++threads) {
          const std::int64_t own_rows = threads % 2 == 0 ? 8 : 32;
          std::vector<int> owners(static_cast<std::size_t>(directions * rows * panels), 0);
          std::vector<int> members(static_cast<std::size_t>(threads), 0), sizes(members);
          for (std::int64_t thread = 0; thread < threads + 2; ++thread) {
            const Share share =
                share_of(directions, rows, panels, panels, own_rows, threads, thread);
            if (share.idle()) continue;
            ASSERT_LT(share.group, threads);
            ++members[static_cast<std::size_t>(share.group)];
            sizes[static_cast<std::size_t>(share.group)] = static_cast<int>(share.group_size);
            for (auto d = share.directions.begin; d < share.directions.end; ++d) {
              for (auto row = share.rows.begin; row < share.rows.end; ++row) {
                for (auto panel = share.panels.begin; panel < share.panels.end; ++panel) {
                  ++owners[static_cast<std::size_t>((d * rows + row) * panels + panel)];
                }
              }
            }
          }
          EXPECT_EQ(owners, std::vector<int>(owners.size(), 1))
              << directions << ' ' << rows << ' ' << panels << ' ' << threads;
          EXPECT_EQ(members, sizes);  // else a barrier would wait for ever
        }
      }
    }
  }
}

TEST(Team, UsesFewThreadsForLittleWork) {
  EXPECT_EQ(useful_threads(1000, 16), 1);
  EXPECT_EQ(useful_threads(800'000, 16), 4);
  EXPECT_EQ(useful_threads(1'000'000'000, 16), 16);
}

}  // namespace
}  // namespace sluice::kernels::recurrent::cpu
