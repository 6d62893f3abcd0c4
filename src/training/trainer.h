#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "training/batch_upload.h"
#include "training/checkpoint.h"
#include "training/metrics_log.h"
#include "training/plan_cache.h"
#include "training/progress.h"
#include "training/step_log.h"
#include "training/train_data.h"

namespace sluice::training {

/// The result of a validation.
struct ValidationReport {
  std::int64_t step = 0;
  double loss = 0;        ///< -log p per target token, eos counted
  double perplexity = 0;  ///< exp(loss)
  double accuracy = 0;    ///< share of target tokens with the largest logit
  std::optional<double> exact_match;
  bool improved = false;  ///< the best so far, kept as <output>/best
};

/// What the caller of a run wants to see and to say; all may be absent.
struct TrainHooks {
  std::function<void(const StepReport&)> on_step;  ///< of every step, in order, some steps late
  std::function<void(const ValidationReport&)> on_validation;
  Progress* progress = nullptr;
  /// Set it (from a signal handler, say) to have the run save itself and return soon.
  const std::atomic<bool>* stop = nullptr;
};

enum class TrainOutcome { kFinished, kEarlyStopped, kStopped };

struct TrainResult {
  TrainOutcome outcome = TrainOutcome::kFinished;
  std::int64_t step = 0;
  BestMetric best;  ///< the model in <output>/best; of exact match the negated share
};

enum class Start {
  kFresh,   ///< refuses an output folder that holds a checkpoint
  kResume,  ///< goes on from <output>/last, or from the beginning if there is none
};

/// Trains a model on examples: bucketed batches, forward and backward, clipped optimiser steps,
/// validations, checkpoints. All that a step depends on is a function of the configuration, the
/// data and TrainingState, so a run that was killed at any moment and resumed ends with the same
/// weights, to the bit, on the same machine and number of threads.
///
///   <output>/last         model and training state, to resume from
///   <output>/best         the model of the best validation
///   <output>/tensorboard  metrics
class Trainer {
 public:
  /// Allocates and initialises the model, or loads it. Throws ErrorCode::kInvalidArgument for an
  /// impossible configuration, for examples that fit no batch, and for a saved run of other data or
  /// of other values of keys that matter (it names them). Another number of threads, device or
  /// implementation is warned about. `context` must outlive the trainer.
  Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start);
  ~Trainer();

  models::Seq2Seq& model() { return *model_; }
  const TrainingState& state() const { return state_; }
  const TrainData& data() const { return data_; }

  /// Trains until a limit of the configuration is reached, validation stalls, or `stop` is set.
  /// Throws ErrorCode::kNumeric at a loss that is not finite and ErrorCode::kIo if a checkpoint
  /// cannot be written or another process trains in the output folder; the checkpoints that were
  /// there before are then in place.
  TrainResult run(const TrainHooks& hooks = {});

 private:
  struct MetricsWindow;

  std::filesystem::path last_path() const { return output_ / "last"; }
  std::filesystem::path best_path() const { return output_ / "best"; }
  bool has_validation() const { return data_.validation.size() > 0; }

  void start_fresh();
  void resume();

  bool at_boundary() const;
  bool limit_reached() const;
  bool stalled() const;
  double fraction_done() const;

  TrainOutcome loop();
  void train_step();
  void after_step();
  void warn_of_other_implementations();
  void read_steps();
  void tell(const StepReport& report);
  void tell(const ValidationReport& report);
  /// Absent if the run was asked to stop meanwhile.
  std::optional<ValidationReport> validate();
  /// The number to be minimised.
  double metric_of(const ValidationReport& report) const;
  bool validate_and_note();
  bool validate_at_the_end();
  bool stop_asked() const { return hooks_.stop != nullptr && *hooks_.stop; }
  void save_last();
  void save_best();

  const Context* context_;
  TrainConfig config_;
  TrainData data_;
  std::filesystem::path output_;
  std::unique_ptr<models::Seq2Seq> model_;
  std::optional<Optimizer> optimizer_;
  LearningRate learning_rate_;
  TrainingState state_;
  data::BatchSchedule schedule_;
  std::optional<data::BatchCursor> cursor_;
  std::optional<PlanCache> plans_;
  BatchUpload upload_;
  StepLog step_log_;
  std::unique_ptr<MetricsWindow> metrics_;
  TrainHooks hooks_;
  std::vector<data::BatchRows> validation_batches_;
  bool checkpoint_due_ = false;
  bool unsaved_ = true;  ///< the state is not that of <output>/last
  bool compare_implementations_ = false;
  double read_time_ = 0;  ///< of the last read of the step log
};

}  // namespace sluice::training
