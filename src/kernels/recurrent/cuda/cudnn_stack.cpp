#include "kernels/recurrent/cuda/cudnn_stack.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/shape.h"
#include "kernels/recurrent/arguments.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

void* at(void* memory, std::size_t offset) { return static_cast<std::byte*>(memory) + offset; }

class StackOfLayers final : public Plan {
 public:
  StackOfLayers(const Descriptor& descriptor,
                const std::function<std::unique_ptr<Plan>(const Descriptor&)>& make_layer)
      : descriptor_(descriptor) {
    for (std::int64_t l = 0; l < descriptor.layers; ++l) {
      Descriptor one = descriptor;
      one.layers = 1;
      one.input = descriptor.input_of(l);
      one.projections = {descriptor.output_of(l)};
      Layer layer{make_layer(one), packed_bytes_, reserve_bytes_};
      packed_bytes_ += base::align_up(layer.plan->packed_bytes(), kAlignment);
      reserve_bytes_ += base::align_up(layer.plan->reserve_bytes(), kAlignment);
      workspace_bytes_ = std::max(workspace_bytes_, layer.plan->workspace_bytes());
      layers_.push_back(std::move(layer));
    }
    // Outputs of inner layers take turns behind the layers' own workspace.
    workspace_bytes_ = base::align_up(workspace_bytes_, kAlignment);
    const std::int64_t widest = descriptor.directions * descriptor.widest_output();
    const std::size_t size =
        base::align_up(static_cast<std::size_t>(descriptor.time * descriptor.rows * widest) *
                           base::size_of(descriptor.dtype),
                       kAlignment);
    for (std::size_t& output : outputs_) {
      output = workspace_bytes_;
      workspace_bytes_ += size;
    }
  }

  std::string_view implementation() const override {
    return layers_.front().plan->implementation();
  }
  std::size_t packed_bytes() const override { return packed_bytes_; }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t reserve_bytes() const override { return reserve_bytes_; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_memory(*this, memory);
    check_weights(descriptor_, weights);
    const std::int64_t directions = descriptor_.directions;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const auto first = weights.begin() + static_cast<std::int64_t>(l) * directions;
      layers_[l].plan->pack(context, {first, first + directions}, memory_of(l, memory));
    }
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_forward(descriptor_, args);
    Tensor input = args.x;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      ForwardArgs one = layer_args(static_cast<std::int64_t>(l), args);
      one.x = input;
      if (l + 1 < layers_.size()) {
        const auto width = descriptor_.input_of(static_cast<std::int64_t>(l) + 1);
        one.y = Tensor(at(memory.workspace, outputs_[l % 2]), descriptor_.dtype,
                       {args.time, args.rows, width});
      }
      layers_[l].plan->forward(context, one, memory_of(l, memory));
      input = one.y;
    }
  }

  void backward(const Context&, const BackwardArgs&, const Memory&) override {
    base::fail(ErrorCode::kUnsupported, "{} runs layers of different widths in inference only",
               implementation());
  }

 private:
  struct Layer {
    std::unique_ptr<Plan> plan;
    std::size_t packed, reserve;
  };

  Memory memory_of(std::size_t l, const Memory& all) const {
    const auto part = [](void* memory, std::size_t offset) {
      return memory == nullptr ? nullptr : at(memory, offset);
    };
    return {part(all.packed, layers_[l].packed), all.workspace,
            part(all.reserve, layers_[l].reserve)};
  }

  /// Whatever is not between layers.
  ForwardArgs layer_args(std::int64_t l, const ForwardArgs& args) const {
    const std::int64_t directions = descriptor_.directions, rows = args.rows;
    const auto part = [](const Tensor& all, std::int64_t first, const base::Shape& shape) {
      if (!all) return Tensor();
      const auto offset = static_cast<std::size_t>(first) * base::size_of(all.dtype());
      return Tensor(at(all.data(), offset), all.dtype(), shape);
    };
    const std::int64_t h = descriptor_.h_offset(l * directions, rows);
    const std::int64_t c = l * directions * rows * descriptor_.hidden;
    const base::Shape h_shape{directions, rows, descriptor_.output_of(l)};
    const base::Shape c_shape{directions, rows, descriptor_.hidden};
    ForwardArgs one = args;
    one.h0 = part(args.h0, h, h_shape);
    one.hn = part(args.hn, h, h_shape);
    one.c0 = part(args.c0, c, c_shape);
    one.cn = part(args.cn, c, c_shape);
    one.c_sequence =
        part(args.c_sequence, c * args.time, {directions, args.time, rows, descriptor_.hidden});
    return one;
  }

  Descriptor descriptor_;
  std::vector<Layer> layers_;
  std::array<std::size_t, 2> outputs_{};
  std::size_t packed_bytes_ = 0, workspace_bytes_ = 0, reserve_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Plan> make_stack_of_layers(
    const Descriptor& descriptor,
    const std::function<std::unique_ptr<Plan>(const Descriptor&)>& make_layer) {
  return std::make_unique<StackOfLayers>(descriptor, make_layer);
}

}  // namespace sluice::kernels::recurrent::cuda
