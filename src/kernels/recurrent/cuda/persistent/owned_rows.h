#pragma once

#include "kernels/recurrent/cuda/persistent/geometry.h"

namespace sluice::kernels::recurrent::cuda::persistent {

/// The rows that a thread owns of its cluster's share, kTiles of them kRowStep apart, and where its
/// unit, or the first of its units, is in arrays [.., rows, H].
template <int kTiles, int kRowStep = 8>
class OwnedRows {
 public:
  __device__ OwnedRows(const Extent& extent, const Share& share, const Owner& owner, int unit)
      : share_(share),
        hidden_(extent.hidden),
        unit_(unit),
        extent_(extent),
        owner_row_(owner.row),
        warp_row_(owner.half * 4) {}

  __device__ bool reversed() const { return share_.direction == 1; }
  /// Whether any of the warp's n-th rows is a row, and whether the owner's is.
  __device__ bool warp_has_row(int n) const { return warp_row_ + n * kRowStep < share_.rows; }
  __device__ bool has_row(int n) const { return owner_row_ + n * kRowStep < share_.rows; }

  /// Calls body(n) for each n of which any of the warp's rows is a row, or for all where the
  /// cluster was chosen for having them. There is no branch between them where all are, so that
  /// they run interleaved.
  template <typename Body>
  __device__ void for_rows(const Body& body) const {
    if (kRowStep < 8 || warp_has_row(kTiles - 1)) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) body(n);
    } else {
#pragma unroll
      for (int n = 0; n + 1 < kTiles; ++n) {
        if (warp_has_row(n)) body(n);
      }
    }
  }

  /// Says at what time the next step or write is.
  __device__ void move_to(int t) {
    time_ = t;
    place_ = row_at(t, 0);
  }

 protected:
  __device__ int global_row(int n) const { return share_.first_row + owner_row_ + n * kRowStep; }
  /// In an array [.., rows, H].
  __device__ int row_at(int index, int n) const {
    return (index * extent_.rows + global_row(n)) * hidden_ + unit_;
  }
  __device__ int state_at(int n) const { return row_at(share_.direction, n); }
  __device__ int length_of(int n) const {
    return extent_.lengths ? extent_.lengths[global_row(n)] : extent_.time;
  }

  const Share& share_;
  const int hidden_, unit_;
  int time_ = 0;
  int place_ = 0;  ///< of the first row at that time, in an array [time, rows, H]

 private:
  const Extent& extent_;
  const int owner_row_, warp_row_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
