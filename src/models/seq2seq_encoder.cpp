#include "models/seq2seq_encoder.h"

#include <algorithm>
#include <array>

#include "kernels/elementwise/elementwise.h"
#include "models/stack_probe.h"
#include "runtime/span.h"

namespace sluice::models {

namespace elementwise = kernels::elementwise;
namespace recurrent = kernels::recurrent;

namespace {

// Final states of the encoder, [layers*directions, rows, hidden/directions], side by side into the
// start states of the decoder, [decoder layers, rows, hidden].
void join_states(const Context& context, const Tensor& final_states, std::int64_t directions,
                 const Tensor& start_states) {
  const runtime::Span span(context, "encoder", "states");
  const std::int64_t encoder_layers = final_states.size(0) / directions;
  for (std::int64_t layer = 0; layer < start_states.size(0); ++layer) {
    const Tensor start = start_states.select(0, layer);
    if (layer >= encoder_layers) {
      context.zero(start);
    } else if (directions == 1) {
      context.copy(start, final_states.select(0, layer));
    } else {
      const std::array parts{final_states.select(0, 2 * layer),
                             final_states.select(0, 2 * layer + 1)};
      elementwise::concatenate(context, parts, start);
    }
  }
}

// The gradient of join_states.
void split_states(const Context& context, const Tensor& d_start, std::int64_t directions,
                  const Tensor& d_final) {
  const runtime::Span span(context, "encoder", "states");
  const std::int64_t encoder_layers = d_final.size(0) / directions;
  for (std::int64_t layer = 0; layer < encoder_layers; ++layer) {
    const Tensor d_layer = d_final.slice(0, layer * directions, (layer + 1) * directions);
    if (layer >= d_start.size(0)) {
      context.zero(d_layer);
    } else if (directions == 1) {
      context.copy(d_layer.select(0, 0), d_start.select(0, layer));
    } else {
      const std::array parts{d_layer.select(0, 0), d_layer.select(0, 1)};
      elementwise::split(context, d_start.select(0, layer), parts);
    }
  }
}

}  // namespace

Seq2SeqEncoder::Slots Seq2SeqEncoder::book(runtime::ArenaPlanner& planner, std::int64_t rows,
                                           std::int64_t source_time) const {
  const Seq2SeqConfig& config = model_->config();
  const DType cell = base::policy_of(storage_).cell_state;
  const Shape embedded{source_time, rows, config.embedding};
  const Shape memory{source_time, rows, config.hidden};
  const Shape final_states{config.encoder_layers, rows, config.hidden};
  const Shape start_states{config.decoder_layers, rows, config.hidden};
  Slots slots;
  slots.embedded = planner.saved(storage_, embedded);
  slots.memory = planner.saved(storage_, memory);
  slots.hn = planner.saved(storage_, final_states);
  slots.cn = planner.saved(cell, final_states);
  slots.h0 = planner.saved(storage_, start_states);
  slots.c0 = planner.saved(cell, start_states);
  if (training_) {
    slots.d_embedded = planner.scratch(storage_, embedded);
    if (config.attends()) slots.d_memory = planner.scratch(storage_, memory);
    slots.d_hn = planner.scratch(storage_, final_states);
    slots.d_cn = planner.scratch(cell, final_states);
    slots.d_h0 = planner.scratch(storage_, start_states);
    slots.d_c0 = planner.scratch(cell, start_states);
  }
  return slots;
}

Seq2SeqEncoder::Seq2SeqEncoder(const Context& context, const Seq2Seq& model,
                               runtime::ArenaPlanner& planner, std::int64_t rows,
                               std::int64_t source_time, bool training)
    : model_(&model),
      training_(training),
      storage_(model.parameters().storage(context)),
      slots_(book(planner, rows, source_time)),
      stack_(context, model.encoder(), planner, source_time, rows, storage_, training) {}

void Seq2SeqEncoder::pack(const Context& context, const runtime::Arena& arena) {
  stack_.pack(context, arena, model_->parameters());
}

EncodedSource Seq2SeqEncoder::forward(const Context& context, const runtime::Arena& arena,
                                      const Tensor& source, const Tensor& lengths,
                                      const Tensor& row_ids, const Pass& pass) {
  const Seq2SeqConfig& config = model_->config();
  const std::int64_t time = source.size(0);
  const std::int64_t rows = source.size(1);
  const std::int64_t directions = model_->encoder().architecture().directions;
  source_ = source;
  embedding_dropout_ = {};
  if (training_) {
    embedding_dropout_ = {config.dropout, pass.dropout.shifted(Seq2SeqDropout::kSourceEmbedding),
                          row_ids};
  }

  const Tensor embedded = tensor(arena, slots_.embedded, {time, rows, config.embedding});
  model_->source_embedding().forward(context, model_->parameters(), source, embedded,
                                     embedding_dropout_);
  show_input(context, pass.probe, "source_embedding", embedded, lengths);

  const Shape final_shape{config.encoder_layers * directions, rows, config.hidden / directions};
  last_ = {};
  last_.time = time;
  last_.rows = rows;
  last_.x = embedded;
  last_.lengths = lengths;
  last_.y = tensor(arena, slots_.memory, {time, rows, config.hidden});
  last_.hn = tensor(arena, slots_.hn, final_shape);
  if (has_cell_state()) last_.cn = cell_tensor(arena, slots_.cn, final_shape);
  last_.row_ids = row_ids;
  last_.dropout = pass.dropout.shifted(Seq2SeqDropout::kEncoder);
  recurrent::ForwardArgs args = last_;
  StackProbe shown(context, pass.probe, model_->encoder(), args);
  stack_.forward(context, arena, args);
  shown.show(context, model_->parameters(), stack_.implementation());

  const Shape start_shape{config.decoder_layers, rows, config.hidden};
  EncodedSource encoded;
  encoded.memory = last_.y;
  encoded.h0 = tensor(arena, slots_.h0, start_shape);
  join_states(context, last_.hn, directions, encoded.h0);
  if (has_cell_state()) {
    encoded.c0 = cell_tensor(arena, slots_.c0, start_shape);
    join_states(context, last_.cn, directions, encoded.c0);
  }
  return encoded;
}

EncodedSource Seq2SeqEncoder::gradient_views(const runtime::Arena& arena) const {
  const Seq2SeqConfig& config = model_->config();
  const Shape start_shape{config.decoder_layers, last_.rows, config.hidden};
  EncodedSource gradients;
  if (config.attends()) {
    gradients.memory = tensor(arena, slots_.d_memory, {last_.time, last_.rows, config.hidden});
  }
  gradients.h0 = tensor(arena, slots_.d_h0, start_shape);
  if (has_cell_state()) gradients.c0 = cell_tensor(arena, slots_.d_c0, start_shape);
  return gradients;
}

void Seq2SeqEncoder::backward(const Context& context, const runtime::Arena& arena,
                              const recurrent::OverlapWork& work) {
  const std::int64_t directions = model_->encoder().architecture().directions;
  const EncodedSource gradients = gradient_views(arena);

  recurrent::BackwardArgs args;
  args.forward = last_;
  args.dy = gradients.memory;
  args.dhn = tensor(arena, slots_.d_hn, last_.hn.shape());
  split_states(context, gradients.h0, directions, args.dhn);
  if (has_cell_state()) {
    args.dcn = cell_tensor(arena, slots_.d_cn, last_.cn.shape());
    split_states(context, gradients.c0, directions, args.dcn);
  }
  args.dx = tensor(arena, slots_.d_embedded, last_.x.shape());
  args.overlap_work = &work;
  stack_.backward(context, arena, model_->parameters(), args);

  model_->source_embedding().backward(context, model_->parameters(), source_, args.dx,
                                      embedding_dropout_);
}

bool Seq2SeqEncoder::has_cell_state() const {
  return model_->encoder().architecture().cell == recurrent::CellType::kLstm;
}

}  // namespace sluice::models
