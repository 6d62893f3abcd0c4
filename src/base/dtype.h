#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace sluice::base {

enum class DType : std::uint8_t {
  kFloat64,
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt64,
  kInt32,
  kUInt8,
  kInt8
};

std::size_t size_of(DType dtype);
/// "float32", "bfloat16", …: the names of configuration and shape files.
std::string_view name_of(DType dtype);
/// The inverse of name_of, which also takes the short forms f32, f64, bf16, f16.
DType parse_dtype(std::string_view name);

/// bfloat16 storage: the upper half of a float32, rounded to nearest even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  constexpr explicit BFloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    if ((wide & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<std::uint16_t>((wide >> 16) | 0x40u);
    } else {
      bits = static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
    }
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// float16 storage (IEEE 754 binary16), rounded to nearest even: from 65520 on infinity, multiples
/// of 2^-24 below 2^-14; NaN stays NaN.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  constexpr explicit Float16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = wide & 0x7fffffffu;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >= 0x47800000u) {  // 2^16
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14; a carry may end in infinity
      half = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    } else {
      // The unit of what lies in [0.5, 1) is that of a subnormal, so the addition rounds.
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(half | ((wide >> 16) & 0x8000u));
  }
  constexpr explicit operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t magnitude = bits & 0x7fffu;
    std::uint32_t wide = (magnitude << 13) + (112u << 23);
    if (magnitude >= 0x7c00u) {
      wide = (magnitude << 13) | 0x7f800000u;
    } else if (magnitude < 0x400u) {
      wide = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
    }
    return std::bit_cast<float>(wide | sign);
  }
};

/// What each part of a computation is kept in. One dtype name picks a whole policy.
struct DTypePolicy {
  DType storage;     ///< activations that layers hand to each other
  DType accumulate;  ///< sums of products
  DType cell_state;  ///< c of an LSTM
  DType master;      ///< parameters, gradients, optimiser state
};

/// float64 is float64 throughout; everything else accumulates and keeps masters in float32.
constexpr DTypePolicy policy_of(DType storage) {
  const DType wide = storage == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return {storage, wide, wide, wide};
}

template <typename T>
struct TypeTag {
  using type = T;
};

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<BFloat16>() {
  return DType::kBFloat16;
}
template <>
constexpr DType dtype_of<Float16>() {
  return DType::kFloat16;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kUInt8;
}

template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kInt8;
}

/// Calls `body(TypeTag<float>{})` or `body(TypeTag<double>{})`: dispatch once, outside loops.
template <typename Body>
decltype(auto) dispatch_master(DType dtype, Body&& body) {
  if (dtype == DType::kFloat32) return body(TypeTag<float>{});
  if (dtype == DType::kFloat64) return body(TypeTag<double>{});
  fail(ErrorCode::kUnsupported, "this operation takes float32 or float64, not {}", name_of(dtype));
}

/// As dispatch_master, with BFloat16 as well.
template <typename Body>
decltype(auto) dispatch_storage(DType dtype, Body&& body) {
  if (dtype == DType::kBFloat16) return body(TypeTag<BFloat16>{});
  return dispatch_master(dtype, static_cast<Body&&>(body));
}

/// As dispatch_storage, with Float16 as well.
template <typename Body>
decltype(auto) dispatch_float(DType dtype, Body&& body) {
  if (dtype == DType::kFloat16) return body(TypeTag<Float16>{});
  return dispatch_storage(dtype, static_cast<Body&&>(body));
}

}  // namespace sluice::base
