#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/interrupt.h"
#include "sluice/profile.h"
#include "sluice/warnings.h"

namespace sluice {

/// What a step or a validation of a run measured.
struct TrainMetrics {
  bool is_validation = false;
  std::int64_t step = 0;   ///< counted from 1, over every resumption
  std::int64_t epoch = 0;  ///< that the step is of, counted from 1
  double fraction = 0;     ///< of the run that is done after it; negative: not known
  bool improved = false;   ///< by a validation: the model is the best so far, `<output>/best`
  std::int64_t source_tokens = 0, target_tokens = 0;  ///< of a step
  /// Of a step "loss" (per target token, what is minimised), "learning_rate" and "gradient_norm"
  /// (before clipping); of a validation its metrics, by the names that training.keep_best takes.
  std::vector<std::pair<std::string, double>> values;
};

/// What to train: a TOML file, if any, then `section.key=value` overrides in order. The keys are
/// those of config_reference().
struct TrainRequest {
  std::string config_path;
  std::vector<std::string> overrides;
  /// Goes on from `<output>/last` if it is there. If false and it is there, training is refused so
  /// that nothing is overwritten.
  bool resume = true;
  /// When it becomes true, training saves and returns; may be null. Must outlive the call. Any
  /// thread may set it, or a signal handler.
  const std::atomic<bool>* stop = nullptr;
  /// Called with true before data are read and prepared, which does not look at `stop`, and with
  /// false after. Nothing but what is prepared is written in between, and that may be cut short at
  /// any moment: the same request begins it anew.
  std::function<void(bool)> preparing{};
  /// Called as data are prepared and before each step and each batch of a validation. What it
  /// throws ends the call at once, with what is on disk whole; set `stop` to save first.
  InterruptCheck interrupt{};
  /// Told of every step, in order, up to 32 steps late, and of every validation. What it throws
  /// ends the call as `interrupt` does.
  std::function<void(const TrainMetrics&)> metrics{};
  /// The program that calls this, with all its arguments, as it was started (`argv`): several GPUs
  /// take a process each, and this is started again for them. Empty: several GPUs are refused,
  /// unless a launcher such as torchrun started a process for each.
  std::vector<std::string> command{};
  /// No progress on standard error.
  bool quiet = false;
  WarningHandler warnings{};
  /// Steps are counted over every resumption, as TrainReport's; by default the 11th to 15th of this
  /// call.
  ProfileRequest profile{};
};

struct TrainReport {
  std::string directory;    ///< `<output>`
  std::int64_t steps = 0;   ///< done in all, over every resumption
  std::int64_t epochs = 0;  ///< completed
  double seconds = 0;       ///< of this call
  double best_metric = 0;   ///< of the validation that `<output>/best` was kept for
  /// "loss" (per target token), "perplexity", "exact match" (a share), "BLEU" or "chrF" (0 to 100);
  /// empty without any.
  std::string best_metric_name;
  std::string best_metric_text;  ///< best_metric as people read it: "0.1234", "98.20%", "31.57"
  std::int64_t best_step = 0;    ///< after which it was measured
  bool stopped = false;          ///< by `stop`: `<output>/last` has the state to go on from
  std::int64_t rank = 0;         ///< of this process, where there are several
};

/// Trains until the configuration's end, early stopping or `stop`. Where torchrun,
/// mpirun or srun started several processes, each must call it and is a rank of one run
/// (docs/distributed.md): rank 0 has `metrics` and progress, and what a rank throws is printed and
/// ends the processes of all of them.
/// SLUICE_IGNORE_LAUNCHER=1 in the environment makes each process train by itself. Leaves
/// `<output>/last` (to resume), `<output>/best` (to use) and `<output>/tensorboard`. Throws Error;
/// what was on disk stays whole.
TrainReport train(const TrainRequest& request);

/// What came of a k-fold cross-validation.
struct FoldsReport {
  std::vector<TrainReport> folds;  ///< those that were trained or resumed, in order
  double seconds = 0;              ///< of this call
  /// By `stop`, in the last of `folds` or after it; what follows is then not known.
  bool stopped = false;
  std::string metric_name;        ///< as TrainReport::best_metric_name
  double mean = 0;                ///< of the folds' best_metric
  double standard_deviation = 0;  ///< of the sample that they are: divided by folds - 1
  std::string table;              ///< all of it, for people
};

/// Trains `folds` models one after another, as train() does, in `<output>/fold-1`, `fold-2`, …
/// Each holds another fold of the examples out to validate on, and all folds together are all
/// examples. Called again, it goes on where it was stopped; of a fold that is finished no step is
/// trained again. Leaves `<output>/folds.json`. Throws Error, as train(), and for fewer than two
/// folds, for more of them than there are runs of data.hold_out_run examples, and where validation
/// files are named or a profile is asked for.
FoldsReport train_folds(const TrainRequest& request, std::int64_t folds);

/// Every configuration key with type, default and meaning, as a commented TOML file.
std::string config_reference();

/// The same as a page of Markdown: every key with type, default, allowed values, the kinds of
/// models that have a use for it, and whether a resumed run may change it.
std::string config_page();

}  // namespace sluice
