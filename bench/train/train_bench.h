#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/train/config_work.h"
#include "bench/train/step_bench.h"
#include "bench/train/train_shape.h"
#include "sluice/profile.h"

namespace sluice::bench::train {

struct TrainBenchOptions {
  std::string shapes;    ///< shape file, or else:
  ConfigRequest config;  ///< training configurations
  std::string device;    ///< instead of what shape file or configuration says; empty: as there
  /// GPUs that train together, one a process; empty: `device` alone. Shapes only.
  std::vector<std::string> devices;
  training::ExchangeOptions exchange;
  std::vector<std::string> command;  ///< starts this program again for the other processes
  std::string dtype;                 ///< the same: float32, tf32, bfloat16 or float16
  std::int64_t repeats = 15;         ///< timed steps of a shape, timed rounds of a configuration
  std::string json;                  ///< file for the results; empty: none
  ProfileRequest profile;            ///< of further steps of each implementation, counted from 1
};

/// Training steps of one shape; a round is one step. Each of several ranks has a batch of it.
struct TrainResult : StepResult {
  TrainShape shape;

  double pairs_per_second() const;
  double tokens_per_second() const;  ///< of source and target
};

/// Training steps of one configuration; a round is as many steps as it has batches.
struct ConfigResult : StepResult {
  ConfigSizes sizes;
  std::string dtype;

  double step_milliseconds() const;  ///< mean
  double examples_per_second() const;
  double tokens_per_second() const;  ///< of source and target, before padding
};

/// Runs whole training steps of every shape: new random tokens of full length to the device,
/// cleared gradients, forward with dropout, backward, clipping to a norm of 5, Adam. On a device
/// that captures work, plain and captured. Prints a table row as each is done and writes the JSON
/// at the end. Of several ranks the first does that, and the others return nothing. Throws Error;
/// ErrorCode::kNumeric for a loss that is not finite.
std::vector<TrainResult> run_train_bench(const TrainBenchOptions& options, std::ostream& out);

/// The same of configurations, of any kind of model: the steps that `sluice train` would begin
/// with, over and over, at the configuration's learning rate.
std::vector<ConfigResult> run_config_bench(const TrainBenchOptions& options, std::ostream& out);

/// The results as a JSON list of objects, in the keys of recurrent results with cell "seq2seq".
std::string to_json(const std::vector<TrainResult>& results);
/// The same, with the kind of model as the cell.
std::string to_json(const std::vector<ConfigResult>& results);

}  // namespace sluice::bench::train
