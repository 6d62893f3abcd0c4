#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/gemm/product.h"

namespace sluice::bench::gemm {

struct GemmBenchOptions {
  std::string shapes;             ///< shape file
  std::string libraries = "all";  ///< "all", or names with commas between
  std::string device;             ///< instead of that of each line; empty: as there
  std::string dtype;              ///< the same
  std::string pass = "all";       ///< "all": what training multiplies; "forward"
  std::int64_t repeats = 15;      ///< timed turns; each runs every library once
  std::string json;               ///< file for the results; empty: none
};

/// One library on one product.
struct GemmResult {
  Product product;
  std::string matrix_library;
  std::string device_model;
  bool peer = false;
  double milliseconds = 0;  ///< median
  double gflops = 0;
  double error = 0;  ///< relative RMS of some elements against sums in float64
  /// Median over the turns of (fastest peer's time / this one's) in the same turn.
  std::optional<double> speedup_over_peer;
};

/// Runs every product of the shapes' layers and prints a row for each library. What is missing, or
/// declines, is listed with its reason; one asked for by name must take part. Throws Error.
std::vector<GemmResult> run_gemm_bench(const GemmBenchOptions& options, std::ostream& out);

/// The results as a JSON list of objects, in the keys of recurrent results with cell "gemm", and
/// m, n, k, transpose_a and transpose_b for their sizes; `pass` is the kind of product.
std::string to_json(const std::vector<GemmResult>& results);

}  // namespace sluice::bench::gemm
