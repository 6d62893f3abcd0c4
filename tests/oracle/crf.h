#pragma once

#include <cstdint>
#include <vector>

namespace sluice::oracle {

/// One sequence of a linear-chain CRF (Lafferty et al. 2001), written from docs/equations.md:
/// emissions [time, labels], transitions [labels, labels] from row to column, start and end
/// [labels].
struct CrfSequence {
  int64_t labels = 0;
  std::vector<double> emissions, transitions, start, end;

  int64_t time() const { return static_cast<int64_t>(emissions.size()) / labels; }
  double score(const std::vector<int>& path) const;
};

struct CrfResult {
  double log_z = 0;  ///< 0 of an empty sequence
  /// Derivatives of log_z, shaped like what they are of.
  CrfSequence marginals;
};

/// By summing over every path: labels^time must be small.
CrfResult crf_by_enumeration(const CrfSequence& sequence);
/// By the forward-backward algorithm, all sums as logarithms.
CrfResult crf(const CrfSequence& sequence);
/// The path with the largest score; of equal ones that whose last label is the lowest, then the one
/// before it, and so on. By looking at every path.
std::vector<int> best_path_by_enumeration(const CrfSequence& sequence);
/// The same by dynamic programming.
std::vector<int> best_path(const CrfSequence& sequence);

}  // namespace sluice::oracle
