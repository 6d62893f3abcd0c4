#pragma once

#include <memory>
#include <string>

#include "models/seq2seq.h"
#include "runtime/arena.h"

namespace sluice::models {

/// What a pass over a batch is normalised and randomised by.
struct Seq2SeqPass {
  double label_smoothing = 0;
  Tensor scale;  ///< float64 [1]: factor of the loss sum's gradient, e.g. 1 / target tokens
  Tensor loss_scale = {};  ///< float64 [1]: another factor of it (dynamic loss scaling); absent: 1
  runtime::DropoutSource dropout = {};  ///< seed and step; the streams are the model's own
};

/// A plan to train or evaluate at one capacity; its memory is booked with the planner. Several
/// plans (one for each bucket of lengths) may share one arena, for they never run at the same time.
/// Every call packs the weights as they stand, so parameters may change between calls.
class Seq2SeqTraining {
 public:
  /// A plan either trains (forward_backward only, with dropout) or evaluates (evaluate and score
  /// only, without). The model's parameters must have been allocated, with gradients to train; the
  /// model must outlive the plan.
  Seq2SeqTraining(const Context& context, const Seq2Seq& model, runtime::ArenaPlanner& planner,
                  const Seq2SeqExtent& capacity, bool training);
  ~Seq2SeqTraining();
  Seq2SeqTraining(Seq2SeqTraining&&) noexcept;
  Seq2SeqTraining& operator=(Seq2SeqTraining&&) noexcept;

  /// Sums over the batch's target tokens: a view of the arena, float64 [kernels::loss::kSums] on
  /// the device, valid until the next call.
  Tensor evaluate(const Context& context, const runtime::Arena& arena, const Seq2SeqBatch& batch,
                  const Seq2SeqPass& pass);
  /// The same sums under dropout; adds the gradient of scale * loss to the model's gradients.
  Tensor forward_backward(const Context& context, const runtime::Arena& arena,
                          const Seq2SeqBatch& batch, const Seq2SeqPass& pass);
  /// Where `forward_backward` and `evaluate` leave their sums.
  Tensor sums(const runtime::Arena& arena) const;
  /// log p(token | source, tokens before) for every target token: float64 [target_time, rows], zero
  /// past a row's end; a view as above.
  Tensor score(const Context& context, const runtime::Arena& arena, const Seq2SeqBatch& batch);

  /// "encoder=avx512 decoder=cpu": who runs, kept with the training state so that resuming is
  /// exact.
  std::string implementations() const;
  /// The same for people, a line each, with the reason of every implementation passed over.
  std::string explain() const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace sluice::models
