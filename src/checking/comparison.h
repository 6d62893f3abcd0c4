#pragma once

#include <functional>
#include <span>
#include <vector>

#include "checking/layer_values.h"
#include "sluice/check.h"

namespace sluice::checking {

/// Compares layers batch by batch, and keeps statistics of the differences.
class Comparison {
 public:
  /// Returns LayerCheck::tolerance of a layer.
  using Tolerance = std::function<double(const LayerValues&)>;
  explicit Comparison(Tolerance tolerance) : tolerance_(std::move(tolerance)) {}

  /// Adds the same layer of the same batch on both sides; row r is input inputs[r]. Skips steps
  /// past a row's end.
  void add(const LayerValues& value, const LayerValues& reference,
           std::span<const std::int64_t> inputs);

  /// The result of all batches so far, in the order in which layers were added first.
  std::vector<LayerCheck> layers() const;

 private:
  struct Sums {
    LayerCheck check;
    double differences = 0;       ///< sum of the finite ones
    double squares = 0;           ///< sum of the reference's squares
    std::int64_t first_step = 0;  ///< step of check.first, counted as its direction runs
  };
  /// A number of both sides, with its place.
  struct Pair {
    LayerPlace place;
    std::int64_t step;  ///< counted as its direction runs
    double bound;
  };

  Sums& sums_of(const LayerValues& value);
  static void add(Sums& sums, const Pair& pair);

  Tolerance tolerance_;
  std::vector<Sums> layers_;
};

}  // namespace sluice::checking
