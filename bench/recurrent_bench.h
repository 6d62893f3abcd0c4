#pragma once

#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/watch.h"
#include "bench/shape_file.h"
#include "sluice/profile.h"

namespace sluice::bench {

/// Whether results are held against the double-precision oracle, which is slow.
enum class ErrorCheck { kOff, kOn, kAuto };

struct RecurrentBenchOptions {
  kernels::recurrent::CellType cell = kernels::recurrent::CellType::kLstm;
  std::string shapes;                   ///< shape file; lines of the other cell are skipped
  std::string implementations = "all";  ///< "all", "auto", or names with commas between
  /// Whether a name that declines a shape is listed with its reason as under "all", not an error.
  bool skip_declined = false;
  std::string device;                    ///< instead of that of each line; empty: as there
  std::string dtype;                     ///< the same: float32, tf32, bfloat16, …
  std::string passes = "all";            ///< "all", "forward" or "forward+backward"
  std::int64_t repeats = 15;             ///< timed turns; each runs every implementation once
  ErrorCheck error = ErrorCheck::kAuto;  ///< auto: only up to `oracle_flops` of the pass
  double oracle_flops = 60e9;            ///< above this the oracle takes longer than people wait
  /// A peer whose float32 results stand in for the oracle's where that isn't asked; empty: none.
  std::string reference;
  /// Milliseconds after which the timed turns end early, but not before the second.
  double turns_milliseconds = std::numeric_limits<double>::infinity();
  /// A peer that takes more than this many times as long as the fastest so far isn't timed.
  double hopeless = std::numeric_limits<double>::infinity();
  std::size_t most_copies = 64;  ///< of inputs and outputs, which runs take by turns
  std::string json;              ///< file for the results; empty: none
  base::Watch watch{};           ///< told how each shape and pass gets on
  /// Of further turns of each implementation, after the timed ones; by default three.
  ProfileRequest profile{};
};

/// One implementation on one shape and pass.
struct BenchResult {
  BenchShape shape;
  Pass pass = Pass::kForward;
  std::string implementation;  ///< "name", or "name+graph" captured in a CUDA graph
  std::string device_model;
  bool peer = false;
  bool is_default = false;  ///< what "auto" picks
  double milliseconds = 0;  ///< median
  double gflops = 0;        ///< forward_flops (three times that with backward) / median
  /// What the machine reaches in a large product of matrices of the same dtype, in the same run.
  std::optional<double> gemm_gflops;
  std::optional<double> error;  ///< worst_error, if checked
  std::string error_against;    ///< "oracle", or "NAME in float32"; empty if not checked
  /// Median over the turns of (fastest peer's time / this one's) in the same turn.
  std::optional<double> speedup_over_peer;

  /// gflops / gemm_gflops
  std::optional<double> share_of_gemm() const;
};

/// On a device that captures work, every implementation runs plain and captured (but "graph", which
/// is a captured one). Runs every shape and prints a table row as each is done. Implementations
/// that decline a shape are listed with their reason; one asked for by name must accept every
/// shape. Writes the JSON after each pass of a shape, all there is so far. Throws Error.
std::vector<BenchResult> run_recurrent_bench(const RecurrentBenchOptions& options,
                                             std::ostream& out);
/// The same on these shapes instead of a file's; `options.cell`, `shapes`, `device` and `dtype`
/// play no part. May return nothing.
std::vector<BenchResult> run_recurrent_bench(const RecurrentBenchOptions& options,
                                             std::span<const BenchShape> shapes, std::ostream& out);

/// The results as a JSON list of objects.
std::string to_json(const std::vector<BenchResult>& results);

}  // namespace sluice::bench
