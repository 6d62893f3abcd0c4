#pragma once

#include <cstdint>
#include <memory>

#include "bench/workload.h"

namespace sluice::bench {

/// A recurrent stack behind the C API, a call for each step; states go on in place.
class CLayer {
 public:
  /// `step` has one row and one step; `data` are its numbers.
  CLayer(const BenchShape& step, const HostData& data);
  ~CLayer();
  CLayer(const CLayer&) = delete;
  CLayer& operator=(const CLayer&) = delete;

  /// Relative error of the first step, against the double-precision oracle.
  double first_error();
  /// Milliseconds of a step, the mean of so many.
  double run(std::int64_t steps);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace sluice::bench
