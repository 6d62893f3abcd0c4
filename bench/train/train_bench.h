#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/train/train_shape.h"
#include "sluice/profile.h"

namespace sluice::bench::train {

struct TrainBenchOptions {
  std::string shapes;         ///< shape file
  std::string device;         ///< instead of that of each line; empty: as there
  std::string dtype;          ///< the same: float32, tf32, bfloat16 or float16
  std::int64_t repeats = 15;  ///< timed steps
  std::string json;           ///< file for the results; empty: none
  ProfileRequest profile;     ///< of further steps of each implementation, counted from 1
};

/// Training steps of one shape, queued one operation after the other or captured.
struct TrainResult {
  TrainShape shape;
  std::string implementation;  ///< "sluice", or "sluice+graph": the step captured in a CUDA graph
  std::string device_model;
  bool is_default = false;     ///< whether `sluice train` runs it so
  double milliseconds = 0;     ///< median
  std::size_t peak_bytes = 0;  ///< most device memory that model, optimiser and plans held
  std::int64_t parameters = 0;
  double loss = 0;  ///< of a target token, in the last step

  double pairs_per_second() const;
  double tokens_per_second() const;  ///< of source and target
};

/// Runs whole training steps of every shape: new random tokens of full length to the device,
/// cleared gradients, forward with dropout, backward, clipping to a norm of 5, Adam. On a device
/// that captures work, plain and captured. Prints a table row as each is done and writes the JSON
/// at the end. Throws Error; ErrorCode::kNumeric for a loss that is not finite.
std::vector<TrainResult> run_train_bench(const TrainBenchOptions& options, std::ostream& out);

/// The results as a JSON list of objects, in the keys of recurrent results with cell "seq2seq".
std::string to_json(const std::vector<TrainResult>& results);

}  // namespace sluice::bench::train
