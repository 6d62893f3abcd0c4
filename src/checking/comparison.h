#pragma once

#include <functional>
#include <span>
#include <vector>

#include "checking/layer_values.h"
#include "sluice/check.h"

namespace sluice::checking {

/// Compares layers batch by batch, and keeps what the differences come to.
class Comparison {
 public:
  /// `tolerance` gives LayerCheck::tolerance of a layer.
  using Tolerance = std::function<double(const LayerValues&)>;
  explicit Comparison(Tolerance tolerance) : tolerance_(std::move(tolerance)) {}

  /// The same layer of the same batch on both sides; row r is input inputs[r]. Steps past a row's
  /// end are passed over.
  void add(const LayerValues& value, const LayerValues& reference,
           std::span<const std::int64_t> inputs);

  /// Of all batches so far, in the order in which layers were added first.
  std::vector<LayerCheck> layers() const;

 private:
  struct Sums {
    LayerCheck check;
    double differences = 0;       ///< of those that are finite
    double squares = 0;           ///< of the reference
    std::int64_t first_step = 0;  ///< of check.first, counted as its direction runs
  };
  /// A number of both sides, and where it is.
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
