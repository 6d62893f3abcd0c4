#include "training/scheduled_sampling.h"

#include <algorithm>
#include <cmath>

namespace sluice::training {

double ScheduledSampling::at(std::int64_t step) const {
  if (!is_used()) return 0;
  const auto k = static_cast<double>(config_.steps);
  const double turns = static_cast<double>(step - 1) / k;
  double probability = turns;  // linear
  if (config_.schedule == "exponential") probability = -std::expm1(-turns);
  // 1 - k / (k + exp(x)), written so that exp can't overflow.
  if (config_.schedule == "inverse_sigmoid") probability = 1 / (1 + k * std::exp(-turns));
  return std::min(probability, config_.most);
}

}  // namespace sluice::training
