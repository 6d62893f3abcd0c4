#pragma once

#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/persistent/geometry.h"
#include "kernels/recurrent/cuda/persistent/packed_weights.h"

/// What both passes of a plain RNN have in common: a thread owns four units next to each other.
namespace sluice::kernels::recurrent::cuda::persistent {

/// The cell. Which activation it has is known when it runs: kernels would differ in little else.
template <typename Math>
struct RnnUnits {
  static constexpr int kGates = 1;
  static constexpr int kEach = thread_units(kGates);  ///< of a thread
  using Tanh = TanhActivation<Math>;
  using Relu = ReluActivation<Math>;

  /// What the gradient of h is times in that of the sum.
  __device__ static float slope(bool relu, float h) {
    return relu ? Relu::gradient(h, 1.0f) : Tanh::gradient(h, 1.0f);
  }
};

/// How a thread's four units lie in arrays [.., H].
class UnitsInRow {
 public:
  static constexpr int kMost = 4;

  __device__ UnitsInRow(int first, int hidden)
      : count_(min(max(hidden - first, 0), kMost)), together_(hidden % kMost == 0) {}

  /// Where an array doesn't begin at four values, no four of it are accessed at once.
  template <typename T>
  __device__ void align(const T* array) {
    together_ = together_ && reinterpret_cast<std::uintptr_t>(array) % sizeof(Four<T>) == 0;
  }

  /// Of those that exist.
  __device__ int count() const { return count_; }
  /// Whether they are four, or none, and arrays begin so that four are accessed at once.
  __device__ bool together() const { return together_; }

  /// Those that exist; zeros.
  template <typename T>
  __device__ Four<T> read(const T* from) const {
    if (together_) return Four<T>(*reinterpret_cast<const typename Four<T>::Bits*>(from));
    float values[kMost];
#pragma unroll
    for (int i = 0; i < kMost; ++i) values[i] = i < count_ ? load(from + i) : 0.0f;
    return Four<T>(values);
  }
  template <typename T>
  __device__ void write(T* to, const float (&values)[kMost]) const {
    if (together_) {
      *reinterpret_cast<typename Four<T>::Bits*>(to) = Four<T>(values).bits;
    } else {
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (i < count_) store(to + i, values[i]);
      }
    }
  }

 private:
  const int count_;
  bool together_;
};

}  // namespace sluice::kernels::recurrent::cuda::persistent
