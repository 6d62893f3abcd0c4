#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "data/batches.h"
#include "runtime/tuning.h"
#include "training/learning_rate.h"

namespace sluice::training {

/// The best validation so far; the lower the metric (ValidationReport::metric) the better.
struct BestMetric {
  bool known = false;
  double value = 0;
  std::int64_t step = 0;
  std::int64_t stalled = 0;  ///< validations since

  bool operator==(const BestMetric&) const = default;
};

/// Where a run stands between two steps: with weights, moments, configuration and data, all that
/// the following steps depend on.
struct TrainingState {
  std::int64_t step = 0;        ///< steps done
  data::DataPosition position;  ///< of the next batch
  LearningRate::State learning_rate;
  BestMetric best;
  bool validation_due = false;  ///< to be done before the next step
  std::uint64_t train_fingerprint = 0;
  std::uint64_t validation_fingerprint = 0;  ///< 0 without examples to validate on
  // What may change the last bits of a number: told when it differs, never refused.
  std::set<std::string> implementations;  ///< that ran so far
  runtime::Tuning::Choices tuning;        ///< with machine.autotune: what was measured so far
  std::int64_t threads = 0;
  std::string device;

  bool operator==(const TrainingState&) const = default;
};

/// As kept in training_state.safetensors; numbers survive to the bit.
std::string to_json(const TrainingState& state);
/// Throws ErrorCode::kFormat, naming `origin`, if a key lacks, has another type or is not known.
TrainingState parse_training_state(std::string_view json, std::string_view origin);

}  // namespace sluice::training
