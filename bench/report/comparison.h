#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/report/result_file.h"

namespace sluice::bench::report {

/// All that was measured of one workload.
struct Row {
  Workload workload;
  std::vector<Measurement> measured;  ///< fastest first

  /// The fastest peer, the fastest own implementation, and what "auto" picks; null if there is
  /// none.
  const Measurement* best_peer() const;
  const Measurement* best_own() const;
  const Measurement* default_own() const;
  /// Time of the best peer / time of `own`: above 1 we are faster. Nothing if either is missing. Of
  /// two that took turns in one run it is the median of the turns' ratios.
  std::optional<double> ratio_of(const Measurement* own) const;
};

/// Rows with the same device, machine, cell, dtype and pass.
struct Group {
  std::string device, machine, cell, dtype, pass;
  std::vector<Row> rows;

  /// "lstm bfloat16 forward on cuda:0: NVIDIA H200"
  std::string title() const;
};

/// Of the rows that have both ratios.
struct Summary {
  std::size_t rows = 0;
  double default_mean = 0;  ///< geometric
  double best_mean = 0;     ///< geometric
  double default_lowest = 0;
  double best_lowest = 0;
};

/// Joins by workload, in the order of first appearance. Throws Error naming both files if one
/// implementation was measured twice on the same workload.
std::vector<Group> compare(const std::vector<Measurement>& measurements);

/// Nothing if no row has both ratios.
std::optional<Summary> summarize(const std::vector<const Row*>& rows);
std::optional<Summary> summarize(const Group& group);
std::optional<Summary> summarize(const std::vector<Group>& groups);

}  // namespace sluice::bench::report
