#pragma once

#include "models/tagger.h"

namespace sluice::models {

/// What a tagger's emissions [time, rows, labels] cost, by a softmax or a CRF, and the labels that
/// they speak for most, planned for a capacity.
class TaggerLoss {
 public:
  /// Books memory, scratch in the caller's scope. `model` must outlive this.
  TaggerLoss(const Tagger& model, runtime::ArenaPlanner& planner, const Extent& capacity,
             bool training);

  /// Fills in sums and, unless training with a softmax, best labels; without targets, labels alone
  /// and sums of zero. If training, the gradient of the emissions takes their place.
  void compute(const Context& context, const runtime::Arena& arena, const Batch& batch,
               const Pass& pass, const Tensor& emissions) const;
  /// The best labels alone.
  void find_best(const Context& context, const runtime::Arena& arena, const Batch& batch,
                 const Tensor& emissions) const;

  /// kernels::loss::kSums numbers.
  Tensor sums(const runtime::Arena& arena) const;
  /// int32 [time, rows], of an extent as that of the emissions.
  Tensor best(const runtime::Arena& arena, std::int64_t time, std::int64_t rows) const;

 private:
  void compute_softmax(const Context& context, const runtime::Arena& arena, const Batch& batch,
                       const Pass& pass, const Tensor& emissions) const;
  void compute_crf(const Context& context, const runtime::Arena& arena, const Batch& batch,
                   const Pass& pass, const Tensor& emissions) const;

  const Tagger* model_;
  bool training_;
  runtime::Slot sums_, best_, workspace_;
};

}  // namespace sluice::models
