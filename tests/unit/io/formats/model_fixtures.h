#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "io/host_tensor.h"
#include "unit/io/allocation_watch.h"
#include "unit/io/formats/fixture_files.h"
#include "unit/io/temporary_folder.h"

namespace sluice::io::formats {

inline void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

/// The i-th number, whatever its type.
inline double number_at(const HostTensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::kFloat64:
      return tensor.values<double>()[i];
    case DType::kFloat32:
      return double{tensor.values<float>()[i]};
    case DType::kBFloat16:
      return double{static_cast<float>(tensor.values<base::BFloat16>()[i])};
    case DType::kFloat16:
      return double{static_cast<float>(tensor.values<base::Float16>()[i])};
    case DType::kInt64:
      return static_cast<double>(tensor.values<std::int64_t>()[i]);
    case DType::kInt32:
      return tensor.values<std::int32_t>()[i];
    case DType::kUInt8:
      return tensor.values<std::uint8_t>()[i];
    case DType::kInt8:
      return tensor.values<std::int8_t>()[i];
  }
  return 0;
}

/// Expects the values that the scripts give to every tensor: 0.5 i - 1, of integers i - 1, of
/// unsigned ones i.
inline void expect_counting(const HostTensor& tensor, const Shape& shape) {
  EXPECT_EQ(tensor.shape, shape) << tensor.shape.to_string();
  const auto count = static_cast<std::size_t>(shape.element_count());
  ASSERT_EQ(tensor.data.size(), count * base::size_of(tensor.dtype));
  const bool is_float = tensor.dtype == DType::kFloat64 || tensor.dtype == DType::kFloat32 ||
                        tensor.dtype == DType::kBFloat16 || tensor.dtype == DType::kFloat16;
  for (std::size_t i = 0; i < count; ++i) {
    const double step = is_float ? 0.5 : 1.0, begin = tensor.dtype == DType::kUInt8 ? 0 : -1;
    EXPECT_EQ(number_at(tensor, i), step * static_cast<double>(i) + begin) << i;
  }
}

/// Expects a refusal whose sentence has `says` in it and is short.
template <typename Call>
void expect_refusal(ErrorCode code, std::string_view says, Call&& call) {
  const Error error = error_of(call);
  const std::string message = error.what();
  EXPECT_EQ(error.code(), code) << message;
  EXPECT_NE(message.find(says), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
}

/// A protobuf field that holds bytes or a message, for files made by hand.
inline std::string field(unsigned number, const std::string& content) {
  std::string bytes;
  const auto append = [&](std::size_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
    bytes += static_cast<char>(value);
  };
  append(number << 3 | 2);
  append(content.size());
  return bytes + content;
}
/// A protobuf field that holds a number.
inline std::string field(unsigned number, std::uint64_t value) {
  std::string bytes;
  const auto append = [&](std::uint64_t part) {
    for (; part >= 0x80; part >>= 7) bytes += static_cast<char>((part & 0x7f) | 0x80);
    bytes += static_cast<char>(part);
  };
  append(number << 3);
  append(value);
  return bytes;
}

}  // namespace sluice::io::formats
