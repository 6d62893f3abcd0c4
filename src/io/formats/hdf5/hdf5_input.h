#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "io/byte_source.h"

namespace sluice::io::formats {

/// The address of something that the file does not have.
constexpr std::uint64_t kHdf5Nowhere = ~std::uint64_t{0};

/// The bytes of an HDF5 file. All that describes data is read through take(), which charges a
/// budget of 4 times the file's size plus 64 KiB: structures that refer to each other in cycles, or
/// to one place from many, are refused before they take memory or time.
class Hdf5Input {
 public:
  explicit Hdf5Input(ByteSource source);

  std::uint64_t size() const { return size_; }
  std::string name() const { return "'" + source_.path().native() + "'"; }

  /// So many bytes at an address of the file.
  std::string take(std::uint64_t address, std::uint64_t bytes);
  /// The same with a signature of 4 letters in front, which is checked and left in.
  std::string take_signed(std::uint64_t address, std::uint64_t bytes, std::string_view signature);
  /// Compares the last 4 bytes with the checksum of those before.
  void check_sum(std::string_view bytes, std::uint64_t address) const;
  /// Elements of a dataset; not charged.
  void read(std::uint64_t address, std::span<std::byte> bytes) const;
  /// Charges the budget for memory that is taken otherwise.
  void charge(std::uint64_t bytes);

  /// The rest of the budget. Calls that keep nothing set it back, so that they can be repeated.
  std::uint64_t budget() const { return budget_; }
  void set_budget(std::uint64_t budget) { budget_ = budget; }

  template <typename... Args>
  [[noreturn]] void refuse(std::uint64_t address, fmt::format_string<Args...> format,
                           Args&&... args) const {
    base::fail(ErrorCode::kFormat, "{} is damaged at its byte {}: {}", name(), address,
               fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_feature(std::string_view feature) const;

 private:
  ByteSource source_;
  std::uint64_t size_;
  std::uint64_t budget_;
};

/// Reads numbers one behind the other, little-endian. Bytes that lack are refused.
class Hdf5Cursor {
 public:
  /// `address` is where `bytes` stand in the file, for messages. Borrows both.
  Hdf5Cursor(const Hdf5Input& input, std::string_view bytes, std::uint64_t address)
      : input_(&input), bytes_(bytes), address_(address) {}

  std::size_t left() const { return bytes_.size() - at_; }
  std::uint64_t address() const { return address_ + at_; }
  std::string_view take(std::uint64_t bytes);
  void skip(std::uint64_t bytes) { take(bytes); }
  /// A number of `bytes` bytes, at most 8.
  std::uint64_t number(std::size_t bytes);
  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  /// The bytes before the next zero, which is skipped.
  std::string_view text();
  /// Refuses another number than `wanted`.
  void expect_version(std::uint8_t wanted, std::string_view of);
  const Hdf5Input& input() const { return *input_; }

 private:
  const Hdf5Input* input_;
  std::string_view bytes_;
  std::uint64_t address_;
  std::size_t at_ = 0;
};

/// Bob Jenkins's lookup3 hash (hashlittle, initial value 0), the checksum of HDF5's structures.
std::uint32_t hdf5_checksum(std::string_view bytes);

}  // namespace sluice::io::formats
