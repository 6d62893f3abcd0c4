#pragma once

/// For .cu files only.
namespace sluice::runtime::cuda {

/// A power of two that numbers are multiplied by so that they lie well in a narrower type's range,
/// and what takes it back.
struct Scale {
  float up = 1, down = 1;

  Scale() = default;
  /// For numbers of up to `largest`, to be less than 2^bits. Both powers are normal numbers.
  __device__ explicit Scale(float largest, int bits = 15) {
    constexpr int kExponentBits = 23, kBias = 127;
    const int exponent =
        max(static_cast<int>(__float_as_uint(largest) >> kExponentBits & 0xff), bits);
    up = __uint_as_float(static_cast<unsigned>(2 * kBias + bits - 1 - exponent) << kExponentBits);
    down = __uint_as_float(static_cast<unsigned>(exponent + 1 - bits) << kExponentBits);
  }
};

}  // namespace sluice::runtime::cuda
