#pragma once

#include <optional>
#include <string>

#include "layers/parameters.h"
#include "runtime/arena.h"

namespace sluice::layers {

/// y = x W^T + b with `<prefix>.weight` [out, in] and `<prefix>.bias` [out]; the weight starts
/// uniform in +-1/sqrt(in), the bias at zero.
class Linear {
 public:
  /// `shared`: another layer's weight of that shape to use instead of one of its own.
  Linear(Parameters& parameters, const std::string& prefix, std::int64_t in, std::int64_t out,
         std::optional<ParameterId> shared = {});

  const std::string& name() const { return name_; }
  std::int64_t in() const { return in_; }
  std::int64_t out() const { return out_; }
  ParameterId weight() const { return weight_; }
  ParameterId bias() const { return bias_; }

 private:
  std::string name_;
  std::int64_t in_;
  std::int64_t out_;
  ParameterId weight_;
  ParameterId bias_;
};

/// A plan for a linear layer over up to `rows` rows: x in the storage type, y in that of the
/// parameters. With a narrower storage type the weight is packed into it, and so is dy; where the
/// context's precision is int8, that of a plan which doesn't train into 8 bits.
class LinearPlan {
 public:
  /// What is known of dy: kBounded says that it comes in narrow_gradient() wherever there is one,
  /// multiplied by gradient_factor(), and without that is at most 1 in magnitude; kLikeOutput that
  /// y and dy, [n, columns()], are in the storage type, of 16 bits on a GPU: y, and the bias that
  /// is added, are rounded to it; and that the bias's gradient is added to by whoever makes dy.
  enum class Gradient { kAny, kBounded, kLikeOutput };

  LinearPlan(const Context& context, const Linear& linear, runtime::ArenaPlanner& planner,
             std::int64_t rows, DType storage, bool training, Gradient gradient = Gradient::kAny);

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena, const Parameters& parameters);
  /// x [n, in], storage -> y [n, out] or [n, columns()], overwritten. In a plan for kLikeOutput y
  /// may be either type.
  void forward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
               const Tensor& x, const Tensor& y) const;
  /// Columns that y and dy may have for products to be fastest: `out`, or up to most_columns() that
  /// make rows whole pieces of memory. What stands in y's further ones means nothing.
  std::int64_t columns() const { return columns_; }
  static std::int64_t most_columns(std::int64_t out);
  /// Where dy is best put in two bytes a number, [n, columns()]; empty if it is best left like y.
  /// Scratch.
  Tensor narrow_gradient(const runtime::Arena& arena, std::int64_t n) const;
  /// What dy in narrow_gradient() is multiplied by instead of the loss's own scale, which backward
  /// is given; 0 if that scale is in dy.
  double gradient_factor() const;
  /// The packed weight [out, in], in the storage type where that is narrower than the parameters'.
  Tensor weight(const runtime::Arena& arena, const Parameters& parameters) const;
  /// dy [n, out] like y, or [n, columns()], whose further columns are zero, in the storage type.
  /// Overwrites dx [n, in], storage (optional), and adds to the gradients of weight and bias.
  /// `scale`, float64 [1] on the device: what dy lacks where there is a gradient_factor();
  /// absent: 1. That of the same x came before.
  void backward(const Context& context, const runtime::Arena& arena, const Parameters& parameters,
                const Tensor& x, const Tensor& dy, const Tensor& dx,
                const Tensor& scale = {}) const;

 private:
  /// Scales of factors and of products where those are halved, each float32.
  struct Scales {
    Tensor weight, x;                ///< [kernels::matmul::kScaleNumbers]
    Tensor y, d_weight, d_bias, dx;  ///< [kernels::matmul::kAlphaNumbers]
  };
  Scales scales(const runtime::Arena& arena) const;
  Tensor halved_x(const runtime::Arena& arena, const Tensor& x) const;
  void forward_halved(const Context& context, const runtime::Arena& arena,
                      const Parameters& parameters, const Tensor& x, const Tensor& y) const;
  void backward_halved(const Context& context, const runtime::Arena& arena,
                       const Parameters& parameters, const Tensor& x, const Tensor& dy,
                       const Tensor& dx, const Tensor& scale) const;
  std::size_t packed_bytes() const;
  Tensor packed(const runtime::Arena& arena) const;
  bool pads() const { return columns_ != linear_->out(); }
  bool is_packed(std::uint64_t version) const;
  Tensor bias(const runtime::Arena& arena, const Parameters& parameters, const Tensor& y) const;
  /// With zeros below: [columns(), in].
  Tensor padded_weight(const runtime::Arena& arena) const;

  const Linear* linear_;
  DType storage_;
  bool narrow_, quantized_, halved_, like_output_;
  std::int64_t columns_;
  runtime::Slot weight_, bias_, narrow_bias_, dy_, dx_, x_, scales_;
};

}  // namespace sluice::layers
