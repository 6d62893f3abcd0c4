#include "kernels/attention_decoder/cuda/persistent/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/attention_decoder/cuda/persistent/kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {
namespace {

using runtime::cuda::check;

using Attributes = std::array<cudaLaunchAttribute, 2>;

/// A launch whose blocks all run at once or not at all; `attributes` must outlive it.
cudaLaunchConfig_t configuration(const Steps& steps, Attributes& attributes) {
  check(cudaFuncSetAttribute(steps.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             steps.shared_bytes),
        "allow an attention decoder's kernel its shared memory");
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {kCluster, 1, 1};
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = kBlocks;
  config.blockDim = kThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(steps.shared_bytes);
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  return config;
}

/// Clusters of the kernel that the current GPU runs at once.
int clusters_at_once(const Steps& steps) {
  Attributes attributes{};
  cudaLaunchConfig_t config = configuration(steps, attributes);
  config.numAttrs = 1;
  int count = 0;
  check(cudaOccupancyMaxActiveClusters(&count, steps.kernel, &config),
        "ask how many clusters of an attention decoder's kernel run at once");
  return count;
}

}  // namespace

std::optional<std::string> refuse(const Descriptor& d, const runtime::Device& device) {
  const auto& gpu = static_cast<const runtime::cuda::CudaDevice&>(device).gpu();
  if (!gpu.code.hopper) {
    return "it needs a GPU of compute capability 9.0 that runs kernels compiled for it";
  }
  if (d.dtype != DType::kBFloat16 && d.dtype != DType::kFloat16) {
    return "it computes bfloat16 and float16";
  }
  if (d.cell != CellType::kLstm || d.layers != kLayers) {
    return fmt::format("it has {} layers of LSTM", kLayers);
  }
  if (d.attention != AttentionType::kAdditive) return "it has additive attention";
  if (d.rows > kRows) return fmt::format("it takes up to {} rows, not {}", kRows, d.rows);
  if (d.source_time > kMostSource) {
    return fmt::format("it takes up to {} source positions, not {}", kMostSource, d.source_time);
  }
  // Steps take as long as those of kWidth, which single launches for fewer units don't.
  constexpr std::int64_t kFewestUnits = kWidth / 2 + 1, kFewestSteps = 3;
  if (d.hidden < kFewestUnits || std::max({d.hidden, d.key, d.output}) > kWidth) {
    return fmt::format("it takes {} to {} units, keys and outputs of up to as many", kFewestUnits,
                       kWidth);
  }
  if (d.target_time < kFewestSteps) {
    return fmt::format("beginning takes as long as two steps, which {} don't pay for",
                       d.target_time);
  }
  const runtime::cuda::CurrentDevice current(gpu.ordinal);
  const Kernels kernels = kernels_of(d.dtype);
  int clusters = clusters_at_once(kernels.forward);
  if (d.training) clusters = std::min(clusters, clusters_at_once(kernels.backward));
  if (clusters >= kClusters) return std::nullopt;
  return fmt::format("this GPU runs {} of its {} clusters at once", clusters, kClusters);
}

namespace {

/// `arguments`: of the kernel.
template <typename Arguments>
void launch_steps(Stream& stream, const Steps& steps, Arguments arguments, const char* what) {
  void* pointers[]{&arguments};
  Attributes attributes{};
  cudaLaunchConfig_t config = configuration(steps, attributes);
  config.stream = runtime::cuda::handle_of(stream);
  check(cudaLaunchKernelExC(&config, steps.kernel, pointers), what);
}

}  // namespace

template <typename S>
void launch(Stream& stream, const Arguments<S>& args) {
  const runtime::cuda::CurrentDevice current(runtime::cuda::gpu_of(stream).ordinal);
  const Kernels kernels = kernels_of(storage_dtype<S>());
  Arguments<S> copy = args;
  void* arguments[]{&copy};
  check(cudaLaunchKernel(kernels.start, kStartBlocks, kStartThreads, arguments, 0,
                         runtime::cuda::handle_of(stream)),
        "queue what begins the steps of an attention decoder");
  launch_steps(stream, kernels.forward, args, "queue the steps of an attention decoder");
}

template <typename S>
void launch(Stream& stream, const BackwardArguments<S>& args) {
  const runtime::cuda::CurrentDevice current(runtime::cuda::gpu_of(stream).ordinal);
  stream.fill_zero(args.counters, static_cast<std::size_t>(kPublishedCountersBytes));
  launch_steps(stream, backward_of(storage_dtype<S>()), args,
               "queue the backward steps of an attention decoder");
}

template void launch(Stream&, const Arguments<__nv_bfloat16>&);
template void launch(Stream&, const Arguments<__half>&);
template void launch(Stream&, const BackwardArguments<__nv_bfloat16>&);
template void launch(Stream&, const BackwardArguments<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
