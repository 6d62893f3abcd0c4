#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "io/crc32c.h"

/// A reader of TensorBoard's event files for tests, which shares nothing but the checksum with what
/// writes them.
namespace sluice::training {

/// A message of protocol buffers: the last value of each field.
class Message {
 public:
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::uint64_t key = varint(bytes);
      std::string_view value;
      switch (key & 7) {
        case 0:
          numbers[key >> 3] = varint(bytes);
          continue;
        case 1:
          value = take(bytes, 8);
          break;
        case 2:
          value = take(bytes, varint(bytes));
          break;
        case 5:
          value = take(bytes, 4);
          break;
        default:
          throw std::runtime_error("wire type");
      }
      fields[key >> 3] = std::string(value);
    }
  }
  template <typename T>
  T fixed(std::uint64_t field) const {
    T value{};
    const std::string& bytes = fields.at(field);
    if (bytes.size() != sizeof(T)) throw std::runtime_error("size");
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  static std::string_view take(std::string_view& bytes, std::uint64_t count) {
    if (count > bytes.size()) throw std::runtime_error("truncated");
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(count);
    return taken;
  }
  static std::uint64_t varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(bytes, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  std::map<std::uint64_t, std::uint64_t> numbers;
  std::map<std::uint64_t, std::string> fields;
};

inline std::uint32_t unmasked(std::string_view bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), 4);
  value -= 0xa282ead8u;
  return (value >> 17) | (value << 15);
}

/// Every record of an event file, as events; expects their checksums to fit.
inline std::vector<Message> read_events(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  std::string_view left = content;
  std::vector<Message> events;
  while (!left.empty()) {
    const std::string_view length = Message::take(left, 8);
    EXPECT_EQ(unmasked(Message::take(left, 4)), io::crc32c(length));
    std::uint64_t size = 0;
    std::memcpy(&size, length.data(), 8);
    const std::string_view payload = Message::take(left, size);
    EXPECT_EQ(unmasked(Message::take(left, 4)), io::crc32c(payload));
    events.emplace_back(payload);
  }
  return events;
}

/// Packed doubles.
inline std::vector<double> doubles_of(const std::string& packed) {
  std::vector<double> numbers(packed.size() / sizeof(double));
  std::memcpy(numbers.data(), packed.data(), packed.size());
  return numbers;
}

/// What the summary in an event is of: its tag, and the fields of its value.
struct SummaryValue {
  std::int64_t step = 0;
  std::string tag;
  Message value;
};

/// Of the events of a file, those with a summary.
inline std::vector<SummaryValue> read_summaries(const std::filesystem::path& path) {
  std::vector<SummaryValue> summaries;
  for (const Message& event : read_events(path)) {
    if (!event.fields.contains(5)) continue;
    Message value(Message(event.fields.at(5)).fields.at(1));
    summaries.push_back(
        {static_cast<std::int64_t>(event.numbers.at(2)), value.fields.at(1), std::move(value)});
  }
  return summaries;
}

}  // namespace sluice::training
