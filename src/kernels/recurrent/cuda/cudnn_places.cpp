#include "kernels/recurrent/cuda/cudnn_places.h"

#include "base/check.h"
#include "kernels/recurrent/cuda/cudnn_layer.h"
#include "runtime/buffer.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

Descriptor descriptor_of(const CudnnStack& stack) {
  Descriptor descriptor;
  descriptor.cell = stack.cell;
  descriptor.layers = stack.layers;
  descriptor.directions = stack.directions;
  descriptor.input = stack.input;
  descriptor.hidden = stack.hidden;
  descriptor.time = descriptor.rows = 1;
  if (stack.projection > 0) descriptor.projections = {stack.projection};
  return descriptor;
}

cudnnRNNBiasMode_t bias_mode(CudnnBiases biases) {
  if (biases == CudnnBiases::kNone) return CUDNN_RNN_NO_BIAS;
  if (biases == CudnnBiases::kInput) return CUDNN_RNN_SINGLE_INP_BIAS;
  return biases == CudnnBiases::kRecurrent ? CUDNN_RNN_SINGLE_REC_BIAS : CUDNN_RNN_DOUBLE_BIAS;
}

/// Numbers before a part's place. One that is not in the buffer is an error of cuDNN's.
std::int64_t offset_of(const CudnnPart& part, const std::byte* place, const std::byte* begin,
                       std::int64_t size) {
  const auto bytes = static_cast<std::int64_t>(sizeof(float));
  const std::int64_t offset = place == nullptr ? -bytes : place - begin;
  if (offset < 0 || offset % bytes != 0 || offset / bytes + part.size() > size) {
    base::fail(ErrorCode::kDevice, "cuDNN names no place in the buffer for one of its weights");
  }
  return offset / bytes;
}

void place(const CudnnStack& stack, runtime::Device& device, CudnnLayout& layout) {
  const runtime::cuda::CurrentDevice current(
      static_cast<const runtime::cuda::CudaDevice&>(device).gpu().ordinal);
  const CudnnLayer layer(descriptor_of(stack), CUDNN_RNN_ALGO_STANDARD, bias_mode(stack.biases));
  layout.size = static_cast<std::int64_t>(layer.weight_bytes() / sizeof(float));
  // cuDNN answers in addresses of a buffer.
  const runtime::Buffer buffer(device, layer.weight_bytes());
  const auto* begin = static_cast<const std::byte*>(buffer.data());
  for (CudnnPart& part : layout.parts) {
    const CudnnLayer::Place found = layer.place_of(part.cell, part.linear, buffer.data());
    part.offset = offset_of(part, part.is_bias ? found.bias : found.matrix, begin, layout.size);
  }
}

}  // namespace

constexpr CudnnPlaces kCudnnPlaces{place};

}  // namespace sluice::kernels::recurrent::cuda
