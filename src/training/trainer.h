#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "distributed/communicator.h"
#include "training/checkpoint.h"
#include "training/run_folder.h"
#include "training/run_report.h"
#include "training/step_log.h"
#include "training/train_data.h"
#include "training/training_step.h"
#include "training/validation.h"

namespace sluice::training {

enum class TrainOutcome { kFinished, kEarlyStopped, kStopped };

struct TrainResult {
  TrainOutcome outcome = TrainOutcome::kFinished;
  std::int64_t step = 0;
  BestMetric best;  ///< the model in <output>/best
};

enum class Start {
  kFresh,   ///< refuses an output folder that holds a checkpoint
  kResume,  ///< goes on from <output>/last, or from the beginning if there is none
};

/// Trains a model on examples: bucketed batches, forward and backward, clipped optimiser steps,
/// validations, checkpoints. All that a step depends on is a function of the configuration, the
/// data and TrainingState, so a run that was killed at any moment and resumed ends with the same
/// weights, to the bit, on the same machine and number of threads; but for asynchronous ranks. What
/// it writes stands in training/run_folder.h.
class Trainer {
 public:
  /// Allocates and initialises the model, or loads it. `folder` is that of config.output.directory.
  /// Throws ErrorCode::kInvalidArgument for an impossible configuration, for examples that fit no
  /// batch, and for a saved run of other data or of other values of keys that matter (it names
  /// them). Another number of threads, device or implementation is warned about. `context` must
  /// outlive the trainer; if it has a Tuning, as machine.autotune asks for, a saved run's choices
  /// are put into it and checkpoints keep them.
  Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start,
          RunFolder folder);
  /// Claims the folder itself.
  Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start);
  /// One rank of a run, all of which must be made and run with the same configuration (but for
  /// machine.device and machine.threads) and the same data. Together they compute what one trainer
  /// does, but for the order of sums. Rank 0 has the folder, writes and validates; the others have
  /// none, start from what it starts from, and return what it returns. `ranks` must outlive the
  /// trainer. Throws, beside the above, ErrorCode::kInvalidArgument if ranks differ, and what made
  /// another rank fail.
  Trainer(const Context& context, const TrainConfig& config, TrainData data, Start start,
          std::optional<RunFolder> folder, distributed::Communicator* ranks);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  models::Model& model() { return *model_; }
  const TrainingState& state() const { return state_; }
  const TrainData& data() const { return data_; }
  /// Lines for people on what the weights of a fresh run started from, beside what was drawn.
  const std::vector<std::string>& start_notes() const { return start_notes_; }

  /// Trains until a limit of the configuration is reached, validation stalls, or `stop` is set.
  /// Throws ErrorCode::kNumeric at a loss that is not finite or above Task::divergence_bound, of
  /// the weights that are to be saved at the latest, and ErrorCode::kIo if a checkpoint cannot be
  /// written; the checkpoints that were there before are then in place.
  TrainResult run(const TrainHooks& hooks = {});

 private:
  bool has_validation() const { return validation_.has_value(); }

  void make_step();
  void start_fresh();
  void resume();
  void require_same_start();
  void share_start();
  bool leads() const { return ranks_ == nullptr || ranks_->rank() == 0; }

  bool at_boundary() const;
  bool validation_is_due() const { return has_validation() && at_boundary(); }
  bool checkpoint_is_due() const;
  bool is_time_to_read() const;
  bool limit_reached() const;
  bool stalled() const;
  double fraction_done() const;

  TrainOutcome loop();
  void train_step();
  StepReport report_of(std::span<const data::Batch> batches) const;
  void pass_batches(const std::function<void(const data::BatchRows&)>& visit);
  std::vector<data::Batch> next_batches();
  StepSums run_step(std::vector<data::Batch> batches, const StepReport& report);
  void after_step();
  // For ranks that don't step together (trainer_apart.cpp).
  bool is_async() const { return shared_.has_value(); }
  bool steps_own_parameters() const;
  bool parameters_agree() const;
  void average();
  void train_apart();
  bool is_due(std::int64_t begun_at) const;
  void skip_step();
  void read_shared_steps();
  void warn_of_other_implementations();
  void read_steps();
  void log_weights();
  /// Absent if the run was asked to stop meanwhile. Keeps the model if it is the best so far.
  std::optional<ValidationReport> validate();
  std::optional<ValidationReport> validate_alone();
  bool validate_and_note();
  bool validate_at_the_end();
  bool stop_asked() const;
  std::vector<data::Batch> own_rows(std::vector<data::Batch> batches) const;
  Context unwatched_context() const;  ///< a module's time is that of training
  void refuse_diverged(std::string_view what, double loss) const;
  void judge_last_step();
  void save_last();

  const Context* context_;
  distributed::Communicator* ranks_;  ///< null: this is the only one
  TrainConfig config_;
  const Task* task_;
  TrainData data_;
  std::optional<RunFolder> folder_;  ///< rank 0's
  std::unique_ptr<models::Model> model_;
  std::vector<std::string> start_notes_;
  LearningRate learning_rate_;
  TrainingState state_;
  data::BatchSchedule schedule_;
  std::optional<data::BatchCursor> cursor_;
  data::BatchRows last_rows_;  ///< of the last step's last batch, some at least; before it none
  std::optional<TrainingStep> step_;
  double most_loss_;  ///< Task::divergence_bound
  StepLog step_log_;
  std::optional<Validation> validation_;
  RunReport* report_ = nullptr;              ///< of the run that goes on; rank 0's
  const std::atomic<bool>* stop_ = nullptr;  ///< likewise; may be null
  bool checkpoint_due_ = false;
  bool unsaved_ = true;  ///< the state is not that of <output>/last
  bool compare_implementations_ = false;
  double read_time_ = 0;                     ///< of the last read of the step log
  bool may_stop_ = true;                     ///< whether all ranks have the same parameters
  std::optional<SharedParameters> shared_;   ///< by asynchronous ranks
  std::vector<RankTotals> reported_totals_;  ///< up to the last report, by rank; rank 0's
  std::int64_t reported_step_ = 0;           ///< likewise
  std::int64_t weights_step_ = 0;            ///< of the last histograms, or where this run began
};

}  // namespace sluice::training
