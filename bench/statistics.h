#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::bench {

/// Of at least one value.
double median(std::vector<double> values);

/// For each turn the fastest time of those implementations that `is_peer` marks, infinity if there
/// are none. `times` is [implementation][turn].
std::vector<double> best_of(const std::vector<std::vector<double>>& times,
                            const std::vector<bool>& is_peer);

/// Median over the turns of best / own.
double median_ratio(const std::vector<double>& best, const std::vector<double>& own);

/// Of a table: whole ones, of few with two decimals.
std::string mebibytes(std::size_t bytes);

}  // namespace sluice::bench
