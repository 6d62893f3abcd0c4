#include "kernels/recurrent/adapted_plan.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"

namespace sluice::kernels::recurrent {
namespace {

constexpr std::size_t kAlignment = 256;

/// Hands out the workspace behind that of the inner plan, one piece after the other; without
/// memory it only counts. A run stages the tensors that were counted, or fewer.
class Staging {
 public:
  Staging() = default;
  Staging(void* memory, std::size_t bytes)
      : memory_(static_cast<std::byte*>(memory)), bytes_(bytes) {}

  Tensor take(DType dtype, const base::Shape& shape) {
    const std::size_t bytes =
        base::checked_mul(static_cast<std::size_t>(shape.element_count()), base::size_of(dtype));
    const std::size_t place = used_;
    used_ = base::checked_add(used_, base::align_up(bytes, kAlignment));
    if (memory_ == nullptr) return {};
    SLUICE_CHECK(used_ <= bytes_,
                 "a tensor {} is larger than what the recurrent stack was planned for",
                 shape.to_string());
    return Tensor(memory_ + place, dtype, shape);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, used_ = 0;
};

void check_like(const Tensor& tensor, std::string_view name, DType dtype,
                const base::Shape& shape) {
  SLUICE_CHECK(tensor.dtype() == dtype, "{} of the recurrent stack is {}, not {}", name,
               base::name_of(tensor.dtype()), base::name_of(dtype));
  SLUICE_CHECK(tensor.shape() == shape, "{} of the recurrent stack has shape {}, not {}", name,
               tensor.shape().to_string(), shape.to_string());
}

void check_contiguous(const Tensor& tensor, std::string_view name) {
  SLUICE_CHECK(tensor.is_contiguous(), "{} of the recurrent stack is not contiguous", name);
}

class AdaptedPlan final : public Plan {
 public:
  AdaptedPlan(Descriptor descriptor, const CallerTensors& tensors, std::unique_ptr<Plan> plan)
      : descriptor_(std::move(descriptor)),
        tensors_(tensors),
        master_(base::policy_of(descriptor_.dtype).master),
        plan_(std::move(plan)),
        inner_workspace_(base::align_up(plan_->workspace_bytes(), kAlignment)) {
    Staging weights, forward, backward;
    count_weights(weights);
    count_forward(forward);
    if (descriptor_.training) count_backward(backward);
    const std::size_t most = std::max({weights.used(), forward.used(), backward.used()});
    workspace_ = base::checked_add(inner_workspace_, most);
  }

  std::string_view implementation() const override { return plan_->implementation(); }
  std::size_t packed_bytes() const override { return plan_->packed_bytes(); }
  std::string packed_layout() const override { return plan_->packed_layout(); }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t reserve_bytes() const override { return plan_->reserve_bytes(); }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    Staging staging = staging_of(memory);
    Conversions incoming;
    std::vector<LayerWeights> staged = weights;
    const std::int64_t count = std::min(static_cast<std::int64_t>(weights.size()), sets());
    for (std::int64_t i = 0; i < count; ++i) {
      LayerWeights& set = staged[static_cast<std::size_t>(i)];
      for (Tensor LayerWeights::*const member : kLayerTensors) {
        Tensor& tensor = set.*member;
        if (!tensor) continue;
        check_weight(tensor, "a weight");
        tensor = staged_weight(staging, tensor, master_, incoming);
      }
      const std::int64_t sums =
          descriptor_.gates() * descriptor_.hidden_of(i / descriptor_.directions);
      for (Tensor* bias : {&set.bias_ih, &set.bias_hh}) {
        if (*bias) continue;
        *bias = staging.take(master_, {sums});
        context.zero(*bias);
      }
    }
    elementwise::convert(context, incoming);
    plan_->pack(context, staged, memory);
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_extent(args);
    Staging staging = staging_of(memory);
    Conversions incoming, outgoing;
    const ForwardArgs own = staged_inputs(context, staging, args, incoming);
    elementwise::convert(context, incoming);
    plan_->forward(context, own, memory);
    if (own.y.data() != args.y.data()) elementwise::rearrange(context, own.y, args.y);
    add(own.cn, args.cn, outgoing);
    elementwise::convert(context, outgoing);
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    SLUICE_CHECK(descriptor_.training, "backward needs a recurrent stack planned for training");
    check_extent(args.forward);
    Staging staging = staging_of(memory);
    const std::int64_t time = args.forward.time, rows = args.forward.rows;
    const base::Shape cells = descriptor_.c_shape(rows);
    Conversions incoming, outgoing;
    BackwardArgs own = args;
    own.forward = staged_inputs(context, staging, args.forward, incoming);
    // Backward may read what forward left in y and cn.
    if (own.forward.y.data() != args.forward.y.data()) {
      elementwise::rearrange(context, args.forward.y, own.forward.y);
    }
    add(args.forward.cn, own.forward.cn, incoming);
    own.dy = gathered(context, staging, args.dy, "dy", {time, rows, descriptor_.y_width()});
    own.dx = place_for(staging, args.dx, "dx", {time, rows, descriptor_.input});
    own.dcn = cells_in(staging, args.dcn, "dcn", cells, incoming);
    own.dc0 = cells_out(staging, args.dc0, "dc0", cells);
    stage_gradients(staging, args, own, incoming);
    elementwise::convert(context, incoming);
    plan_->backward(context, own, memory);
    if (own.dx.data() != args.dx.data()) elementwise::rearrange(context, own.dx, args.dx);
    add(own.dc0, args.dc0, outgoing);
    return_gradients(own, args, outgoing);
    elementwise::convert(context, outgoing);
  }

 private:
  using Conversions = std::vector<elementwise::Conversion>;

  std::int64_t sets() const { return descriptor_.layers * descriptor_.directions; }
  bool converts_cells() const {
    return descriptor_.cell == CellType::kLstm && tensors_.cells != master_;
  }
  bool converts_weights() const { return tensors_.weights != master_; }

  Staging staging_of(const Memory& memory) const {
    SLUICE_CHECK(memory.workspace != nullptr || workspace_ == 0,
                 "the recurrent stack needs {} bytes of workspace", workspace_);
    return {static_cast<std::byte*>(memory.workspace) + inner_workspace_,
            workspace_ - inner_workspace_};
  }

  void check_extent(const ForwardArgs& args) const {
    SLUICE_CHECK(
        args.time >= 1 && args.time <= descriptor_.time && args.rows >= 1 &&
            args.rows <= descriptor_.rows,
        "{} time steps and {} rows given to a recurrent stack planned for 1 to {} and 1 to {}",
        args.time, args.rows, descriptor_.time, descriptor_.rows);
  }

  void check_weight(const Tensor& tensor, std::string_view name) const {
    SLUICE_CHECK(tensor.dtype() == tensors_.weights, "{} of the recurrent stack is {}, not {}",
                 name, base::name_of(tensor.dtype()), base::name_of(tensors_.weights));
    check_contiguous(tensor, name);
  }

  // These count the most that a run stages, in its order.
  void count_weights(Staging& staging) const {
    for (std::int64_t i = 0; i < sets(); ++i) {
      const std::int64_t layer = i / descriptor_.directions, hidden = descriptor_.hidden_of(layer);
      const std::int64_t sums = descriptor_.gates() * hidden;
      const std::int64_t input = descriptor_.input_of(layer), output = descriptor_.output_of(layer);
      for (int bias = 0; bias < 2; ++bias) staging.take(master_, {sums});
      if (!converts_weights()) continue;
      staging.take(master_, {sums, input});
      staging.take(master_, {sums, output});
      if (descriptor_.projects()) staging.take(master_, {output, hidden});
      if (descriptor_.peepholes) staging.take(master_, {3, hidden});
      if (!descriptor_.layer_norm) continue;
      for (int gain = 0; gain < 2; ++gain) staging.take(master_, {sums});
      for (int of_c = 0; of_c < 2; ++of_c) staging.take(master_, {hidden});
    }
  }

  void count_forward(Staging& staging) const {
    const std::int64_t time = descriptor_.time, rows = descriptor_.rows;
    if (tensors_.strided) {
      staging.take(descriptor_.dtype, {time, rows, descriptor_.input});
      staging.take(descriptor_.dtype, {time, rows, descriptor_.y_width()});
    }
    if (!converts_cells()) return;
    for (int state = 0; state < 2; ++state) staging.take(master_, descriptor_.c_shape(rows));
  }

  void count_backward(Staging& staging) const {
    for (int pass = 0; pass < 2; ++pass) count_forward(staging);  // dx and dy are as x and y
    if (converts_weights()) count_weights(staging);
  }

  /// Notes a conversion, unless both share their memory.
  static void add(const Tensor& source, const Tensor& target, Conversions& conversions) {
    if (source.data() != target.data()) conversions.push_back({source, target});
  }

  static Tensor staged_weight(Staging& staging, const Tensor& tensor, DType dtype,
                              Conversions& conversions) {
    if (tensor.dtype() == dtype) return tensor;
    const Tensor staged = staging.take(dtype, tensor.shape());
    add(tensor, staged, conversions);
    return staged;
  }

  /// Contiguous memory for an array over time that the run writes: the caller's if it is.
  Tensor place_for(Staging& staging, const Tensor& tensor, std::string_view name,
                   const base::Shape& shape) const {
    if (!tensor) return tensor;
    check_like(tensor, name, descriptor_.dtype, shape);
    if (tensor.is_contiguous()) return tensor;
    if (!tensors_.strided) check_contiguous(tensor, name);
    SLUICE_CHECK(tensor.size(2) == 1 || tensor.stride(2) == 1,
                 "features of {} of the recurrent stack are {} apart, not next to each other", name,
                 tensor.stride(2));
    return staging.take(tensor.dtype(), shape);
  }
  /// The same of one that it reads.
  Tensor gathered(const Context& context, Staging& staging, const Tensor& tensor,
                  std::string_view name, const base::Shape& shape) const {
    const Tensor own = place_for(staging, tensor, name, shape);
    if (own.data() != tensor.data()) elementwise::rearrange(context, tensor, own);
    return own;
  }

  Tensor cells_out(Staging& staging, const Tensor& tensor, std::string_view name,
                   const base::Shape& shape) const {
    if (!tensor || !converts_cells()) return tensor;
    check_like(tensor, name, tensors_.cells, shape);
    check_contiguous(tensor, name);
    return staging.take(master_, shape);
  }
  Tensor cells_in(Staging& staging, const Tensor& tensor, std::string_view name,
                  const base::Shape& shape, Conversions& conversions) const {
    const Tensor own = cells_out(staging, tensor, name, shape);
    add(tensor, own, conversions);
    return own;
  }

  ForwardArgs staged_inputs(const Context& context, Staging& staging, const ForwardArgs& args,
                            Conversions& conversions) const {
    const base::Shape cells = descriptor_.c_shape(args.rows);
    ForwardArgs own = args;
    own.x = gathered(context, staging, args.x, "x", {args.time, args.rows, descriptor_.input});
    own.y = place_for(staging, args.y, "y", {args.time, args.rows, descriptor_.y_width()});
    own.c0 = cells_in(staging, args.c0, "c0", cells, conversions);
    own.cn = cells_out(staging, args.cn, "cn", cells);
    return own;
  }

  void stage_gradients(Staging& staging, const BackwardArgs& args, BackwardArgs& own,
                       Conversions& conversions) const {
    if (!converts_weights()) return;
    for (LayerWeights& set : own.gradients) {
      for (Tensor LayerWeights::*const member : kLayerTensors) {
        Tensor& tensor = set.*member;
        if (!tensor) continue;
        check_weight(tensor, "a gradient");
        const Tensor callers = tensor;
        tensor = staging.take(master_, callers.shape());
        if (args.accumulate) add(callers, tensor, conversions);
      }
    }
  }
  void return_gradients(const BackwardArgs& own, const BackwardArgs& args,
                        Conversions& conversions) const {
    if (!converts_weights()) return;
    for (std::size_t i = 0; i < own.gradients.size(); ++i) {
      for (Tensor LayerWeights::*const member : kLayerTensors) {
        const Tensor& tensor = own.gradients[i].*member;
        if (tensor) add(tensor, args.gradients[i].*member, conversions);
      }
    }
  }

  Descriptor descriptor_;
  CallerTensors tensors_;
  DType master_;
  std::unique_ptr<Plan> plan_;
  std::size_t inner_workspace_, workspace_ = 0;
};

}  // namespace

std::unique_ptr<Plan> adapt(const Descriptor& descriptor, const CallerTensors& tensors,
                            std::unique_ptr<Plan> plan) {
  return std::make_unique<AdaptedPlan>(descriptor, tensors, std::move(plan));
}

}  // namespace sluice::kernels::recurrent
