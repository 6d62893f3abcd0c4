#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/recurrent_bench.h"

namespace sluice::bench {

struct FiveFormsOptions {
  std::string shapes;           ///< instead of the workload `table`: the first line of this file
  std::string device = "cuda";  ///< of the GPU column
  std::string dtype = "float32";
  std::string pass = "forward";  ///< or "forward+backward"
  std::int64_t repeats = 7;
  std::string json;  ///< file for the results; empty: none
};

/// One of the five forms in which TensorFlow had LSTMs, and which of our implementations have that
/// form on a GPU and on a CPU.
struct Form {
  std::string_view name;
  std::vector<std::string> gpu;
  std::vector<std::string> cpu;
  std::string_view meaning;
};

/// Basic, LSTMCell, Block, BlockFused and cuDNN, and what Sluice picks by itself.
const std::vector<Form>& forms();

/// Of these implementations (or "auto") the first that has a result, plain or captured, whichever
/// is faster; null if none has.
const BenchResult* result_of(const std::vector<BenchResult>& results,
                             const std::vector<std::string>& names);

/// Prints milliseconds of each form on the CPU and on the GPU. What can't run is "-": listed with
/// its reason, as is a GPU that can't be opened. Throws Error.
std::vector<BenchResult> run_five_forms(const FiveFormsOptions& options, std::ostream& out);

}  // namespace sluice::bench
