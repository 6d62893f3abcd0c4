#include "models/seq2seq_decoder.h"

#include "models/decoder_probe.h"
#include "models/stack_probe.h"

namespace sluice::models {
namespace {

namespace recurrent = kernels::recurrent;

using Attentive = layers::AttentionDecoderPlan;
using Plain = layers::RecurrentStackPlan;

std::variant<Attentive, Plain> make_plan(const Context& context, const Seq2Seq& model,
                                         runtime::ArenaPlanner& planner, std::int64_t target_time,
                                         std::int64_t source_time, std::int64_t rows,
                                         bool training) {
  const DType storage = model.parameters().storage(context);
  if (const layers::AttentionDecoder* decoder = model.attention_decoder()) {
    return Attentive(context, *decoder, planner, target_time, source_time, rows, storage, training);
  }
  return Plain(context, *model.plain_decoder(), planner, target_time, rows, storage, training);
}

recurrent::ForwardArgs stack_args(const Seq2SeqDecoder::ForwardArgs& args) {
  recurrent::ForwardArgs stack;
  stack.time = args.target_time;
  stack.rows = args.rows;
  stack.x = args.emb;
  stack.lengths = args.target_lengths;
  stack.h0 = args.h0;
  stack.c0 = args.c0;
  stack.y = args.a;
  stack.hn = args.hn;
  stack.cn = args.cn;
  stack.row_ids = args.row_ids;
  stack.dropout = args.dropout;
  return stack;
}

}  // namespace

Seq2SeqDecoder::Seq2SeqDecoder(const Context& context, const Seq2Seq& model,
                               runtime::ArenaPlanner& planner, std::int64_t target_time,
                               std::int64_t source_time, std::int64_t rows, bool training)
    : model_(&model),
      plan_(make_plan(context, model, planner, target_time, source_time, rows, training)) {}

std::string_view Seq2SeqDecoder::implementation() const {
  return std::visit([](const auto& plan) { return plan.implementation(); }, plan_);
}

const std::vector<recurrent::Declined>& Seq2SeqDecoder::declined() const {
  return std::visit(
      [](const auto& plan) -> const std::vector<recurrent::Declined>& { return plan.declined(); },
      plan_);
}

void Seq2SeqDecoder::pack(const Context& context, const runtime::Arena& arena) {
  std::visit([&](auto& plan) { plan.pack(context, arena, model_->parameters()); }, plan_);
}

void Seq2SeqDecoder::forward(const Context& context, const runtime::Arena& arena,
                             const ForwardArgs& given, Probe* probe) {
  if (auto* plan = std::get_if<Attentive>(&plan_)) {
    ForwardArgs args = given;
    const DecoderProbe shown(context, probe, *model_->attention_decoder(), args);
    plan->forward(context, arena, args);
    shown.show(context);
    return;
  }
  Plain& plan = std::get<Plain>(plan_);
  recurrent::ForwardArgs args = stack_args(given);
  const StackProbe shown(context, probe, *model_->plain_decoder(), args);
  plan.forward(context, arena, args);
  shown.show(context, model_->parameters(), plan.implementation());
}

void Seq2SeqDecoder::backward(const Context& context, const runtime::Arena& arena,
                              const BackwardArgs& given) {
  if (auto* plan = std::get_if<Attentive>(&plan_)) {
    plan->backward(context, arena, model_->parameters(), given);
    return;
  }
  recurrent::BackwardArgs args;
  args.forward = stack_args(given.forward);
  args.dy = given.da;
  args.dhn = given.dhn;
  args.dcn = given.dcn;
  args.dx = given.d_emb;
  args.dh0 = given.dh0;
  args.dc0 = given.dc0;
  std::get<Plain>(plan_).backward(context, arena, model_->parameters(), args);
}

std::int64_t Seq2SeqDecoder::key_stride() const {
  const auto* plan = std::get_if<Attentive>(&plan_);
  return plan == nullptr ? 0 : plan->key_stride();
}

std::int64_t Seq2SeqDecoder::value_stride() const {
  const auto* plan = std::get_if<Attentive>(&plan_);
  return plan == nullptr ? 0 : plan->value_stride();
}

void Seq2SeqDecoder::prepare_memory(const Context& context, const runtime::Arena& arena,
                                    const PrepareArgs& args) {
  std::get<Attentive>(plan_).prepare_memory(context, arena, args);
}

void Seq2SeqDecoder::step(const Context& context, const runtime::Arena& arena,
                          const StepArgs& given) {
  if (auto* plan = std::get_if<Attentive>(&plan_)) {
    plan->step(context, arena, given);
    return;
  }
  recurrent::ForwardArgs args;
  args.time = 1;
  args.rows = given.rows;
  args.x = given.emb.reshape({1, given.rows, given.emb.size(1)});
  args.h0 = given.h;
  args.c0 = given.c;
  args.y = given.a_next.reshape({1, given.rows, given.a_next.size(1)});
  args.hn = given.h_next;
  args.cn = given.c_next;
  std::get<Plain>(plan_).forward(context, arena, args);
}

}  // namespace sluice::models
