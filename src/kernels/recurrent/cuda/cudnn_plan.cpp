#include "kernels/recurrent/cuda/cudnn_plan.h"

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/bulk_conversions.h"
#include "kernels/recurrent/cuda/cudnn_layer.h"
#include "kernels/recurrent/cuda/cudnn_stack.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/current_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

using runtime::cuda::CudaDevice;
using runtime::cuda::CurrentDevice;
using runtime::cuda::gpu_of;
using runtime::cuda::handle_of;

std::string_view name_of(CudnnAlgorithm algorithm) {
  if (algorithm == CudnnAlgorithm::kStandard) return "cudnn-standard";
  return algorithm == CudnnAlgorithm::kPersistStatic ? "cudnn-persist-static"
                                                     : "cudnn-persist-dynamic";
}

cudnnRNNAlgo_t cudnn_algorithm(CudnnAlgorithm algorithm) {
  if (algorithm == CudnnAlgorithm::kStandard) return CUDNN_RNN_ALGO_STANDARD;
  return algorithm == CudnnAlgorithm::kPersistStatic ? CUDNN_RNN_ALGO_PERSIST_STATIC
                                                     : CUDNN_RNN_ALGO_PERSIST_DYNAMIC;
}

/// Byte offsets of the workspace. cuDNN keeps cell states and gradients of weights in storage, so
/// both are converted on the way.
struct CudnnWorkspace {
  CudnnWorkspace(const Descriptor& d, std::size_t cudnn_bytes, std::size_t weight_bytes) {
    const auto size = base::size_of(d.dtype);
    const auto rows = static_cast<std::size_t>(d.rows);
    const auto count = static_cast<std::size_t>(d.layers * d.directions) * rows;
    const std::size_t cells = count * static_cast<std::size_t>(d.hidden) * size;
    const std::size_t places = static_cast<std::size_t>(d.time) * rows * size;
    cudnn = take(cudnn_bytes);
    lengths = take(rows * sizeof(std::int32_t));
    c_before = take(cells);
    c_after = take(cells);
    if (!d.training) return;
    dc_after = take(cells);
    dc_before = take(cells);
    dx = take(places * static_cast<std::size_t>(d.input));
    dy = take(places * static_cast<std::size_t>(d.y_width()));
    weights = take(weight_bytes);
  }

  std::size_t cudnn = 0, lengths = 0, c_before = 0, c_after = 0, dc_after = 0, dc_before = 0,
              dx = 0, dy = 0, weights = 0, bytes = 0;

 private:
  std::size_t take(std::size_t size) {
    constexpr std::size_t kAlignment = 256;
    const std::size_t offset = bytes;
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    return offset;
  }
};

class CudnnPlan final : public Plan {
 public:
  CudnnPlan(const Descriptor& descriptor, CudnnAlgorithm algorithm)
      : descriptor_(descriptor),
        name_(name_of(algorithm)),
        layer_(descriptor, cudnn_algorithm(algorithm)),
        layout_(descriptor, layer_.workspace_bytes(), layer_.weight_bytes()) {}

  std::string_view implementation() const override { return name_; }
  std::size_t packed_bytes() const override { return layer_.weight_bytes(); }
  std::size_t workspace_bytes() const override { return layout_.bytes; }
  std::size_t reserve_bytes() const override { return layer_.reserve_bytes(); }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override;
  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override;
  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override;

 private:
  /// Every matrix and bias that is there: canonical, and its place in cuDNN's space.
  Segments parts_of(const std::vector<LayerWeights>& weights, void* space) const;

  void refuse(const ForwardArgs& args) const;
  std::int64_t cells(const ForwardArgs& args) const {
    return descriptor_.layers * descriptor_.directions * args.rows * descriptor_.hidden;
  }
  /// A float32 cell state, or its gradient, in storage; null if it is absent.
  void* narrowed(const Context& context, const Tensor& tensor, void* space) const;
  /// Where cuDNN puts one; null if nobody wants it.
  void* wanted(const Tensor& tensor, void* space) const;
  void widen_to(const Context& context, const Tensor& tensor, const void* space) const;

  Descriptor descriptor_;
  std::string_view name_;
  CudnnLayer layer_;
  CudnnWorkspace layout_;
};

Segments CudnnPlan::parts_of(const std::vector<LayerWeights>& weights, void* space) const {
  const std::int64_t gates = descriptor_.gates(), hidden = descriptor_.hidden;
  Segments segments(descriptor_.dtype);
  // Rows of a canonical tensor from a gate's first on.
  const auto add = [&](const Tensor& tensor, std::int64_t first, std::int64_t rows, void* place) {
    if (!tensor) return;
    const std::int64_t width = tensor.element_count() / tensor.size(0);
    segments.add({tensor.data_as<float>() + first * width, place, rows * width});
  };
  for (std::size_t index = 0; index < weights.size(); ++index) {
    const LayerWeights& layer = weights[index];
    const auto i = static_cast<std::int64_t>(index);
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      const CudnnLayer::Place input = layer_.place_of(i, gate, space);
      const CudnnLayer::Place recurrent = layer_.place_of(i, gates + gate, space);
      add(layer.weight_ih, gate * hidden, hidden, input.matrix);
      add(layer.weight_hh, gate * hidden, hidden, recurrent.matrix);
      add(layer.bias_ih, gate * hidden, hidden, input.bias);
      add(layer.bias_hh, gate * hidden, hidden, recurrent.bias);
    }
    if (!descriptor_.projects()) continue;
    add(layer.weight_hr, 0, descriptor_.output_of(0), layer_.place_of(i, 2 * gates, space).matrix);
  }
  return segments;
}

void CudnnPlan::pack(const Context& context, const std::vector<LayerWeights>& weights,
                     const Memory& memory) {
  check_memory(*this, memory);
  check_weights(descriptor_, weights);
  const CurrentDevice current(gpu_of(context.stream()).ordinal);
  layer_.begin(context, descriptor_.time, descriptor_.rows);
  parts_of(weights, memory.packed).narrow(handle_of(context.stream()));
}

void CudnnPlan::refuse(const ForwardArgs& args) const {
  const char* reason = nullptr;
  if (args.lengths) reason = "wants lengths of rows on the host, where they are not";
  if (args.c_sequence) reason = "gives no cell states but the last";
  if (reason) base::fail(ErrorCode::kUnsupported, "{} {}", name_, reason);
}

void* CudnnPlan::narrowed(const Context& context, const Tensor& tensor, void* space) const {
  if (!tensor || descriptor_.dtype == DType::kFloat32) return tensor.data();
  narrow(handle_of(context.stream()), descriptor_.dtype, space, tensor.data_as<const float>(),
         tensor.element_count());
  return space;
}

void* CudnnPlan::wanted(const Tensor& tensor, void* space) const {
  return !tensor || descriptor_.dtype == DType::kFloat32 ? tensor.data() : space;
}

void CudnnPlan::widen_to(const Context& context, const Tensor& tensor, const void* space) const {
  if (!tensor || descriptor_.dtype == DType::kFloat32) return;
  widen(handle_of(context.stream()), descriptor_.dtype, tensor.data_as<float>(), space,
        tensor.element_count());
}

void CudnnPlan::forward(const Context& context, const ForwardArgs& args, const Memory& memory) {
  check_memory(*this, memory);
  check_forward(descriptor_, args);
  refuse(args);
  const CurrentDevice current(gpu_of(context.stream()).ordinal);
  layer_.begin(context, args.time, args.rows);
  auto* space = static_cast<std::byte*>(memory.workspace);
  auto* lengths = reinterpret_cast<std::int32_t*>(space + layout_.lengths);
  fill(handle_of(context.stream()), lengths, static_cast<std::int32_t>(args.time), args.rows);
  const void* c0 = narrowed(context, args.c0, space + layout_.c_before);
  void* cn = wanted(args.cn, space + layout_.c_after);
  const cudnnForwardMode_t mode =
      descriptor_.training ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  layer_.cudnn().check(
      layer_.cudnn().forward(layer_.handle(), layer_.rnn(), mode, lengths, layer_.x(),
                             args.x.data(), layer_.y(), args.y.data(), layer_.h(), args.h0.data(),
                             args.hn.data(), layer_.c(), c0, cn, layer_.weight_bytes(),
                             memory.packed, layer_.workspace_bytes(), space + layout_.cudnn,
                             layer_.reserve_bytes(), memory.reserve),
      fmt::format("run {} forward", name_));
  widen_to(context, args.cn, cn);
}

void CudnnPlan::backward(const Context& context, const BackwardArgs& args, const Memory& memory) {
  check_memory(*this, memory);
  check_backward(descriptor_, args);
  const ForwardArgs& forward = args.forward;
  refuse(forward);
  const CurrentDevice current(gpu_of(context.stream()).ordinal);
  layer_.begin(context, forward.time, forward.rows);
  const CudnnLibrary& cudnn = layer_.cudnn();
  runtime::Stream& stream = context.stream();
  auto* space = static_cast<std::byte*>(memory.workspace);
  auto* lengths = reinterpret_cast<std::int32_t*>(space + layout_.lengths);
  fill(handle_of(stream), lengths, static_cast<std::int32_t>(forward.time), forward.rows);
  const void* dy = args.dy.data();
  if (!args.dy) {
    stream.fill_zero(space + layout_.dy, forward.y.byte_size());
    dy = space + layout_.dy;
  }
  void* dx = args.dx ? args.dx.data() : space + layout_.dx;
  const void* c0 = narrowed(context, forward.c0, space + layout_.c_before);
  const void* dcn = narrowed(context, args.dcn, space + layout_.dc_after);
  void* dc0 = wanted(args.dc0, space + layout_.dc_before);
  cudnn.check(
      cudnn.backward_data(layer_.handle(), layer_.rnn(), lengths, layer_.y(), forward.y.data(), dy,
                          layer_.x(), dx, layer_.h(), forward.h0.data(), args.dhn.data(),
                          args.dh0.data(), layer_.c(), c0, dcn, dc0, layer_.weight_bytes(),
                          memory.packed, layer_.workspace_bytes(), space + layout_.cudnn,
                          layer_.reserve_bytes(), memory.reserve),
      fmt::format("run {} backward", name_));
  widen_to(context, args.dc0, dc0);
  if (args.gradients.empty()) return;
  std::byte* weights = space + layout_.weights;
  stream.fill_zero(weights, layer_.weight_bytes());
  cudnn.check(cudnn.backward_weights(layer_.handle(), layer_.rnn(), CUDNN_WGRAD_MODE_ADD, lengths,
                                     layer_.x(), forward.x.data(), layer_.h(), forward.h0.data(),
                                     layer_.y(), forward.y.data(), layer_.weight_bytes(), weights,
                                     layer_.workspace_bytes(), space + layout_.cudnn,
                                     layer_.reserve_bytes(), memory.reserve),
              fmt::format("run {} for the gradients of weights", name_));
  parts_of(args.gradients, weights).widen(handle_of(stream), args.accumulate);
}

}  // namespace

std::optional<std::string> refuse_cudnn(const Descriptor& descriptor, CudnnAlgorithm algorithm) {
  if (descriptor.dtype == DType::kFloat64) return "it computes float32, bfloat16 and float16";
  if (descriptor.training && descriptor.dropout > 0 && descriptor.layers > 1) {
    return "its dropout between layers draws other masks";
  }
  if (descriptor.training && descriptor.is_uneven()) {
    return "it runs layers of different widths in inference only";
  }
  // cuDNN takes a projection to as many units as none, and then has no weights for it.
  if (descriptor.projects()) {
    for (std::int64_t l = 0; l < descriptor.layers; ++l) {
      if (descriptor.output_of(l) >= descriptor.hidden) return "it projects to fewer units only";
    }
  }
  if (algorithm != CudnnAlgorithm::kStandard) {
    if (descriptor.projects()) return "it has no projection";
    if (descriptor.dtype == DType::kBFloat16) return "it has no bfloat16";
  }
  try {
    const CudnnLibrary library;
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

std::unique_ptr<Plan> make_cudnn_plan(const Descriptor& descriptor, CudnnAlgorithm algorithm,
                                      const Device& device) {
  const CurrentDevice current(static_cast<const CudaDevice&>(device).gpu().ordinal);
  const auto make = [&](const Descriptor& one) -> std::unique_ptr<Plan> {
    return std::make_unique<CudnnPlan>(one, algorithm);
  };
  return descriptor.is_uneven() ? make_stack_of_layers(descriptor, make) : make(descriptor);
}

}  // namespace sluice::kernels::recurrent::cuda
