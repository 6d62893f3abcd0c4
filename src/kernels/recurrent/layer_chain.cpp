#include "kernels/recurrent/layer_chain.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/recurrent/arguments.h"
#include "runtime/tensor.h"

namespace sluice::kernels::recurrent {
namespace {

constexpr std::size_t kAlignment = 256;

/// Books places one after the other.
class Places {
 public:
  std::size_t take(std::size_t bytes) {
    const std::size_t place = total_;
    total_ = base::checked_add(total_, base::align_up(bytes, kAlignment));
    return place;
  }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

void* at(void* memory, std::size_t offset) { return static_cast<std::byte*>(memory) + offset; }

/// Layers [first, first + descriptor.layers) of the stack.
struct Part {
  Descriptor descriptor;
  std::int64_t first = 0;
  std::unique_ptr<Plan> plan;
  std::size_t packed = 0, reserve = 0;
  /// Offsets of what the part hands to the next, [time, rows, y_width]: its output, what dropout
  /// leaves of it, and the gradient of that. In training the first two lie in the reserve.
  std::size_t y = 0, dropped = 0, dy = 0;
};

/// The elements [begin, end) of a contiguous tensor under another shape.
Tensor piece(const Tensor& whole, std::int64_t begin, const base::Shape& shape) {
  if (!whole) return {};
  const auto size = static_cast<std::int64_t>(base::size_of(whole.dtype()));
  return Tensor(static_cast<std::byte*>(whole.data()) + begin * size, whole.dtype(), shape);
}

class LayerChain final : public Plan {
 public:
  LayerChain(Descriptor descriptor, std::vector<Part> parts)
      : descriptor_(std::move(descriptor)), parts_(std::move(parts)) {
    for (const Part& part : parts_) {
      name_ += fmt::format("{}{}", name_.empty() ? "" : "+", part.plan->implementation());
    }
    book();
  }

  std::string_view implementation() const override { return name_; }
  std::size_t packed_bytes() const override { return packed_; }
  std::string packed_layout() const override {
    std::string layout;
    for (const Part& part : parts_) {
      const std::string each = part.plan->packed_layout();
      if (each.empty()) return {};
      layout += fmt::format("{}{}", layout.empty() ? "" : "+", each);
    }
    return layout;
  }
  std::size_t workspace_bytes() const override { return workspace_; }
  std::size_t reserve_bytes() const override { return reserve_; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_weights(descriptor_, weights);
    check_memory(*this, memory);
    for (const Part& part : parts_) {
      part.plan->pack(context, of_part(part, weights), memory_of(part, memory));
    }
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_forward(descriptor_, args);
    check_memory(*this, memory);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const ForwardArgs own = forward_args(i, args, memory);
      part.plan->forward(context, own, memory_of(part, memory));
      if (drops(i)) elementwise::dropout(context, dropout_args(i, args, own.y, memory));
    }
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_backward(descriptor_, args);
    check_memory(*this, memory);
    for (std::size_t i = parts_.size(); i-- > 0;) {
      const Part& part = parts_[i];
      BackwardArgs own = backward_args(i, args, memory);
      if (drops(i)) {
        elementwise::dropout(context, {own.dy, own.dy, args.forward.row_ids, descriptor_.dropout,
                                       source(i, args.forward)});
      }
      part.plan->backward(context, own, memory_of(part, memory));
    }
  }

 private:
  bool is_last(std::size_t i) const { return i + 1 == parts_.size(); }
  bool drops(std::size_t i) const {
    return !is_last(i) && descriptor_.training && descriptor_.dropout > 0;
  }

  void book() {
    Places packed, reserve, workspace;
    std::size_t shared = 0;
    for (Part& part : parts_) {
      part.packed = packed.take(part.plan->packed_bytes());
      part.reserve = reserve.take(part.plan->reserve_bytes());
      shared = std::max(shared, part.plan->workspace_bytes());
    }
    workspace.take(shared);
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
      Part& part = parts_[i];
      const std::size_t bytes = output_bytes(part);
      part.y = (descriptor_.training ? reserve : workspace).take(bytes);
      part.dropped = drops(i) ? reserve.take(bytes) : part.y;
      if (descriptor_.training) part.dy = workspace.take(bytes);
    }
    packed_ = packed.total();
    reserve_ = reserve.total();
    workspace_ = workspace.total();
  }

  std::size_t output_bytes(const Part& part) const {
    const base::Shape shape{descriptor_.time, descriptor_.rows, part.descriptor.y_width()};
    return base::checked_mul(static_cast<std::size_t>(shape.element_count()),
                             base::size_of(descriptor_.dtype));
  }

  Memory memory_of(const Part& part, const Memory& memory) const {
    return {at(memory.packed, part.packed), memory.workspace,
            memory.reserve == nullptr ? nullptr : at(memory.reserve, part.reserve)};
  }

  std::vector<LayerWeights> of_part(const Part& part,
                                    const std::vector<LayerWeights>& weights) const {
    if (weights.empty()) return {};
    const auto begin = weights.begin() + part.first * descriptor_.directions;
    return {begin, begin + part.descriptor.layers * descriptor_.directions};
  }

  runtime::DropoutSource source(std::size_t i, const ForwardArgs& args) const {
    const Part& part = parts_[i];
    const std::int64_t last = part.first + part.descriptor.layers - 1;
    return args.dropout.shifted(static_cast<std::uint32_t>(last));
  }

  elementwise::DropoutArgs dropout_args(std::size_t i, const ForwardArgs& args, const Tensor& y,
                                        const Memory& memory) const {
    const Tensor dropped(at(memory.reserve, parts_[i].dropped), y.dtype(), y.shape());
    return {y, dropped, args.row_ids, descriptor_.dropout, source(i, args)};
  }

  /// A tensor of what part i hands to the next.
  Tensor handed(std::size_t i, const ForwardArgs& args, void* memory, std::size_t place) const {
    return Tensor(at(memory, place), descriptor_.dtype,
                  {args.time, args.rows, parts_[i].descriptor.y_width()});
  }

  Tensor h_of(const Part& part, const Tensor& h, std::int64_t rows) const {
    return piece(h, descriptor_.h_offset(part.first * descriptor_.directions, rows),
                 part.descriptor.h_shape(rows));
  }
  Tensor c_of(const Part& part, const Tensor& c, std::int64_t rows) const {
    return piece(c, descriptor_.c_offset(part.first * descriptor_.directions, rows),
                 part.descriptor.c_shape(rows));
  }

  ForwardArgs forward_args(std::size_t i, const ForwardArgs& args, const Memory& memory) const {
    const Part& part = parts_[i];
    void* held = descriptor_.training ? memory.reserve : memory.workspace;
    ForwardArgs own = args;
    if (i > 0) own.x = handed(i - 1, args, held, parts_[i - 1].dropped);
    if (!is_last(i)) {
      own.y = handed(i, args, held, part.y);
      own.overlap_work = nullptr;
    }
    own.h0 = h_of(part, args.h0, args.rows);
    own.hn = h_of(part, args.hn, args.rows);
    own.c0 = c_of(part, args.c0, args.rows);
    own.cn = c_of(part, args.cn, args.rows);
    own.c_sequence =
        piece(args.c_sequence,
              args.time * descriptor_.c_offset(part.first * descriptor_.directions, args.rows),
              part.descriptor.c_sequence_shape(args.time, args.rows));
    own.dropout = args.dropout.shifted(static_cast<std::uint32_t>(part.first));
    return own;
  }

  BackwardArgs backward_args(std::size_t i, const BackwardArgs& args, const Memory& memory) const {
    const Part& part = parts_[i];
    const std::int64_t rows = args.forward.rows;
    BackwardArgs own = args;
    own.forward = forward_args(i, args.forward, memory);
    if (!is_last(i)) {
      own.dy = handed(i, args.forward, memory.workspace, part.dy);
      own.overlap_work = nullptr;
    }
    if (i > 0) own.dx = handed(i - 1, args.forward, memory.workspace, parts_[i - 1].dy);
    own.dhn = h_of(part, args.dhn, rows);
    own.dh0 = h_of(part, args.dh0, rows);
    own.dcn = c_of(part, args.dcn, rows);
    own.dc0 = c_of(part, args.dc0, rows);
    own.gradients = of_part(part, args.gradients);
    return own;
  }

  Descriptor descriptor_;
  std::vector<Part> parts_;
  std::string name_;
  std::size_t packed_ = 0, workspace_ = 0, reserve_ = 0;
};

/// The layers from `first` on that are alike.
Descriptor alike(const Descriptor& stack, std::int64_t first) {
  std::int64_t end = first + 1;
  while (end < stack.layers && stack.hidden_of(end) == stack.hidden_of(first)) ++end;
  Descriptor part = stack;
  part.layers = end - first;
  part.input = stack.input_of(first);
  part.hidden = stack.hidden_of(first);
  part.widths.clear();
  if (stack.projections.size() > 1) {
    part.projections.assign(stack.projections.begin() + first, stack.projections.begin() + end);
  }
  return part;
}

}  // namespace

Choice chain_layers(const Context& context, const Descriptor& descriptor,
                    std::string_view implementation) {
  Choice whole;
  std::vector<Part> parts;
  for (std::int64_t first = 0; first < descriptor.layers;) {
    const Descriptor part = alike(descriptor, first);
    Choice choice = make_plan(context, part, implementation);
    for (Declined& declined : choice.declined) {
      declined.reason += fmt::format(" (layers {} to {})", first, first + part.layers - 1);
      whole.declined.push_back(std::move(declined));
    }
    parts.push_back({part, first, std::move(choice.plan)});
    first += part.layers;
  }
  whole.plan = std::make_unique<LayerChain>(descriptor, std::move(parts));
  return whole;
}

}  // namespace sluice::kernels::recurrent
