#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/npy.h"

namespace sluice::testing {

/// The bytes of a .npy file.
inline std::string npy_file(const std::vector<std::int64_t>& shape,
                            const std::vector<float>& numbers) {
  std::string bytes = io::npy_header(shape);
  const std::size_t at = bytes.size();
  bytes.resize(at + numbers.size() * sizeof(float));
  std::memcpy(bytes.data() + at, numbers.data(), numbers.size() * sizeof(float));
  return bytes;
}

/// The same of int32.
inline std::string npy_file(const std::vector<std::int64_t>& shape,
                            const std::vector<std::int32_t>& numbers) {
  std::vector<float> same_bits(numbers.size());
  std::memcpy(same_bits.data(), numbers.data(), numbers.size() * sizeof(float));
  std::string bytes = npy_file(shape, same_bits);
  return bytes.replace(bytes.find("<f4"), 3, "<i4");
}

}  // namespace sluice::testing
