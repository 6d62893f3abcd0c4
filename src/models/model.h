#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/parameters.h"
#include "models/probe.h"
#include "runtime/arena.h"
#include "runtime/rng.h"

namespace sluice::models {

using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// How much a plan must hold, or a batch holds. A time that a kind of model has no use for is 0.
struct Extent {
  std::int64_t rows = 0;
  std::int64_t source_time = 0;
  std::int64_t target_time = 0;
  bool resets = false;  ///< whether batches mark resets

  bool operator==(const Extent&) const = default;
};

/// A batch on the device, time-major; tokens, labels and lengths are int32, padding is 0. What a
/// kind of model has no use for is absent.
struct Batch {
  Extent extent;
  Tensor source;          ///< tokens [source_time, rows], or float32 [source_time, rows, features]
  Tensor source_lengths;  ///< [rows]
  Tensor target_in;       ///< tokens [target_time, rows], starts with bos
  Tensor target_out;      ///< tokens or labels [target_time, rows], or float32 with [.., values]
  Tensor target_lengths;  ///< [rows]; of tokens with eos
  Tensor row_ids;         ///< [rows]: index of the example in its data set, keys dropout
  /// int32 [source_time, rows]: not 0 where a recurrent stack starts afresh (docs/equations.md), of
  /// a model on features that answers each frame; present if extent.resets.
  Tensor resets = {};
};

/// Normalisation, randomness and probe of a pass over a batch.
struct Pass {
  double label_smoothing = 0;
  Tensor scale;            ///< float64 [1]: factor of the loss sum's gradient, e.g. 1 / targets
  Tensor loss_scale = {};  ///< float64 [1]: another factor of it (dynamic loss scaling); absent: 1
  runtime::DropoutSource dropout = {};  ///< seed and step; the streams are the model's own
  /// float64 [1]: in training, how likely a model that predicts tokens is fed its own prediction in
  /// place of a target (scheduled sampling, OutputLoss::schedule_inputs); absent: never.
  Tensor sampling = {};
  bool sampling_draws = false;  ///< whether that prediction is drawn, not the likeliest token
  Probe* probe = nullptr;       ///< is shown what the parts of the model put out, in evaluation
};

/// A plan to train or evaluate at one capacity; its memory is booked with the planner. Several
/// plans (one for each bucket of lengths) may share one arena, for they never run at the same time.
/// Every call packs the weights as they stand, so parameters may change between calls. Nothing
/// waits for the device.
class TrainingPlan {
 public:
  virtual ~TrainingPlan() = default;

  /// Sums over the batch's targets (kernels::loss::Sum): a view of the arena, float64
  /// [kernels::loss::kSums] on the device, valid until the next call. Without dropout; of a plan
  /// that doesn't train.
  virtual Tensor evaluate(const Context& context, const runtime::Arena& arena, const Batch& batch,
                          const Pass& pass) = 0;
  /// The same sums under dropout; adds the gradient of scale * loss to the model's gradients. Of a
  /// plan that trains.
  virtual Tensor forward_backward(const Context& context, const runtime::Arena& arena,
                                  const Batch& batch, const Pass& pass) = 0;
  /// Where `forward_backward` and `evaluate` leave their sums.
  virtual Tensor sums(const runtime::Arena& arena) const = 0;

  /// "encoder=avx512 decoder=cpu": who runs, kept with the training state so that resuming is
  /// exact.
  virtual std::string implementations() const = 0;
  /// The same for people, a line each, with the reason of every implementation passed over.
  virtual std::string explain() const = 0;
};

/// A tensor on the device, by a name of its own.
struct NamedTensor {
  std::string name;
  Tensor value;
};

/// A model as training sees it: configuration -> layers and parameters, and plans that run it. No
/// memory is taken before parameters().allocate.
class Model {
 public:
  virtual ~Model() = default;

  /// "seq2seq": what model.kind names and checkpoints keep.
  virtual std::string_view kind() const = 0;
  /// The architecture as JSON text, with the kind; what reads it refuses unknown keys.
  virtual std::string configuration() const = 0;
  /// The parameters must have been allocated, with gradients to train; the model must outlive the
  /// plan.
  virtual std::unique_ptr<TrainingPlan> training_plan(const Context& context,
                                                      runtime::ArenaPlanner& planner,
                                                      const Extent& capacity,
                                                      bool training) const = 0;
  /// What goes on from batch to batch beside parameters, in the storage type or a wider one: kept
  /// with the training state, so that a resumed run goes on exactly.
  virtual std::vector<NamedTensor> carried_tensors() const { return {}; }

  layers::Parameters& parameters() { return parameters_; }
  const layers::Parameters& parameters() const { return parameters_; }

 protected:
  layers::Parameters parameters_;
};

}  // namespace sluice::models
