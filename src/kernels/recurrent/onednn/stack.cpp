#include "kernels/recurrent/onednn/stack.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/onednn/layout.h"
#include "kernels/recurrent/onednn/weights.h"

namespace sluice::kernels::recurrent::onednn {
namespace {

using Arguments = std::unordered_map<int, dnnl::memory>;

std::byte* bytes_of(void* memory, std::size_t offset) {
  return static_cast<std::byte*>(memory) + offset;
}

void run_pack(const LayerStack& stack, const std::vector<LayerWeights>& weights,
              const Memory& memory) {
  auto* staged = reinterpret_cast<float*>(bytes_of(memory.workspace, stack.scratch.weights));
  for (const LayerGroup& group : stack.groups) {
    pack_group({stack.descriptor, stack.engine, stack.stream, group, staged}, weights,
               memory.packed);
  }
}

/// Addresses of one run, group by group.
class Run {
 public:
  Run(const LayerStack& stack, const ForwardArgs& args, const Memory& memory)
      : stack_(stack), args_(args), memory_(memory) {}

  void forward() const {
    clear_zeros(0);
    for (std::size_t i = 0; i < stack_.groups.size(); ++i) {
      const LayerGroup& group = stack_.groups[i];
      Arguments arguments;
      add_common(arguments, i, [&](int name) { return group.forward_argument(name); });
      add(arguments, DNNL_ARG_WEIGHTS_LAYER, group.weight_ih.forward,
          bytes_of(memory_.packed, group.weight_ih.forward_offset));
      add(arguments, DNNL_ARG_WEIGHTS_ITER, group.weight_hh.forward,
          bytes_of(memory_.packed, group.weight_hh.forward_offset));
      add(arguments, DNNL_ARG_SCRATCHPAD, group.forward_desc.scratchpad_desc(),
          work(stack_.scratch.scratchpad));
      group.forward.execute(stack_.stream, arguments);
      copy_states(group);
    }
  }

  void backward(const BackwardArgs& args) const {
    clear_zeros(args.dy ? 0 : args_.y.element_count());
    const std::byte* dhn = widened(args.dhn, stack_.scratch.dhn);
    const std::byte* d_layer = widened(args.dy, stack_.scratch.d_layer[stack_.groups.size() % 2]);
    for (std::size_t i = stack_.groups.size(); i-- > 0;) {
      const LayerGroup& group = stack_.groups[i];
      const auto argument = [&](int name) { return group.backward_argument(name); };
      Arguments arguments;
      add_common(arguments, i, argument);
      add(arguments, DNNL_ARG_WEIGHTS_LAYER, group.weight_ih.backward,
          bytes_of(memory_.packed, group.weight_ih.backward_offset));
      add(arguments, DNNL_ARG_WEIGHTS_ITER, group.weight_hh.backward,
          bytes_of(memory_.packed, group.weight_hh.backward_offset));
      add(arguments, DNNL_ARG_SCRATCHPAD, group.backward_desc.scratchpad_desc(),
          work(stack_.scratch.scratchpad));
      const std::size_t skip = state_offset(group, 4);
      const auto bind = [&](int name, const std::byte* address) {
        add(arguments, name, argument(name), address);
      };
      const std::byte* d_input = i == 0 ? d_input_of(args) : work(stack_.scratch.d_layer[i % 2]);
      bind(DNNL_ARG_DIFF_DST_LAYER, d_layer);
      bind(DNNL_ARG_DIFF_DST_ITER, dhn + skip);
      bind(DNNL_ARG_DIFF_SRC_LAYER, d_input);
      bind(DNNL_ARG_DIFF_SRC_ITER, work(stack_.scratch.dh0) + skip);
      if (stack_.is_lstm()) {
        bind(DNNL_ARG_DIFF_DST_ITER_C, args.dcn ? address(args.dcn) + skip : zeros());
        bind(DNNL_ARG_DIFF_SRC_ITER_C, work(stack_.scratch.dc0) + skip);
      }
      add_gradients(arguments, group);
      group.backward.execute(stack_.stream, arguments);
      if (!args.gradients.empty()) {
        auto* staged = reinterpret_cast<float*>(work(stack_.scratch.weights));
        store_gradients({stack_.descriptor, stack_.engine, stack_.stream, group, staged},
                        arguments.at(DNNL_ARG_DIFF_WEIGHTS_LAYER),
                        arguments.at(DNNL_ARG_DIFF_WEIGHTS_ITER),
                        reinterpret_cast<const float*>(work(stack_.scratch.bias)), args);
      }
      d_layer = d_input;
    }
    if (args.dx) narrow(args.dx, d_layer);
    if (args.dh0) narrow(args.dh0, work(stack_.scratch.dh0));
    if (args.dc0) narrow(args.dc0, work(stack_.scratch.dc0));
  }

 private:
  static std::byte* address(const Tensor& tensor) { return static_cast<std::byte*>(tensor.data()); }
  std::byte* work(std::size_t offset) const { return bytes_of(memory_.workspace, offset); }
  std::byte* zeros() const { return work(stack_.scratch.zeros); }
  /// What a group leaves behind: in the reserve when training.
  std::byte* kept(std::size_t offset) const {
    return bytes_of(stack_.descriptor.training ? memory_.reserve : memory_.workspace, offset);
  }
  std::byte* y_of(std::size_t i) const {
    if (i + 1 == stack_.groups.size()) return address(args_.y);
    return stack_.descriptor.training ? kept(stack_.groups[i].y) : work(stack_.scratch.y[i % 2]);
  }
  std::size_t state_offset(const LayerGroup& group, std::size_t element) const {
    return static_cast<std::size_t>(stack_.states(group.first)) * element;
  }
  std::size_t element() const { return base::size_of(stack_.descriptor.dtype); }

  void add(Arguments& arguments, int name, const dnnl::memory::desc& desc,
           const std::byte* data) const {
    arguments.insert({name, dnnl::memory(desc, stack_.engine, const_cast<std::byte*>(data))});
  }

  /// What stands for absent states, and for an absent dy of `others` values.
  void clear_zeros(std::int64_t others) const {
    const std::int64_t count = std::max(stack_.states(stack_.descriptor.layers), others);
    std::memset(zeros(), 0, static_cast<std::size_t>(count) * 4);
  }

  template <typename ArgumentOf>
  void add_common(Arguments& arguments, std::size_t i, const ArgumentOf& argument) const {
    const LayerGroup& group = stack_.groups[i];
    const auto bind = [&](int name, const std::byte* data) {
      add(arguments, name, argument(name), data);
    };
    bind(DNNL_ARG_SRC_LAYER, i == 0 ? address(args_.x) : y_of(i - 1));
    bind(DNNL_ARG_SRC_ITER,
         args_.h0 ? address(args_.h0) + state_offset(group, element()) : zeros());
    bind(DNNL_ARG_BIAS, bytes_of(memory_.packed, group.bias));
    bind(DNNL_ARG_DST_LAYER, y_of(i));
    bind(DNNL_ARG_DST_ITER, kept(group.h));
    if (stack_.is_lstm()) {
      bind(DNNL_ARG_SRC_ITER_C, args_.c0 ? address(args_.c0) + state_offset(group, 4) : zeros());
      bind(DNNL_ARG_DST_ITER_C, kept(group.c));
    }
    if (stack_.descriptor.training) bind(DNNL_ARG_WORKSPACE, kept(group.workspace));
  }

  void copy_states(const LayerGroup& group) const {
    const auto count = static_cast<std::size_t>(stack_.states(group.count));
    if (args_.hn) {
      std::memcpy(address(args_.hn) + state_offset(group, element()), kept(group.h),
                  count * element());
    }
    if (args_.cn) {
      std::memcpy(address(args_.cn) + state_offset(group, 4), kept(group.c), count * 4);
    }
  }

  /// A gradient that came in, as float32.
  const std::byte* widened(const Tensor& tensor, std::size_t room) const {
    if (!tensor) return zeros();
    if (tensor.dtype() == DType::kFloat32) return address(tensor);
    const auto* from = tensor.data_as<const base::BFloat16>();
    auto* to = reinterpret_cast<float*>(work(room));
    const std::int64_t count = tensor.element_count();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
    return work(room);
  }

  void narrow(const Tensor& to, const std::byte* data) const {
    if (address(to) == data) return;
    const auto* from = reinterpret_cast<const float*>(data);
    const std::int64_t count = to.element_count();
    if (to.dtype() == DType::kFloat32) {
      std::copy_n(from, count, to.data_as<float>());
      return;
    }
    auto* target = to.data_as<base::BFloat16>();
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < count; ++i) target[i] = base::BFloat16(from[i]);
  }

  const std::byte* d_input_of(const BackwardArgs& args) const {
    if (args.dx && args.dx.dtype() == DType::kFloat32) return address(args.dx);
    return work(stack_.scratch.d_layer[0]);
  }

  /// oneDNN adds to them.
  void add_gradients(Arguments& arguments, const LayerGroup& group) const {
    std::size_t offset = stack_.scratch.gradient;
    const auto bind = [&](int name, std::size_t at) {
      const dnnl::memory::desc desc = group.backward_argument(name);
      std::memset(work(at), 0, desc.get_size());
      add(arguments, name, desc, work(at));
      return desc.get_size();
    };
    offset += base::align_up(bind(DNNL_ARG_DIFF_WEIGHTS_LAYER, offset), 64);
    bind(DNNL_ARG_DIFF_WEIGHTS_ITER, offset);
    bind(DNNL_ARG_DIFF_BIAS, stack_.scratch.bias);
  }

  const LayerStack& stack_;
  const ForwardArgs& args_;
  const Memory& memory_;
};

class StackPlan final : public Plan {
 public:
  explicit StackPlan(const Descriptor& descriptor)
      : stack_(std::make_shared<const LayerStack>(descriptor)) {}

  std::string_view implementation() const override { return "onednn"; }
  std::size_t packed_bytes() const override { return stack_->packed_bytes; }
  std::size_t workspace_bytes() const override { return stack_->workspace_bytes; }
  std::size_t reserve_bytes() const override { return stack_->reserve_bytes; }

  void pack(const Context& context, const std::vector<LayerWeights>& weights,
            const Memory& memory) override {
    check_memory(*this, memory);
    check_weights(stack_->descriptor, weights);
    context.stream().launch(
        [stack = stack_, weights, memory] { run_pack(*stack, weights, memory); });
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_supported(args);
    context.stream().launch(
        [stack = stack_, args, memory] { Run(*stack, args, memory).forward(); });
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory);
    check_backward(stack_->descriptor, args);
    check_supported(args.forward);
    context.stream().launch(
        [stack = stack_, args, memory] { Run(*stack, args.forward, memory).backward(args); });
  }

 private:
  void check_supported(const ForwardArgs& args) const {
    const Descriptor& d = stack_->descriptor;
    check_forward(d, args);
    if (args.lengths || args.c_sequence || args.time != d.time || args.rows != d.rows) {
      base::fail(ErrorCode::kUnsupported,
                 "onednn runs full lengths at the planned {} steps of {} rows, without the cell "
                 "states of every step; this run has {} steps of {} rows{}{}",
                 d.time, d.rows, args.time, args.rows, args.lengths ? ", lengths" : "",
                 args.c_sequence ? ", c_sequence" : "");
    }
  }

  std::shared_ptr<const LayerStack> stack_;
};

std::optional<std::string> refuse_stack(const Descriptor& descriptor, const runtime::Device&) {
  if (descriptor.dtype != DType::kFloat32 && descriptor.dtype != DType::kBFloat16) {
    return fmt::format("it computes float32 and bfloat16, not {}", base::name_of(descriptor.dtype));
  }
  if (auto reason = refuse_extras(descriptor)) return reason;
  if (auto reason = refuse_unusual_cell(descriptor)) return reason;
  if (descriptor.projects()) return "it is kept for stacks without a projection";
  if (descriptor.training && descriptor.dropout > 0 && descriptor.layers > 1) {
    return "it has no dropout between layers";
  }
  try {
    groups_of(descriptor, dnnl::engine(dnnl::engine::kind::cpu, 0));
  } catch (const dnnl::error& error) {
    return fmt::format("oneDNN has no such layer on this machine ({})", error.what());
  }
  return std::nullopt;
}

std::unique_ptr<Plan> create_stack(const Descriptor& descriptor, const runtime::Device&) {
  return std::make_unique<StackPlan>(descriptor);
}

}  // namespace

const Candidate kStack{"onednn", true, refuse_stack, create_stack};

}  // namespace sluice::kernels::recurrent::onednn
