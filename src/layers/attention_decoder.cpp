#include "layers/attention_decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/span.h"

namespace sluice::layers {

namespace attention = kernels::attention_decoder;

namespace {

/// Of a matrix with so many columns, or of a layer so wide.
Initializer fan_in(std::int64_t inputs, Role role = Role::kWeight, std::int64_t gates = 1) {
  return {1 / std::sqrt(static_cast<double>(inputs)), 0, role, gates};
}

}  // namespace

AttentionDecoder::AttentionDecoder(Parameters& parameters, const std::string& prefix,
                                   const attention::Descriptor& architecture)
    : name_(prefix), architecture_(architecture) {
  const attention::Descriptor& d = architecture_;
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const auto declare = [&](const char* name, const Shape& shape, Role role) {
      return parameters.declare(fmt::format("{}.{}_l{}", prefix, name, layer), shape,
                                fan_in(d.hidden, role, d.gates()));
    };
    const std::int64_t gates = d.gates() * d.hidden;
    CellIds ids{};
    ids.weight_ih = declare("weight_ih", {gates, d.input_of(layer)}, Role::kWeight);
    ids.weight_hh = declare("weight_hh", {gates, d.hidden}, Role::kRecurrentWeight);
    ids.bias_ih = declare("bias_ih", {gates}, Role::kGateBias);
    ids.bias_hh = declare("bias_hh", {gates}, Role::kOther);
    cells_.push_back(ids);
  }
  const auto declare = [&](const char* name, const Shape& shape, Initializer initializer) {
    return parameters.declare(fmt::format("{}.attention.{}", prefix, name), shape, initializer);
  };
  if (d.attention == attention::AttentionType::kAdditive) {
    query_ = declare("query_weight", {d.key, d.hidden}, fan_in(d.hidden));
    memory_ = declare("memory_weight", {d.key, d.memory}, fan_in(d.memory));
    score_ = declare("score_vector", {d.key}, fan_in(d.key, Role::kOther));
  } else {
    bilinear_ = declare("bilinear_weight", {d.hidden, d.memory}, fan_in(d.memory));
  }
  const std::int64_t joined = d.memory + d.hidden;
  output_weight_ = declare("output_weight", {d.output, joined}, fan_in(joined));
  output_bias_ = declare("output_bias", {d.output}, Initializer{});
}

template <typename View>
attention::Weights AttentionDecoder::collect(View&& view) const {
  attention::Weights weights;
  for (const CellIds& ids : cells_) {
    weights.cells.push_back(
        {view(ids.weight_ih), view(ids.weight_hh), view(ids.bias_ih), view(ids.bias_hh), Tensor()});
  }
  if (architecture_.attention == attention::AttentionType::kAdditive) {
    weights.query_weight = view(query_);
    weights.memory_weight = view(memory_);
    weights.score_vector = view(score_);
  } else {
    weights.bilinear_weight = view(bilinear_);
  }
  weights.output_weight = view(output_weight_);
  weights.output_bias = view(output_bias_);
  return weights;
}

attention::Weights AttentionDecoder::weights(const Parameters& parameters) const {
  return collect([&](ParameterId id) { return parameters.value(id); });
}

attention::Weights AttentionDecoder::gradients(const Parameters& parameters) const {
  return collect([&](ParameterId id) { return parameters.gradient(id); });
}

AttentionDecoderPlan::AttentionDecoderPlan(const Context& context, const AttentionDecoder& decoder,
                                           runtime::ArenaPlanner& planner, std::int64_t target_time,
                                           std::int64_t source_time, std::int64_t rows, DType dtype,
                                           bool training, std::string_view implementation)
    : decoder_(&decoder) {
  attention::Descriptor descriptor = decoder.architecture();
  descriptor.target_time = target_time;
  descriptor.source_time = source_time;
  descriptor.rows = rows;
  descriptor.dtype = dtype;
  descriptor.training = training;
  choice_ = attention::make_plan(context, descriptor, implementation);
  packed_ = planner.packed_bytes(layout_of(decoder.name(), choice_.plan->packed_layout()),
                                 choice_.plan->packed_bytes());
  reserve_ = planner.saved_bytes(choice_.plan->reserve_bytes());
  const runtime::ScratchScope scope(planner);
  workspace_ = planner.scratch_bytes(choice_.plan->workspace_bytes());
}

void AttentionDecoderPlan::pack(const Context& context, const runtime::Arena& arena,
                                const Parameters& parameters) {
  if (packed_.holds(parameters.version())) return;
  const runtime::Span span(context, decoder_->name(), "pack");
  choice_.plan->pack(context, decoder_->weights(parameters), memory(arena));
  packed_.note_packed(parameters.version());
}

void AttentionDecoderPlan::forward(const Context& context, const runtime::Arena& arena,
                                   const attention::ForwardArgs& args) {
  const runtime::Span span(context, decoder_->name(), "forward");
  choice_.plan->forward(context, args, memory(arena));
}

void AttentionDecoderPlan::backward(const Context& context, const runtime::Arena& arena,
                                    const Parameters& parameters, attention::BackwardArgs args) {
  const runtime::Span span(context, decoder_->name(), "backward");
  args.gradients = decoder_->gradients(parameters);
  choice_.plan->backward(context, args, memory(arena));
}

void AttentionDecoderPlan::prepare_memory(const Context& context, const runtime::Arena& arena,
                                          const attention::PrepareArgs& args) {
  const runtime::Span span(context, decoder_->name(), "keys");
  choice_.plan->prepare_memory(context, args, memory(arena));
}

void AttentionDecoderPlan::step(const Context& context, const runtime::Arena& arena,
                                const attention::StepArgs& args) {
  const runtime::Span span(context, decoder_->name(), "step");
  choice_.plan->step(context, args, memory(arena));
}

attention::Memory AttentionDecoderPlan::memory(const runtime::Arena& arena) const {
  return {arena.data(packed_), arena.data(workspace_), arena.data(reserve_)};
}

}  // namespace sluice::layers
