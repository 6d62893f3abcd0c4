#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "kernels/elementwise/cuda/elementwise.h"
#include "kernels/elementwise/cuda/groups.h"
#include "runtime/cuda/numbers.h"

namespace sluice::kernels::elementwise::cuda {
namespace {

constexpr std::size_t kMost = 32;  ///< tensors of a launch

/// Tensors of one launch; blocks of a column of the grid share a tensor.
template <typename From, typename To>
struct Parts {
  struct Part {
    const From* from;
    To* to;
    std::int64_t count;
    bool aligned;
  };
  std::array<Part, kMost> at;
};

template <typename From, typename To>
__device__ To converted(From value) {
  if constexpr (std::is_same_v<From, To>) {
    return value;
  } else {
    // Through float32 between float64 and the 16-bit types.
    return runtime::cuda::narrowed<To>(
        static_cast<runtime::cuda::Wide<To>>(runtime::cuda::widened(value)));
  }
}

template <typename From, typename To>
__global__ void __launch_bounds__(kBlock) convert_kernel(const Parts<From, To> parts) {
  const auto& [x, y, count, aligned] = parts.at[blockIdx.y];
  const std::int64_t groups = aligned ? count / 4 : 0;
  for (std::int64_t g = first_of_grid(); g < groups; g += grid_stride()) {
    const Group<From> from = reinterpret_cast<const Group<From>*>(x)[g];
    Group<To> to;
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] = converted<From, To>(from.at[i]);
    runtime::cuda::store_neighbours(y + 4 * g, to);
  }
  for (std::int64_t i = 4 * groups + first_of_grid(); i < count; i += grid_stride()) {
    y[i] = converted<From, To>(x[i]);
  }
}

/// Runs conversions that all have these two dtypes.
template <typename From, typename To>
void convert_all(Stream& stream, std::span<const Conversion* const> conversions) {
  for (std::size_t begin = 0; begin < conversions.size(); begin += kMost) {
    const auto some = conversions.subspan(begin, std::min(kMost, conversions.size() - begin));
    Parts<From, To> parts{};
    std::int64_t most_threads = 1;
    for (std::size_t i = 0; i < some.size(); ++i) {
      auto& [from, to, count, aligned] = parts.at[i];
      from = some[i]->source.template data_as<const From>();
      to = some[i]->target.template data_as<To>();
      count = some[i]->source.element_count();
      aligned = is_aligned(from) && is_aligned(to);
      most_threads = std::max(most_threads, aligned ? (count + 3) / 4 : count);
    }
    const dim3 blocks(runtime::cuda::blocks_for(most_threads, kBlock),
                      static_cast<unsigned>(some.size()));
    runtime::cuda::launch(stream, "convert tensors", convert_kernel<From, To>, blocks, kBlock, 0,
                          parts);
  }
}

}  // namespace

void convert(Stream& stream, std::span<const Conversion> conversions) {
  std::vector<const Conversion*> left;
  for (const Conversion& conversion : conversions) {
    if (conversion.source.element_count() > 0) left.push_back(&conversion);
  }
  while (!left.empty()) {
    const base::DType source = left[0]->source.dtype(), target = left[0]->target.dtype();
    const auto matching_end =
        std::stable_partition(left.begin(), left.end(), [&](const Conversion* c) {
          return c->source.dtype() == source && c->target.dtype() == target;
        });
    base::dispatch_float(source, [&](auto from_tag) {
      base::dispatch_float(target, [&](auto to_tag) {
        convert_all<typename decltype(from_tag)::type, typename decltype(to_tag)::type>(
            stream, std::span(left.begin(), matching_end));
      });
    });
    left.erase(left.begin(), matching_end);
  }
}

}  // namespace sluice::kernels::elementwise::cuda
