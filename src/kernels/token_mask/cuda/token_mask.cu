#include "base/dtype.h"
#include "kernels/token_mask/cuda/token_mask.h"
#include "kernels/token_mask/rules.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::token_mask::cuda {
namespace {

constexpr int kBlock = 256;

__device__ void forbid(std::int32_t* mask, std::int32_t token) {
  if (token >= 0) atomicAnd(mask + token / 32, without_bit(-1, token));
}

/// A block a row.
__global__ void __launch_bounds__(kBlock) update_kernel(View v) {
  const std::int64_t row = blockIdx.x, length = v.length(), words = words_of(v.extent.vocabulary);
  std::int32_t* tokens = v.history_of(row, length);
  std::int32_t* mask = v.mask + row * words;
  for (std::int64_t w = threadIdx.x; w < words; w += kBlock) mask[w] = v.allowed[w];
  if (length > 0) {
    const std::int32_t* before = v.history_before(row, length);
    for (std::int64_t t = threadIdx.x; t < length - 1; t += kBlock) tokens[t] = before[t];
    if (threadIdx.x == 0) tokens[length - 1] = v.tokens[row];
  }
  __syncthreads();
  for (std::int64_t place = threadIdx.x; v.no_repeat > 0 && place < length; place += kBlock) {
    forbid(mask, repeated_at(place, tokens, length, v.no_repeat));
  }
  for (std::int64_t p = threadIdx.x; p < v.extent.phrases; p += kBlock) {
    const std::int64_t begin = p == 0 ? 0 : v.phrase_ends[p - 1];
    forbid(mask, completion_of(v.phrase_tokens + begin, v.phrase_ends[p] - begin, tokens, length));
  }
}

/// A row of blocks a row.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    apply_kernel(const std::int32_t* mask, const T* logits, std::int64_t vocabulary, T* out) {
  const std::int64_t row = blockIdx.y;
  const std::int32_t* bits = mask + row * words_of(vocabulary);
  for (std::int64_t v = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; v < vocabulary;
       v += std::int64_t{gridDim.x} * kBlock) {
    const std::int64_t at = row * vocabulary + v;
    out[at] = has_bit(bits, v) ? logits[at] : -static_cast<T>(INFINITY);
  }
}

struct Masks {
  const std::int32_t *of_steps, *step;
  std::int64_t steps, inputs, rows_of_input, words;
};

/// A thread a word, of all rows.
__global__ void __launch_bounds__(kBlock)
    pick_kernel(Masks from, std::int64_t count, std::int32_t* mask) {
  const std::int64_t last = from.steps - 1, now = *from.step < last ? *from.step : last;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kBlock) {
    const std::int64_t input = i / from.words / from.rows_of_input;
    mask[i] = from.of_steps[(now * from.inputs + input) * from.words + i % from.words];
  }
}

}  // namespace

void update(Stream& stream, const Rules& rules, const State& state, const Tensor& step,
            const Tensor& tokens, const Tensor& parents) {
  runtime::cuda::launch(stream, "mask tokens", update_kernel,
                        static_cast<unsigned>(state.extent.rows), kBlock, 0,
                        View(rules, state, step, tokens, parents));
}

void apply(Stream& stream, const Tensor& mask, const Tensor& logits, const Tensor& out) {
  const std::int64_t rows = logits.size(0), vocabulary = logits.size(1);
  base::dispatch_master(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    // A grid has at most so many rows.
    constexpr std::int64_t kMost = 65535;
    for (std::int64_t first = 0; first < rows; first += kMost) {
      const std::int64_t count = rows - first < kMost ? rows - first : kMost;
      const dim3 grid(runtime::cuda::blocks_for(vocabulary, kBlock), static_cast<unsigned>(count));
      runtime::cuda::launch(stream, "apply a mask of tokens", apply_kernel<T>, grid, kBlock, 0,
                            mask.data_as<const std::int32_t>() + first * words_of(vocabulary),
                            logits.data_as<const T>() + first * vocabulary, vocabulary,
                            out.data_as<T>() + first * vocabulary);
    }
  });
}

void pick(Stream& stream, const Tensor& of_steps, const Tensor& step, const Tensor& mask) {
  const std::int64_t count = mask.element_count(), inputs = of_steps.size(1);
  runtime::cuda::launch(
      stream, "pick the masks of a step", pick_kernel, runtime::cuda::blocks_for(count, kBlock),
      kBlock, 0,
      Masks{of_steps.data_as<const std::int32_t>(), step.data_as<const std::int32_t>(),
            of_steps.size(0), inputs, mask.size(0) / inputs, mask.size(1)},
      count, mask.data_as<std::int32_t>());
}

}  // namespace sluice::kernels::token_mask::cuda
