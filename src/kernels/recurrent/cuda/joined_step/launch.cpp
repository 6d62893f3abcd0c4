#include "kernels/recurrent/cuda/joined_step/launch.h"

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/joined_step/kernels.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda::joined_step {
namespace {

constexpr std::int64_t kLineBytes = 128;

std::int64_t parts(std::int64_t extent, std::int64_t part) { return (extent + part - 1) / part; }

Factors make_factors(const CellKind& kind, const StepProduct* products,
                     const CellForwardArgs& args) {
  const std::int64_t gates = gates_of(kind.cell);
  const auto chunk = kLineBytes / static_cast<std::int64_t>(base::size_of(kind.storage));
  Factors factors{};
  for (int i = 0; i < 2; ++i) {
    const auto& [left, stride, right, depth] = products[i];
    factors.left[i] =
        make_tensor_map(kind.storage, left, {{depth, 1, chunk}, {args.rows, stride, kRows}});
    factors.right[i] = make_tensor_map(kind.storage, right,
                                       {{depth, 1, chunk},
                                        {args.hidden, depth, kUnits / kSharers},
                                        {gates, args.hidden * depth, 1}});
    factors.chunks[i] = static_cast<int>(parts(depth, chunk));
  }
  return factors;
}

}  // namespace

bool wins(const Descriptor& descriptor, std::int64_t rows,
          const runtime::cuda::GpuProperties& gpu) {
  const auto element = static_cast<std::int64_t>(base::size_of(descriptor.dtype));
  const std::int64_t hidden = descriptor.hidden;
  if (refuse_unusual_cell(descriptor) || descriptor.training || descriptor.projects()) return false;
  if (!gpu.code.hopper || hidden * element % kCopyBytes != 0) return false;
  // About where it was measured on an H200 (docs/performance/ladder.md), with inputs as wide as the
  // state. A longer depth is what the larger tiles of cuBLASLt are better at.
  constexpr std::int64_t kFewestRows = 512, kFewestUnits = 128, kMostUnits = 768;
  return descriptor.directions == 1 && rows >= kFewestRows && hidden >= kFewestUnits &&
         hidden <= kMostUnits && descriptor.input <= 2 * kMostUnits;
}

void queue(cudaStream_t stream, const CellKind& kind, bool behind_step, const StepProduct& input,
           const StepProduct& state, const CellForwardArgs& args) {
  constexpr const char* kWhat = "queue a recurrent step joined with its input";
  const StepProduct products[] = {state, input};
  Factors factors = make_factors(kind, products, args);
  const Kernel kernel = kernel_of(kind.cell, kind.storage);
  runtime::cuda::check(
      cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kernel.shared_bytes),
      kWhat);
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {1, kSharers, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(parts(args.hidden, kUnits)),
                    static_cast<unsigned>(parts(args.rows, kRows * kSharers) * kSharers)};
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = behind_step ? 2 : 1;
  void* arguments[] = {&factors, const_cast<CellForwardArgs*>(&args)};
  runtime::cuda::check(cudaLaunchKernelExC(&config, kernel.function, arguments), kWhat);
}

}  // namespace sluice::kernels::recurrent::cuda::joined_step
