#include "bench/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace sluice::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> best_of(const std::vector<std::vector<double>>& times,
                            const std::vector<bool>& is_peer) {
  std::vector<double> best;
  for (std::size_t i = 0; i < times.size(); ++i) {
    best.resize(times[i].size(), std::numeric_limits<double>::infinity());
    if (!is_peer[i]) continue;
    for (std::size_t turn = 0; turn < best.size(); ++turn) {
      best[turn] = std::min(best[turn], times[i][turn]);
    }
  }
  return best;
}

double median_ratio(const std::vector<double>& best, const std::vector<double>& own) {
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < best.size(); ++turn) ratios.push_back(best[turn] / own[turn]);
  return median(ratios);
}

std::string mebibytes(std::size_t bytes) {
  constexpr double kFew = 10;
  const double count = static_cast<double>(bytes) / (1 << 20);
  return fmt::format("{:.{}f}", count, count < kFew ? 2 : 0);
}

}  // namespace sluice::bench
