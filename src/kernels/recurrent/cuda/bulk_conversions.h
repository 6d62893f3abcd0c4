#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/recurrent/recurrent.h"

namespace sluice::kernels::recurrent::cuda {

/// `count` numbers in float32 and the same in storage, either of which is read or written.
struct Segment {
  float* wide;
  void* stored;
  std::int64_t count;
};

/// Pieces of memory that are converted together, in one launch where a launch a piece would cost
/// more than the work.
class Segments {
 public:
  explicit Segments(DType storage) : storage_(storage) {}

  /// Joins the piece to one that it continues.
  void add(const Segment& segment);

  /// Rounds all to storage.
  void narrow(cudaStream_t stream) const;
  /// Widens all that is in storage to float32: added to what is there, or written.
  void widen(cudaStream_t stream, bool accumulate) const;

 private:
  DType storage_;
  std::vector<Segment> segments_;
};

}  // namespace sluice::kernels::recurrent::cuda
