#pragma once

#include "kernels/attention_decoder/cuda/attention_kernels.h"
#include "kernels/attention_decoder/cuda/buffers.h"
#include "kernels/attention_decoder/cuda/products.h"

/// The runs of a plan: each queues its work and returns.
namespace sluice::kernels::attention_decoder::cuda {

/// Tensors know no __nv_bfloat16; their dtypes are checked with the arguments.
template <typename T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.data());
}

/// `offset` elements on, or null if there are none.
template <typename T>
T* offset_or_null(T* data, std::int64_t offset) {
  return data == nullptr ? nullptr : data + offset;
}

/// What all runs have in common.
template <typename S>
struct Run {
  using W = Wide<S>;

  const Context& context;
  const Descriptor& d;
  Widths w;
  PackedWeights<S> weights;

  Run(const Context& given, const Descriptor& descriptor, const Memory& memory)
      : context(given), d(descriptor), w(descriptor) {
    Carver packed(memory.packed);
    weights = carve_packed<S>(d, packed);
  }

  Stream& stream() const { return context.stream(); }
  bool is_additive() const { return d.attention == AttentionType::kAdditive; }

  /// c[m, n] = a[m, k] * b, or added to c. Factors are of the storage type.
  template <typename C>
  void product(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
               C* c, std::int64_t stride, bool accumulate = false) const {
    multiply(context, {m, n, k, a, b, c, stride, accumulate, nullptr, storage_dtype<S>(),
                       storage_dtype<C>()});
  }

  Query<S> query_of(const Trace<S>& trace, std::int64_t t) const {
    return {trace.query(t), trace.top(t), w.combined()};
  }

  /// Masks the output of layer l.
  Dropout dropout_of(const ForwardArgs& args, std::int64_t l) const {
    Dropout dropout;
    if (!d.training || d.dropout == 0 || l + 1 == d.layers) return dropout;
    dropout.source = args.dropout.shifted(static_cast<std::uint32_t>(l));
    dropout.threshold = runtime::dropout_threshold(d.dropout);
    dropout.scale = 1 / (1 - d.dropout);
    dropout.row_ids = data_of<const std::int32_t>(args.row_ids);
    return dropout;
  }
};

template <typename S>
void pack_weights(const Context& context, const Descriptor& d, const Weights& weights,
                  const Memory& memory);
/// `in_one_launch`: all steps in one launch.
template <typename S>
void run_forward(const Context& context, const Descriptor& d, const ForwardArgs& args,
                 const Memory& memory, bool in_one_launch = false);
/// `factor`: what gradients of weights are multiplied by before they are added, as Product::alpha.
template <typename S>
void run_backward(const Context& context, const Descriptor& d, const BackwardArgs& args,
                  const Memory& memory, const float* factor = nullptr, bool in_one_launch = false);
template <typename S>
void run_prepare(const Context& context, const Descriptor& d, const PrepareArgs& args,
                 const Memory& memory);
template <typename S>
void run_step(const Context& context, const Descriptor& d, const StepArgs& args,
              const Memory& memory);

}  // namespace sluice::kernels::attention_decoder::cuda
