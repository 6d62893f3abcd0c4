#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::io {

/// An array of NumPy: numbers of float16, float32 or float64 in `floats`, rounded to float32 (what
/// is too large becomes infinite), those of integer types and bools in `integers`; the other is
/// empty.
struct NpyArray {
  std::vector<std::int64_t> shape;  ///< axes, outermost first
  bool is_integer = false;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;

  std::int64_t element_count() const {
    return static_cast<std::int64_t>(is_integer ? integers.size() : floats.size());
  }
};

/// Gives the next bytes of a file, as far as the span and the file go; 0 is the end.
using ByteStream = std::function<std::size_t(std::span<char>)>;

/// An array of NumPy that is read some numbers at a time: float16 to float64, int8 to int64,
/// uint8 to uint32 and bool, little-endian and in C order, format versions 1 to 3. Memory is taken
/// as the content arrives, never for what a header merely promises. Throws ErrorCode::kFormat with
/// a sentence that starts with `name`: what is wrong, and how to save it.
class NpyReader {
 public:
  /// Reads the header.
  NpyReader(ByteStream source, std::string name);

  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t element_count() const { return static_cast<std::int64_t>(count_); }
  bool is_integer() const { return type_->is_integer; }
  /// Appends the next `count` numbers, of those that remain, to the floats or the integers of
  /// `array`. With the last of them it looks whether anything stands behind.
  void read(std::int64_t count, NpyArray& array);

  /// A type of numbers as headers name it.
  struct Type {
    std::string_view descr;
    bool is_integer;
    std::size_t bytes;
    void (*append)(std::span<const char> bytes, NpyArray&);
  };

 private:
  [[noreturn]] void refuse_count(const std::string& held) const;

  ByteStream source_;
  std::string name_;
  std::vector<std::int64_t> shape_;
  const Type* type_;
  std::size_t count_;
  std::size_t done_ = 0;
};

/// A whole array; errors as NpyReader.
NpyArray read_npy(const ByteStream& source, std::string_view name);
/// The same of a file, which may be packed with gzip; errors also as TextFile.
NpyArray read_npy(const std::filesystem::path& path);

/// The bytes of a .npy file of float32 in C order that comes before its numbers.
std::string npy_header(std::span<const std::int64_t> shape);

/// "[3, 4, 5]"
std::string to_string(std::span<const std::int64_t> shape);

}  // namespace sluice::io
