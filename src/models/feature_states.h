#pragma once

#include <vector>

#include "models/language_model.h"

namespace sluice::models {

/// The part of a language model's plans that makes start states of feature vectors: layer l starts
/// from h = tanh(W_l f + b_l), and from a c likewise. Of a model without features it books nothing
/// and isn't run.
class FeatureStates {
 public:
  FeatureStates(const Context& context, const LanguageModel& model, runtime::ArenaPlanner& planner,
                std::int64_t rows, bool training);

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena);
  /// features float32 [rows, config().features], in order -> states of that many rows.
  void forward(const Context& context, const runtime::Arena& arena, const Tensor& features,
               const RecurrentStates& states);
  /// The gradients of the states of the last forward, which are overwritten; adds to those of the
  /// start layers.
  void backward(const Context& context, const runtime::Arena& arena,
                const RecurrentStates& gradients);

 private:
  const LanguageModel* model_;
  std::int64_t rows_ = 0;  // of the last forward
  DType storage_;
  // Activations, as the parameters are stored: [layers, rows, width].
  runtime::Slot features_, h_, c_, d_h_;
  std::vector<layers::LinearPlan> plans_;
};

}  // namespace sluice::models
