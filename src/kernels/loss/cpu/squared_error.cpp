#include <algorithm>
#include <limits>

#include "base/dtype.h"
#include "kernels/loss/cpu/loss.h"
#include "kernels/loss/cpu/sums.h"
#include "kernels/loss/cpu/tokens.h"

namespace sluice::kernels::loss::cpu {
namespace {

/// Values are neither right nor wrong.
constexpr double kNoAnswer = std::numeric_limits<double>::quiet_NaN();

/// The mean over a frame's values; d is its gradient, may be y, or is null.
template <typename T>
double frame_error(const T* y, const float* target, std::int64_t values, double scale, T* d) {
  const double share = 1 / static_cast<double>(values);
  const double factor = 2 * share * scale;
  double sum = 0;
  for (std::int64_t j = 0; j < values; ++j) {
    const double difference = static_cast<double>(y[j]) - static_cast<double>(target[j]);
    sum += difference * difference;
    if (d != nullptr) d[j] = static_cast<T>(factor * difference);
  }
  return sum * share;
}

template <typename T>
void run(const SquaredErrorArgs& args) {
  const Tokens frames{args.first_time, args.time, args.rows, nullptr,
                      args.lengths.data_as<const std::int32_t>()};
  const std::int64_t count = frames.count(), values = args.predictions.size(1);
  const auto* predictions = args.predictions.data_as<const T>();
  const auto* targets = args.targets.data_as<const float>();
  auto* gradient = args.d_predictions.data_as<T>();
  auto* results = static_cast<TokenResult*>(args.workspace);
  const double scale = scale_of(args);
#pragma omp parallel for schedule(static) if (count * values > 16384)
  for (std::int64_t n = 0; n < count; ++n) {
    T* d = gradient != nullptr ? gradient + n * values : nullptr;
    results[n] = {};
    if (frames.counts(n)) {
      const double error =
          frame_error(predictions + n * values, targets + n * values, values, scale, d);
      results[n] = {error, error, 1, kNoAnswer};
    } else if (d != nullptr) {
      std::fill(d, d + values, T{0});
    }
  }
  add_up(results, count, args.sums.data_as<double>(), args.accumulate_sums);
}

}  // namespace

void squared_error(Stream& stream, const SquaredErrorArgs& args) {
  base::dispatch_master(args.predictions.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::loss::cpu
