#include "layers/recurrent_stack.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "runtime/span.h"

namespace sluice::layers {

namespace recurrent = kernels::recurrent;

RecurrentStack::RecurrentStack(Parameters& parameters, const std::string& prefix,
                               const recurrent::Descriptor& architecture)
    : name_(prefix), architecture_(architecture) {
  for (std::int64_t layer = 0; layer < architecture.layers; ++layer) {
    const std::int64_t hidden = architecture.hidden_of(layer);
    const std::int64_t gates = architecture.gates() * hidden;
    const double range = 1 / std::sqrt(static_cast<double>(hidden));
    for (std::int64_t direction = 0; direction < architecture.directions; ++direction) {
      const auto declare_as = [&](const char* name, const Shape& shape, Initializer start) {
        return parameters.declare(
            fmt::format("{}.{}_l{}{}", prefix, name, layer, direction == 1 ? "_reverse" : ""),
            shape, start);
      };
      const auto declare = [&](const char* name, const Shape& shape, Role role,
                               std::int64_t blocks = 1) {
        return declare_as(name, shape, {range, 0, role, blocks});
      };
      Ids ids{};
      ids.weight_ih = declare("weight_ih", {gates, architecture.input_of(layer)}, Role::kWeight,
                              architecture.gates());
      ids.weight_hh = declare("weight_hh", {gates, architecture.output_of(layer)},
                              Role::kRecurrentWeight, architecture.gates());
      ids.bias_ih = declare("bias_ih", {gates}, Role::kGateBias, architecture.gates());
      ids.bias_hh = declare("bias_hh", {gates}, Role::kOther);
      if (architecture.projects()) {
        ids.weight_hr =
            declare("weight_hr", {architecture.output_of(layer), hidden}, Role::kWeight);
      }
      if (architecture.peepholes) {
        ids.weight_peephole = declare("weight_peephole", {3, hidden}, Role::kOther);
      }
      if (architecture.layer_norm) {
        constexpr Initializer kOne{0, 1}, kZero{};
        ids.gain_ih = declare_as("gain_ih", {gates}, kOne);
        ids.gain_hh = declare_as("gain_hh", {gates}, kOne);
        ids.gain_c = declare_as("gain_c", {hidden}, kOne);
        ids.shift_c = declare_as("shift_c", {hidden}, kZero);
      }
      ids_.push_back(ids);
    }
  }
}

template <typename View>
std::vector<recurrent::LayerWeights> RecurrentStack::views(const View& view) const {
  std::vector<recurrent::LayerWeights> layers;
  for (const Ids& ids : ids_) {
    layers.push_back({view(ids.weight_ih), view(ids.weight_hh), view(ids.bias_ih),
                      view(ids.bias_hh), architecture_.projects() ? view(ids.weight_hr) : Tensor(),
                      architecture_.peepholes ? view(ids.weight_peephole) : Tensor()});
    if (!architecture_.layer_norm) continue;
    layers.back().gain_ih = view(ids.gain_ih);
    layers.back().gain_hh = view(ids.gain_hh);
    layers.back().gain_c = view(ids.gain_c);
    layers.back().shift_c = view(ids.shift_c);
  }
  return layers;
}

std::vector<recurrent::LayerWeights> RecurrentStack::weights(const Parameters& parameters) const {
  return views([&](ParameterId id) { return parameters.value(id); });
}

std::vector<recurrent::LayerWeights> RecurrentStack::gradients(const Parameters& parameters) const {
  return views([&](ParameterId id) { return parameters.gradient(id); });
}

namespace {

/// Puts itself in the place of a run's `overlap_work`, so as to know whether it has been called.
class Once {
 public:
  explicit Once(const recurrent::OverlapWork*& work)
      : work_(work), call_([this](const Context& side) { finish(side); }) {
    if (work_ != nullptr) work = &call_;
  }
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  /// Calls it now unless the run has.
  void finish(const Context& context) {
    if (work_ != nullptr) (*std::exchange(work_, nullptr))(context);
  }

 private:
  const recurrent::OverlapWork* work_;
  recurrent::OverlapWork call_;
};

}  // namespace

RecurrentStackPlan::RecurrentStackPlan(const Context& context, const RecurrentStack& stack,
                                       runtime::ArenaPlanner& planner, std::int64_t time,
                                       std::int64_t rows, DType dtype, bool training,
                                       std::string_view implementation, bool resets)
    : stack_(&stack) {
  recurrent::Descriptor descriptor = stack.architecture();
  descriptor.time = time;
  descriptor.rows = rows;
  descriptor.dtype = dtype;
  descriptor.training = training;
  descriptor.resets = resets;
  choice_ = recurrent::make_plan(context, descriptor, implementation);
  packed_ = planner.packed_bytes(layout_of(stack.name(), choice_.plan->packed_layout()),
                                 choice_.plan->packed_bytes());
  reserve_ = planner.saved_bytes(choice_.plan->reserve_bytes());
  const runtime::ScratchScope scope(planner);
  workspace_ = planner.scratch_bytes(choice_.plan->workspace_bytes());
}

void RecurrentStackPlan::pack(const Context& context, const runtime::Arena& arena,
                              const Parameters& parameters) {
  if (packed_.holds(parameters.version())) return;
  const runtime::Span span(context, stack_->name(), "pack");
  choice_.plan->pack(context, stack_->weights(parameters), memory(arena));
  packed_.note_packed(parameters.version());
}

void RecurrentStackPlan::forward(const Context& context, const runtime::Arena& arena,
                                 recurrent::ForwardArgs args) {
  Once overlapped(args.overlap_work);
  {
    const runtime::Span span(context, stack_->name(), "forward");
    choice_.plan->forward(context, args, memory(arena));
  }
  overlapped.finish(context);
}

void RecurrentStackPlan::backward(const Context& context, const runtime::Arena& arena,
                                  const Parameters& parameters, recurrent::BackwardArgs args) {
  args.gradients = stack_->gradients(parameters);
  Once overlapped(args.overlap_work);
  {
    const runtime::Span span(context, stack_->name(), "backward");
    choice_.plan->backward(context, args, memory(arena));
  }
  overlapped.finish(context);
}

recurrent::Memory RecurrentStackPlan::memory(const runtime::Arena& arena) const {
  return {arena.data(packed_), arena.data(workspace_), arena.data(reserve_)};
}

}  // namespace sluice::layers
