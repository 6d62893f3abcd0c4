#pragma once

#include <optional>

#include "layers/linear.h"
#include "layers/pooling.h"
#include "models/class_weights.h"
#include "models/model.h"

namespace sluice::models {

/// The end of a model that reads sequences: pooling over time (or an output for every step), a
/// linear layer, and classes or values.
///
///   outputs = output(dropout(pooling(x)))
///
/// Classes are the softmax of the outputs, and their loss the cross entropy; of values, which the
/// outputs are themselves, it is the mean squared error.
class SequenceOutput {
 public:
  struct Architecture {
    std::int64_t in = 0;          ///< features of x
    std::int64_t forward_in = 0;  ///< of them, those of a stack's forward direction
    std::int64_t out = 0;         ///< classes, or values
    bool has_classes = true;
    std::optional<kernels::pooling::Kind> pooling = {};  ///< absent: an output for every step
    bool has_linear = true;  ///< else x, pooled, is the outputs, without dropout
    double dropout = 0;
  };

  /// Declares "pooling.query" and "output.weight", "output.bias" as far as it has them.
  SequenceOutput(layers::Parameters& parameters, const Architecture& architecture);

  const Architecture& architecture() const { return architecture_; }
  const std::optional<layers::Pooling>& pooling() const { return pooling_; }
  const std::optional<layers::Linear>& linear() const { return linear_; }
  /// Steps of the outputs for that many of x.
  std::int64_t steps_of(std::int64_t time) const { return pooling_ ? 1 : time; }
  /// Of classes, in training; plans read it in every run.
  ClassWeights& class_weights() { return class_weights_; }
  const ClassWeights& class_weights() const { return class_weights_; }

 private:
  Architecture architecture_;
  std::optional<layers::Pooling> pooling_;
  std::optional<layers::Linear> linear_;
  ClassWeights class_weights_;
};

/// A plan for up to `time` steps of `rows` rows. Whoever owns it holds a ScratchScope: outputs live
/// across calls.
class SequenceOutputPlan {
 public:
  SequenceOutputPlan(const Context& context, const SequenceOutput& output,
                     const layers::Parameters& parameters, runtime::ArenaPlanner& planner,
                     std::int64_t time, std::int64_t rows, bool training);

  /// To be called whenever the parameters have changed.
  void pack(const Context& context, const runtime::Arena& arena);
  /// Takes x [time, rows, in], storage, which has to live until backward. `dropout` has the stream.
  void forward(const Context& context, const runtime::Arena& arena, const Tensor& x,
               const Batch& batch, const runtime::DropoutSource& dropout, Probe* probe = nullptr);
  /// The sums over the batch's targets; if training, the outputs become the gradient of scale *
  /// loss.
  Tensor loss(const Context& context, const runtime::Arena& arena, const Batch& batch,
              const Pass& pass);
  /// After `loss`: the gradient of x, like it, a view of scratch. Adds to those of parameters.
  Tensor backward(const Context& context, const runtime::Arena& arena);
  /// Makes the outputs answers: log-probabilities of classes.
  void finish(const Context& context, const runtime::Arena& arena) const;

  /// Of the last forward: [steps, rows, out] in the parameters' dtype.
  Tensor outputs(const runtime::Arena& arena) const;
  Tensor sums(const runtime::Arena& arena) const;

 private:
  struct Slots {
    runtime::Slot dropped, outputs, sums;
    runtime::Slot d_pooled, d_x, loss_workspace;
  };

  Slots book(runtime::ArenaPlanner& planner, std::int64_t time, std::int64_t rows) const;
  bool drops() const;
  void drop(const Context& context, const Tensor& from, const Tensor& to) const;
  template <typename Args>
  void fill_in(const runtime::Arena& arena, const Batch& batch, const Pass& pass, Args& args) const;

  const SequenceOutput* output_;
  const layers::Parameters* parameters_;
  DType storage_;
  bool training_;
  Slots slots_;
  std::optional<layers::PoolingPlan> pooling_;
  std::optional<layers::LinearPlan> linear_;
  // Of the last forward.
  Tensor x_, read_, row_ids_;  // read_: [steps, rows, in], what the output layer read
  runtime::DropoutSource dropout_;
};

}  // namespace sluice::models
