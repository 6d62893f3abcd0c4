#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/recurrent/cuda/persistent/arguments.h"

/// The recurrent weights of a thread, as fragments of tensor_core.h.
namespace sluice::kernels::recurrent::cuda::persistent {

/// The first kInRegisters of kCount fragments stay in registers, the others in shared memory. Their
/// numbers are known where they are asked for, once loops are unrolled.
template <int kCount, int kInRegisters>
class Fragments {
 public:
  static constexpr int kBytes = kCount > kInRegisters ? (kCount - kInRegisters) * kThreads * 16 : 0;

  /// `shared` has kBytes for the block.
  __device__ explicit Fragments(std::byte* shared)
      : shared_(reinterpret_cast<uint4*>(shared) + threadIdx.x) {}

  __device__ void put(int i, const uint4& fragment) {
    if (i < kInRegisters) {
      registers_[i < kInRegisters ? i : 0] = fragment;
    } else {
      shared_[(i - kInRegisters) * kThreads] = fragment;
    }
  }
  __device__ void get(int i, std::uint32_t (&fragment)[4]) const {
    const uint4 all = i < kInRegisters ? registers_[i < kInRegisters ? i : 0]
                                       : shared_[(i - kInRegisters) * kThreads];
    fragment[0] = all.x, fragment[1] = all.y, fragment[2] = all.z, fragment[3] = all.w;
  }

 private:
  uint4 registers_[kCount < kInRegisters ? kCount : kInRegisters];
  uint4* shared_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
