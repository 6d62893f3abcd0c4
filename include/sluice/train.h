#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/profile.h"

namespace sluice {

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
  /// No progress on standard error.
  bool quiet = false;
  /// Steps are counted over every resumption, as TrainReport's; by default the 11th to 15th of this
  /// call.
  ProfileRequest profile{};
};

struct TrainReport {
  std::int64_t steps = 0;   ///< done in all, over every resumption
  std::int64_t epochs = 0;  ///< completed
  double seconds = 0;       ///< of this call
  double best_metric = 0;   ///< of the validation that `<output>/best` was kept for
  /// "loss" (per target token), "perplexity", "exact match" (a share), "BLEU" or "chrF" (0 to 100);
  /// empty without any.
  std::string best_metric_name;
  bool stopped = false;  ///< by `stop`: `<output>/last` has the state to go on from
};

/// Trains until the configuration's end, early stopping or `stop`. Leaves `<output>/last` (to
/// resume), `<output>/best` (to use) and `<output>/tensorboard`. Throws Error; what was on disk
/// stays whole.
TrainReport train(const TrainRequest& request);

/// Every configuration key with type, default and meaning, as a commented TOML file.
std::string config_reference();

}  // namespace sluice
