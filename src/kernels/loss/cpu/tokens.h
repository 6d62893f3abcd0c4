#pragma once

#include <cstdint>

#include "base/check.h"

namespace sluice::kernels::loss::cpu {

/// Which tokens count and what their targets are.
struct Tokens {
  std::int64_t first_time, time, rows;
  const std::int32_t* targets;
  const std::int32_t* lengths;  ///< or null: every token counts

  std::int64_t count() const { return time * rows; }
  bool counts(std::int64_t n) const { return lengths == nullptr || time_of(n) < lengths[n % rows]; }
  std::int64_t time_of(std::int64_t n) const { return first_time + n / rows; }
  void check_targets(std::int64_t vocabulary) const {
    for (std::int64_t n = 0; n < count(); ++n) {
      SLUICE_CHECK(!counts(n) || (targets[n] >= 0 && targets[n] < vocabulary),
                   "target {} of row {} at time {} is outside a vocabulary of {}", targets[n],
                   n % rows, time_of(n), vocabulary);
    }
  }
};

}  // namespace sluice::kernels::loss::cpu
