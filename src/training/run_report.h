#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "training/metrics_log.h"
#include "training/progress.h"
#include "training/step_log.h"
#include "training/validation.h"

namespace sluice::training {

/// What the caller of a run wants to see and to say; all may be absent.
struct TrainHooks {
  std::function<void(const StepReport&)> on_step;  ///< of every step, in order, some steps late
  std::function<void(const ValidationReport&)> on_validation;
  Progress* progress = nullptr;
  /// Set it (from a signal handler, say) to have the run save itself and return soon.
  const std::atomic<bool>* stop = nullptr;
};

/// Tells of a run wherever it is watched: TensorBoard's files, hooks, progress.
class RunReport {
 public:
  /// Metrics of training go to the folder `tensorboard` every `log_every` steps; `warnings` as
  /// MetricsLog's.
  RunReport(const std::filesystem::path& tensorboard, std::int64_t first_step,
            std::int64_t log_every, const TrainHooks& hooks,
            const WarningHandler* warnings = nullptr);
  RunReport(const RunReport&) = delete;
  RunReport& operator=(const RunReport&) = delete;
  /// Ends the line of the progress: also when training fails, what is said of it starts on a line
  /// of its own.
  ~RunReport();

  void tell(const StepReport& report);
  void tell(const ValidationReport& report);
  /// Histograms of all parameters and of their gradients as the last step left them: before
  /// clipping, and times the loss scale if there is one. Waits for the device.
  void tell(const Context& context, const layers::Parameters& parameters, std::int64_t step);
  /// What the run does beside its steps, as a base::Watch is told it.
  void tell_work(std::string_view what, double done);
  /// Pictures of the attention in a model's answers.
  void tell(std::span<const SampleAnswer> samples, std::int64_t step);

 private:
  void log_step(const StepReport& report);
  void log_ranks(std::int64_t step);
  void log_speed(std::int64_t step, double now);

  MetricsLog metrics_;
  std::int64_t log_every_;
  std::int64_t told_step_;  ///< the last
  TrainHooks hooks_;
  // Since the last metrics of training, which are means.
  double loss_sum_ = 0;
  std::int64_t target_tokens_ = 0;
  std::vector<RankReport> ranks_;
  // Since the last metric of speed.
  double start_;
  std::int64_t all_tokens_ = 0;
  std::vector<std::int64_t> rank_tokens_;  ///< of targets, by rank
};

}  // namespace sluice::training
