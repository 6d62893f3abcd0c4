#include "models/tagger_loss.h"

#include <algorithm>

#include "kernels/crf/crf.h"
#include "kernels/loss/loss.h"
#include "runtime/span.h"

namespace sluice::models {

namespace crf = kernels::crf;
namespace loss = kernels::loss;

TaggerLoss::TaggerLoss(const Tagger& model, runtime::ArenaPlanner& planner, const Extent& capacity,
                       bool training)
    : model_(&model), training_(training) {
  const std::int64_t time = capacity.source_time, rows = capacity.rows;
  const std::int64_t labels = model.config().labels;
  sums_ = planner.saved(DType::kFloat64, {loss::kSums});
  best_ = planner.saved(DType::kInt32, {time, rows});
  workspace_ =
      planner.scratch_bytes(std::max({crf::loss_workspace_bytes(time, rows, labels, training),
                                      crf::best_labels_workspace_bytes(time, rows, labels),
                                      loss::cross_entropy_workspace_bytes(time * rows)}));
}

Tensor TaggerLoss::sums(const runtime::Arena& arena) const {
  return arena.tensor(sums_, DType::kFloat64, {loss::kSums});
}

Tensor TaggerLoss::best(const runtime::Arena& arena, std::int64_t time, std::int64_t rows) const {
  return arena.tensor(best_, DType::kInt32, {time, rows});
}

void TaggerLoss::compute(const Context& context, const runtime::Arena& arena, const Batch& batch,
                         const Pass& pass, const Tensor& emissions) const {
  const runtime::Span span(context, "loss");
  if (!batch.target_out) {
    context.zero(sums(arena));
  } else if (model_->crf() != nullptr) {
    return compute_crf(context, arena, batch, pass, emissions);
  } else {
    compute_softmax(context, arena, batch, pass, emissions);
  }
  if (!training_) find_best(context, arena, batch, emissions);
}

void TaggerLoss::compute_softmax(const Context& context, const runtime::Arena& arena,
                                 const Batch& batch, const Pass& pass,
                                 const Tensor& emissions) const {
  const std::int64_t tokens = emissions.size(0) * emissions.size(1);
  loss::CrossEntropyArgs args;
  args.time = emissions.size(0);
  args.rows = emissions.size(1);
  args.logits = emissions.reshape({tokens, emissions.size(2)});
  args.targets = batch.target_out.reshape({tokens});
  args.lengths = batch.source_lengths;
  args.label_smoothing = pass.label_smoothing;
  args.scale = pass.scale;
  args.loss_scale = pass.loss_scale;
  if (training_) {
    args.class_weights = model_->class_weights().tensor();
    args.d_logits = args.logits;
  }
  args.sums = sums(arena);
  args.workspace = arena.data(workspace_);
  loss::cross_entropy(context, args);
}

void TaggerLoss::compute_crf(const Context& context, const runtime::Arena& arena,
                             const Batch& batch, const Pass& pass, const Tensor& emissions) const {
  crf::LossArgs args;
  args.time = emissions.size(0);
  args.rows = emissions.size(1);
  args.emissions = emissions;
  args.chain = model_->crf()->chain(model_->parameters());
  args.targets = batch.target_out;
  args.lengths = batch.source_lengths;
  args.scale = pass.scale;
  args.loss_scale = pass.loss_scale;
  if (training_) {
    args.d_emissions = emissions;
    args.d_chain = model_->crf()->gradient(model_->parameters());
  }
  args.best = best(arena, args.time, args.rows);
  args.sums = sums(arena);
  args.workspace = arena.data(workspace_);
  crf::negative_log_likelihood(context, args);
}

void TaggerLoss::find_best(const Context& context, const runtime::Arena& arena, const Batch& batch,
                           const Tensor& emissions) const {
  crf::BestLabelsArgs args;
  args.time = emissions.size(0);
  args.rows = emissions.size(1);
  args.emissions = emissions;
  if (model_->crf() != nullptr) args.chain = model_->crf()->chain(model_->parameters());
  args.lengths = batch.source_lengths;
  args.best = best(arena, args.time, args.rows);
  args.workspace = arena.data(workspace_);
  crf::best_labels(context, args);
}

}  // namespace sluice::models
