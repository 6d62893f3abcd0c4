#pragma once

#include "kernels/recurrent/cuda/persistent/cluster_exchange.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/shared_vectors.h"

/// What sums over all units of a layer need in the middle of a step: kValues numbers of each row
/// from each octet of units come together in the block, and one set of them goes from each block to
/// all. A half of a block's warps has its rows to itself. Whoever is sent the next step's numbers
/// has read this step's: it has sent its part of what that step's product needs.
namespace sluice::kernels::recurrent::cuda::persistent {

template <int kBlocks, int kTiles, int kValues>
class RowExchange {
 protected:
  static constexpr int kRowBytes = kValues * 4;
  static constexpr int kRows = 4 * kTiles;            ///< of a half, in the order of tiles
  static constexpr int kTargets = kBlocks / kOctets;  ///< blocks that a warp sends to
  static_assert(kTiles <= 2 && kBlocks % kOctets == 0);

 private:
  static constexpr int kPartBytes = kRows * kRowBytes;
  static constexpr int kReceived = 16;  ///< behind the barrier
  static constexpr int kOctet = kReceived + 2 * kBlocks * kPartBytes;

 public:
  /// Of a block: a barrier, [half][block][kRows][kValues], and the same of octets.
  static constexpr int kBytes = kOctet + 2 * kOctets * kPartBytes;

  /// Begins the exchange in the block; the cluster meets before its first step. Of all rows of the
  /// share `rows` are sent.
  __device__ RowExchange(std::uint32_t memory, int rank, const Owner& owner, int rows)
      : lane_(owner.lane),
        octet_(owner.octet),
        half_(owner.half),
        rank_(rank),
        barrier_(memory),
        bytes_(rows * kRowBytes * kBlocks) {
    if (threadIdx.x != 0) return;
    begin_barrier(barrier_, 1);
    publish_barriers();
  }

 protected:
  /// Where the half's numbers are, of an octet of the block's units, and of a block.
  __device__ std::uint32_t octet(int octet) const {
    return barrier_ + kOctet + (half_ * kOctets + octet) * kPartBytes;
  }
  __device__ std::uint32_t received(int block) const {
    return barrier_ + kReceived + (half_ * kBlocks + block) * kPartBytes;
  }
  /// Where this block's are in the warp's i-th target, and its barrier.
  __device__ std::uint32_t received_by(int i) const {
    return address_in(octet_ + i % kTargets * kOctets, received(rank_));
  }
  __device__ std::uint32_t barrier_of(int i) const {
    return address_in(octet_ + i % kTargets * kOctets, barrier_);
  }

  /// The half has put down what its octets have.
  __device__ void meet_half() const {
    if (threadIdx.x == 0) arrive_and_expect(barrier_, bytes_);
    meet(1 + kOctets + half_, kThreads / 2);
  }

  /// Waits for this step's numbers of all blocks.
  __device__ void wait() {
    wait_for_phase(barrier_, phase_);
    phase_ ^= 1;
  }

  const int lane_, octet_, half_, rank_;

 private:
  const std::uint32_t barrier_;
  const int bytes_;
  std::uint32_t phase_ = 0;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
