#include "profiling/breakdown.h"

#include <gtest/gtest.h>

#include <random>

#include "unit/profiling/sample_profile.h"

namespace sluice::profiling {
namespace {

const BreakdownRow& row_of(const Breakdown& breakdown, const std::string& module) {
  for (const BreakdownRow& row : breakdown.rows) {
    if (row.module == module) return row;
  }
  ADD_FAILURE() << "no row " << module;
  return breakdown.rest;
}

TEST(Breakdown, GivesEachModuleItsOwnTime) {
  const Breakdown breakdown = break_down(sample_profile());
  ASSERT_EQ(breakdown.rows.size(), 3U);
  EXPECT_EQ(breakdown.rows[0].module, "encoder.l0");  // the longest
  EXPECT_DOUBLE_EQ(breakdown.rows[0].host_ms, 8);
  EXPECT_DOUBLE_EQ(row_of(breakdown, "encoder").host_ms, 4);
  EXPECT_DOUBLE_EQ(row_of(breakdown, "embedding").host_ms, 2);
  EXPECT_EQ(row_of(breakdown, "embedding").calls, 2);
  EXPECT_DOUBLE_EQ(breakdown.rest.host_ms, 6);
  EXPECT_DOUBLE_EQ(breakdown.total_ms, 20);
  EXPECT_TRUE(breakdown.kernels.empty());
}

TEST(Breakdown, SharesTheGpusTimeAmongWhatRunsSideBySide) {
  const Breakdown breakdown = break_down(sample_gpu_profile());
  EXPECT_DOUBLE_EQ(row_of(breakdown, "embedding").device_ms, 4);
  EXPECT_DOUBLE_EQ(row_of(breakdown, "encoder.l0").device_ms, 2 * (2 + 1));
  EXPECT_DOUBLE_EQ(row_of(breakdown, "encoder").device_ms, 2 * 1);
  EXPECT_DOUBLE_EQ(breakdown.rest.device_ms, 2);
  EXPECT_DOUBLE_EQ(breakdown.device_idle_ms, 6);
  EXPECT_EQ(row_of(breakdown, "encoder").pieces, 2);
  ASSERT_EQ(breakdown.kernels.size(), 3U);
  EXPECT_EQ(breakdown.kernels[0].name, "lstm_forward");
  EXPECT_EQ(breakdown.kernels[0].runs, 4);
  EXPECT_DOUBLE_EQ(breakdown.kernels[0].device_ms, 8);
}

TEST(Breakdown, SumsToWhatWasMeasured) {
  std::mt19937 random(3);
  runtime::Profile profile = sample_gpu_profile();
  const auto below = [&](std::uint32_t most) {
    return static_cast<std::uint32_t>(random() % most);
  };
  for (int i = 0; i < 300; ++i) {  // some begin before it or end after it
    const std::int64_t start = profile.begin - 2'000'000 + below(24'000'000);
    profile.device.work.push_back({start, start + below(900'000), below(3), below(4), below(5)});
  }
  const Breakdown breakdown = break_down(profile);
  double host = breakdown.rest.host_ms, device = breakdown.rest.device_ms;
  for (const BreakdownRow& row : breakdown.rows) {
    host += row.host_ms;
    device += row.device_ms;
  }
  double kernels = 0;
  for (const KernelRow& kernel : breakdown.kernels) kernels += kernel.device_ms;
  EXPECT_NEAR(host, breakdown.total_ms, 1e-9);
  EXPECT_NEAR(device + breakdown.device_idle_ms, breakdown.total_ms, 1e-9);
  EXPECT_NEAR(kernels, device, 1e-9);
  EXPECT_GE(breakdown.device_idle_ms, 0);
}

TEST(Breakdown, PrintsATable) {
  EXPECT_EQ(breakdown_text(sample_profile(), "cpu"),
            "Where the time went, steps 6 to 7 on cpu: 10.000 ms each\n\n"
            "module                 calls        ms   share\n"
            "encoder.l0 forward         1     4.000  40.0 %\n"
            "encoder forward            1     2.000  20.0 %\n"
            "embedding forward          1     1.000  10.0 %\n"
            "not attributed                   3.000  30.0 %\n"
            "in all                          10.000 100.0 %\n");
  const std::string gpu = breakdown_text(sample_gpu_profile(), "cuda:0 (H200)");
  for (const char* line : {"module               kernels    GPU ms   share     calls   host ms\n",
                           "encoder.l0 forward         1     3.000  30.0 %         1     4.000\n",
                           "not attributed             1     1.000  10.0 %               3.000\n",
                           "GPU idle                         3.000  30.0 %\n",
                           "in all                          10.000 100.0 %              10.000\n",
                           "        2     4.000  40.0 %  lstm_forward\n"}) {
    EXPECT_NE(gpu.find(line), std::string::npos) << line << gpu;
  }
}

}  // namespace
}  // namespace sluice::profiling
