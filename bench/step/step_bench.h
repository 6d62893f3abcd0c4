#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/recurrent_bench.h"

namespace sluice::bench {

struct StepBenchOptions {
  std::string shapes;         ///< shape file; empty: LSTM and GRU of 128 on 128 features
  std::string device;         ///< instead of that of each line; empty: as there
  std::int64_t repeats = 15;  ///< timed turns
  std::int64_t calls = 2000;  ///< of a turn
  std::string json;           ///< file for the results; empty: none
};

/// Times calls of one step each through include/sluice (FeatureModel::run_part), beside the layer's
/// own call and the library's for the same step, by turns. Answers are held against the
/// double-precision oracle. Prints a table row as each is done. Throws Error.
std::vector<BenchResult> run_step_bench(const StepBenchOptions& options, std::ostream& out);

}  // namespace sluice::bench
