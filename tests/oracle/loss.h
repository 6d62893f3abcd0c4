#pragma once

#include <cstdint>
#include <vector>

namespace sluice::oracle {

struct LossResult {
  double sum = 0;      ///< over the tokens that count
  int64_t tokens = 0;  ///< how many count
  std::vector<double>
      dlogits;  ///< [tokens, V], scale times the gradient of `sum`; 0 for tokens that do not count
  std::vector<double> per_token;  ///< [tokens], 0 for those that do not count
};

/// Softmax cross-entropy with label smoothing (Szegedy et al. 2016, section 7). For a token with
/// logits [V], p their softmax: (1 - smoothing) * -log p[target] + smoothing / V * sum over j of
/// -log p[j]. logits [N, V], targets [N] in 0..V-1 where counts[n] is true; what the others hold is
/// never read. Empty counts: all. Throws std::invalid_argument on a wrong size or a target out of
/// range.
LossResult cross_entropy(int64_t vocabulary, const std::vector<double>& logits,
                         const std::vector<int>& targets, const std::vector<bool>& counts,
                         double smoothing, double scale);

}  // namespace sluice::oracle
