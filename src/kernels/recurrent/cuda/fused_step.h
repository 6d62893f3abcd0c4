#pragma once

#include <optional>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "runtime/cuda/cuda_device.h"

/// A step of one layer and direction as one kernel: recurrent product, sum with what else reaches
/// the gates, cell. For Hopper; float32 is multiplied as TF32. It is cut into a product loop
/// (product_loop.h), the meeting of partial sums (cluster_sums.h) and the cell as an epilogue
/// (cell_*_unit.h); fused_forward.h and fused_backward.h join them.
namespace sluice::kernels::recurrent::cuda {

/// What addresses and lines of a product's factors are multiples of, in bytes.
inline constexpr std::int64_t kCopyBytes = 16;

/// A product's factors, in storage.
struct StepProduct {
  const void* left;          ///< forward h [rows, H] or x, backward gate gradients [rows, G*H]
  std::int64_t left_stride;  ///< elements from a row to the next
  const void* right;         ///< weights [G*H, depth]; for backward their transpose
  std::int64_t depth;        ///< elements of a line
};

/// How a step is spread over the GPU.
struct StepGeometry {
  /// Blocks that share a tile's depth: a power of two from 2 (forward) or 4 to 8. With the input's
  /// product half of them share its depth, half that of the recurrent one.
  int cluster;
  int stages;  ///< chunks of depth that a block has in shared memory
};

enum class StepPass { kForward, kForwardWithInput, kBackward };

/// How a step of so many rows is spread over the GPU, with `lanes` steps at the same time.
/// Nothing if it can't be one kernel, or if a product of cuBLASLt and a pointwise kernel are
/// faster: a pure function of shape, dtype and GPU model.
std::optional<StepGeometry> step_geometry(const Descriptor& descriptor, StepPass pass,
                                          std::int64_t rows, std::int64_t lanes,
                                          const runtime::cuda::GpuProperties& gpu);

/// The kernels of one storage type. `behind_step`: what the stream was given last is such a step
/// too, and all else that this one reads was there before that one began; then this one may begin
/// while that one ends.
struct StepKernels {
  void (*forward)(cudaStream_t stream, CellType cell, const StepGeometry& geometry,
                  bool behind_step, const StepProduct& product, const CellForwardArgs& args);
  /// The same with the product of the input, which `args.input` is not read for.
  void (*forward_with_input)(cudaStream_t stream, CellType cell, const StepGeometry& geometry,
                             const StepProduct& input, const StepProduct& product,
                             const CellForwardArgs& args);
  /// `args.dh` may be null: then the product is all of dh.
  void (*backward)(cudaStream_t stream, CellType cell, const StepGeometry& geometry,
                   bool behind_step, const StepProduct& product, const CellBackwardArgs& args);
};
const StepKernels& step_kernels(base::DType storage);

}  // namespace sluice::kernels::recurrent::cuda
