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
  /// That train together: GPUs, one a process, or CPUs, one a thread; empty: `device` alone.
  std::vector<std::string> devices;
  training::ExchangeOptions exchange;
  bool whole_batch = false;  ///< whether a shape's batch is that of all devices, not of each
  /// Not 0: seconds in which ranks step shared parameters without waiting for each other, instead.
  double async_seconds = 0;
  std::vector<std::string> slow;     ///< "rank=factor": ranks that take so many times as long
  std::vector<std::string> command;  ///< starts this program again for the other processes
  std::string dtype;                 ///< the same: float32, tf32, bfloat16 or float16
  std::int64_t repeats = 15;         ///< timed steps of a shape, timed rounds of a configuration
  std::string json;                  ///< file for the results; empty: none
  ProfileRequest profile;            ///< of further steps of each implementation, counted from 1
};

/// Training steps of one shape; a round is one step.
struct TrainResult : StepResult {
  TrainShape shape;  ///< with the batch of a rank

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

/// The mean step of each rank, and how old its gradients were.
struct AsyncRow {
  std::string name;     ///< of the shape
  bool slowed = false;  ///< whether the ranks of options.slow were slow
  std::int64_t rank = 0;
  AsyncResult result;
};

/// Steps of ranks that don't wait for each other: first all at their own speed, then with those of
/// options.slow slowed. Prints a table row a rank. Throws Error.
std::vector<AsyncRow> run_async_bench(const TrainBenchOptions& options, std::ostream& out);

/// The results as a JSON list of objects, in the keys of recurrent results with cell "seq2seq".
std::string to_json(const std::vector<TrainResult>& results);
/// The same, with the kind of model as the cell.
std::string to_json(const std::vector<ConfigResult>& results);

}  // namespace sluice::bench::train
