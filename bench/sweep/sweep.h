#pragma once

#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "bench/recurrent_bench.h"
#include "bench/sweep/drawn_shape.h"

namespace sluice::bench::sweep {

struct SweepOptions {
  std::int64_t count = 300;
  std::optional<std::uint64_t> seed;  ///< absent: chosen anew
  std::string device = "cuda";
  std::string dtype;  ///< instead of the drawn one; empty: as drawn
  /// Shapes whose pass takes more are skipped; absent: 2000 on a GPU, 2 on a CPU.
  std::optional<double> most_gflop;
  std::string peers = "all";                                 ///< or names with commas between
  double seconds = std::numeric_limits<double>::infinity();  ///< no shape is begun afterwards
  std::int64_t repeats = 7;                                  ///< most timed turns of a shape
  std::string json;  ///< file for the results, written after each shape; empty: none
};

/// What became of one drawn shape.
struct Outcome {
  DrawnShape drawn;
  std::string skipped;               ///< why nothing was measured; empty: it was
  std::string failed;                ///< the error that ended it; empty: none
  std::optional<BenchResult> own;    ///< by "auto"
  std::optional<BenchResult> peer;   ///< the fastest; with lengths on rows of full length
  std::string no_peer;               ///< why none could run it
  std::vector<BenchResult> results;  ///< all that was measured

  /// The fastest peer's time over ours.
  std::optional<double> ratio() const;
  /// Whether our error is not finite, or more than four times the peer's and than what rounding
  /// explains.
  bool is_inexact() const;
};

/// Draws shapes and measures "auto" beside every peer of the device, captured in a graph where the
/// device captures, with errors. Prints a line as each shape is done, then what is slower than the
/// peer, what is less exact, what was skipped, and geometric means. Ends early if two shapes in
/// succession fail. Throws Error if one failed or a result isn't finite, after all is printed and
/// written.
std::vector<Outcome> run_sweep(const SweepOptions& options, std::ostream& out);

}  // namespace sluice::bench::sweep
