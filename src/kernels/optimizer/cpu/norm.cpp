#include <algorithm>

#include "base/dtype.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer::cpu {
namespace {

constexpr std::int64_t kLanes = 8;

static_assert(kElementsPerMark % kLanes == 0 && kNormBlock % kElementsPerMark == 0);

/// Of the elements [begin, end), in eight running sums, so that the compiler may use vectors
/// without changing the result.
template <typename T>
double block_sum(const T* x, std::int64_t begin, std::int64_t end, const Marks& marks) {
  double lanes[kLanes] = {};
  const std::int64_t whole = end - (end - begin) % kLanes;
  for (std::int64_t chunk = begin; chunk < whole; chunk += kElementsPerMark) {
    if (!marks.is_marked(chunk)) continue;
    const std::int64_t chunk_end = std::min(chunk + kElementsPerMark, whole);
    for (std::int64_t i = chunk; i < chunk_end; i += kLanes) {
      for (std::int64_t j = 0; j < kLanes; ++j) {
        const auto value = static_cast<double>(x[i + j]);
        lanes[j] += value * value;
      }
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (std::int64_t i = whole; i < end && marks.is_marked(i); ++i) {
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return sum;
}

template <typename T>
void run(const SumOfSquaresArgs& args) {
  const auto* x = args.gradients.data_as<const T>();
  auto* partials = args.partials.data_as<double>();
  const std::int64_t count = args.gradients.size(0), blocks = partial_count(count);
  const Marks marks(args.marks);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = block * kNormBlock;
    partials[block] = block_sum(x, begin, std::min(begin + kNormBlock, count), marks);
  }
  double sum = 0;
  for (std::int64_t block = 0; block < blocks; ++block) sum += partials[block];
  const double scale = args.loss_scale ? args.loss_scale.data_as<const double>()[kScale] : 1;
  args.sum.data_as<double>()[0] = sum / (scale * scale);
}

}  // namespace

void sum_of_squares(Stream& stream, const SumOfSquaresArgs& args) {
  base::dispatch_master(args.gradients.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::optimizer::cpu
