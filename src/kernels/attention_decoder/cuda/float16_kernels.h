#pragma once

#include <cuda_fp16.h>

#include <vector>

#include "kernels/attention_decoder/cuda/cell_kernels.h"
#include "runtime/tensor.h"

/// Between the caller's float32 and float16, which has TF32's eleven bits for numbers that a power
/// of two has brought into its range.
namespace sluice::kernels::attention_decoder::cuda {

using runtime::Tensor;

/// The power of two of a run's gradients, in device memory.
struct GradientScale {
  float largest;  ///< of what flows in, in magnitude
  float down;     ///< takes gradients back
  float one;      ///< right behind `down`: a product that is added wants both
};

/// Lines of float32 numbers, those of row r and step t being line t * rows + r.
struct GradientLines {
  const float* x = nullptr;  ///< [steps, rows, width]; null: none
  std::int64_t steps = 0, rows = 0, width = 0;
  const std::int32_t* lengths =
      nullptr;  ///< [rows]: lines of later steps don't count; null: all do
};

/// scale->largest = that of all of them.
void find_largest(Stream& stream, const std::vector<GradientLines>& gradients,
                  GradientScale* scale);

/// to[i] = from[i], times a power of two. Unless either is absent.
struct Conversion {
  Tensor from, to;  ///< float32 or float16, contiguous, of as many elements; may be the same
};

/// By which numbers are multiplied: not at all, to bring gradients into float16's range (which
/// completes `scale`), or to take them back.
enum class Rescaling { kNone, kUp, kDown };

/// At most eight, in one launch. `scale` is null where it isn't needed.
void convert(Stream& stream, const std::vector<Conversion>& conversions,
             Rescaling rescaling = Rescaling::kNone, GradientScale* scale = nullptr);

}  // namespace sluice::kernels::attention_decoder::cuda
