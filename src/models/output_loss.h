#pragma once

#include <functional>

#include "kernels/loss/projected.h"
#include "layers/linear.h"
#include "models/model.h"

namespace sluice::models {

/// The end of a model that predicts tokens: a plan for its output layer, the softmax behind it, and
/// loss or scores. Logits of a few steps are in memory at a time, not those of all.
class OutputLoss {
 public:
  /// `logits`: their type, but for training on a GPU with a storage type of 16 bits and many
  /// classes. For up to `time` steps of `rows` rows. The plan that owns this holds a ScratchScope:
  /// logits live across calls of the output layer.
  OutputLoss(const Context& context, const layers::Linear& output, runtime::ArenaPlanner& planner,
             std::int64_t time, std::int64_t rows, DType storage, DType logits, bool training);

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena,
            const layers::Parameters& parameters);

  /// What the output layer reads and what it is to predict.
  struct Input {
    Tensor activations;  ///< [time, rows, output.in()], storage
    Tensor targets;      ///< int32 [time, rows]
    Tensor lengths;      ///< int32 [rows]
    /// What drops them out: only where drops_out().
    struct Dropout {
      double rate = 0;
      runtime::DropoutSource source;
      Tensor row_ids;         ///< int32 [rows]; absent: the row index
      bool is_drawn = false;  ///< whether draw_dropout has been called with the same
    };
    Dropout dropout = {};
  };
  /// Whether `loss` with a gradient can drop activations out by itself, and the gradient too.
  bool drops_out() const { return projects_; }

  /// Draws what dropout of activations keeps, before `loss` with a gradient wants it: while
  /// activations are computed, say. Only where drops_out().
  void draw_dropout(const Context& context, const runtime::Arena& arena,
                    const layers::Parameters& parameters, const Input& input,
                    const Tensor& d_activations) const;

  /// The sums (kernels::loss::Sum). With d_activations [like activations] also the gradient of
  /// scale * loss, which is written there and added to those of the output layer.
  Tensor loss(const Context& context, const runtime::Arena& arena,
              const layers::Parameters& parameters, const Input& input, const Pass& pass,
              const Tensor& d_activations) const;
  /// Scheduled sampling in two passes (Mihaylova and Martins, "Scheduled sampling for
  /// transformers", ACL SRW 2019): given the activations of a pass over `tokens`, int32 [time,
  /// rows], replaces tokens by what the step before predicts, each with the probability
  /// pass.sampling (kernels/sampling/scheduled.h). A second pass is then fed them. `stream` keys
  /// the coins.
  void schedule_inputs(const Context& context, const runtime::Arena& arena,
                       const layers::Parameters& parameters, const Tensor& activations,
                       const Tensor& tokens, const Batch& batch, const Pass& pass,
                       std::uint32_t stream) const;
  /// log p(target) of every target: float64 [time, rows], zero past a row's end. A view of the
  /// arena, valid until the next call. Of a plan that doesn't train.
  Tensor score(const Context& context, const runtime::Arena& arena,
               const layers::Parameters& parameters, const Input& input) const;
  /// Where `loss` leaves its sums: float64 [kernels::loss::kSums].
  Tensor sums(const runtime::Arena& arena) const;

 private:
  /// Some steps of an Input, with tokens in one axis.
  struct Part {
    std::int64_t first = 0;  ///< step
    std::int64_t steps = 0;
    Tensor activations, targets, logits;
    Tensor padded;  ///< the logits with further columns
  };

  std::int64_t most_logits() const;
  std::int64_t logit_capacity() const;
  std::size_t workspace_bytes() const;
  kernels::loss::ProjectedCrossEntropyArgs projected_args(const runtime::Arena& arena,
                                                          const layers::Parameters& parameters,
                                                          const Input& input,
                                                          const Tensor& d_activations) const;
  void for_parts(const Context& context, const runtime::Arena& arena,
                 const layers::Parameters& parameters, const Input& input, DType type,
                 std::int64_t columns, const std::function<void(const Part&)>& use) const;

  const layers::Linear* output_;
  std::int64_t time_, rows_;
  DType wide_type_;
  bool training_;
  bool narrow_;    ///< whether training has its logits in the storage type
  bool projects_;  ///< in training: products, loss and gradients in one pass
  DType type_;     ///< of the logits of the loss
  std::int64_t logit_tokens_;
  runtime::Slot sums_, scores_, logits_, workspace_;
  runtime::Slot mask_;  ///< of dropout, where drops_out(): not scratch, for it is drawn early
  layers::LinearPlan plan_;
};

}  // namespace sluice::models
