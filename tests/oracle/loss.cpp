#include "oracle/loss.h"

#include <algorithm>
#include <cmath>

#include "oracle/size_check.h"

namespace sluice::oracle {

LossResult cross_entropy(int64_t vocabulary, const std::vector<double>& logits,
                         const std::vector<int>& targets, const std::vector<bool>& counts,
                         double smoothing, double scale) {
  const int64_t tokens = static_cast<int64_t>(targets.size());
  check_size("logits", logits.size(), tokens * vocabulary);
  check_size_or_empty("counts", counts.size(), tokens);
  LossResult result;
  result.dlogits.resize(logits.size());
  result.per_token.resize(tokens);
  const double share = smoothing / static_cast<double>(vocabulary);
  for (int64_t n = 0; n < tokens; ++n) {
    if (!counts.empty() && !counts[n]) continue;
    if (targets[n] < 0 || targets[n] >= vocabulary) fail("a target lies outside the vocabulary");
    const double* row = &logits[n * vocabulary];
    const double top = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (int64_t j = 0; j < vocabulary; ++j) sum += std::exp(row[j] - top);
    const double log_sum = top + std::log(sum);
    double loss = (1 - smoothing) * (log_sum - row[targets[n]]);
    for (int64_t j = 0; j < vocabulary; ++j) {
      loss += share * (log_sum - row[j]);
      const double wanted = share + (j == targets[n] ? 1 - smoothing : 0.0);
      result.dlogits[n * vocabulary + j] = scale * (std::exp(row[j] - log_sum) - wanted);
    }
    result.per_token[n] = loss;
    result.sum += loss;
    ++result.tokens;
  }
  return result;
}

}  // namespace sluice::oracle
