#include <algorithm>

#include "base/dtype.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer::cpu {
namespace {

template <typename T>
void run(const ZeroGradientsArgs& args) {
  auto* gradients = args.gradients.data_as<T>();
  auto* marks = args.marks.values.data_as<std::uint8_t>();
  const std::int64_t count = args.gradients.size(0);
#pragma omp parallel for schedule(static) if (count > kNormBlock)
  for (std::int64_t begin = 0; begin < count; begin += kElementsPerMark) {
    std::uint8_t& mark = marks[mark_of(begin)];
    if (mark == kUnmarked) continue;
    std::fill(gradients + begin, gradients + std::min(begin + kElementsPerMark, count), T{0});
    if (mark == kMarked) mark = kUnmarked;
  }
}

}  // namespace

void zero_gradients(Stream& stream, const ZeroGradientsArgs& args) {
  base::dispatch_master(args.gradients.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] { run<T>(args); });
  });
}

}  // namespace sluice::kernels::optimizer::cpu
