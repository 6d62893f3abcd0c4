#include "io/formats/paddle/paddle_tensor.h"

#include <array>
#include <optional>
#include <string>

#include "base/check.h"
#include "io/formats/proto_reader.h"

namespace sluice::io::formats {
namespace {

/// A TensorDesc has a type and a few sizes.
constexpr std::uint32_t kLargestDesc = 1 << 12;

/// Reads a file from `offset` on.
class Cursor {
 public:
  Cursor(const ByteSource& source, std::uint64_t offset) : source_(source), offset_(offset) {}

  std::uint64_t offset() const { return offset_; }

  template <typename T>
  T number() {
    std::array<std::byte, sizeof(T)> bytes{};
    require(bytes.size());
    source_.read_at(offset_, bytes);
    offset_ += bytes.size();
    T value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<T>(static_cast<T>(bytes[i]) << (8 * i));
    }
    return value;
  }
  std::string text(std::size_t size) {
    require(size);
    std::string bytes(size, '\0');
    source_.read_at(offset_, std::as_writable_bytes(std::span(bytes)));
    offset_ += size;
    return bytes;
  }
  void skip(std::uint64_t bytes) {
    require(bytes);
    offset_ += bytes;
  }

  [[noreturn]] void refuse(std::string_view why) const {
    base::fail(ErrorCode::kFormat, "'{}' holds no tensor of Paddle: at byte {} {}",
               source_.path().native(), offset_, why);
  }

 private:
  void require(std::uint64_t bytes) const {
    if (offset_ > source_.size() || bytes > source_.size() - offset_) {
      refuse(fmt::format("it needs {} bytes, but the file has {}", bytes, source_.size()));
    }
  }

  const ByteSource& source_;
  std::uint64_t offset_;
};

/// Paddle's numbers of element types (VarType.Type).
std::optional<NumberType> type_of(std::int32_t number) {
  switch (number) {
    case 0:
      return number_type(NumberKind::kBool, 1);
    case 1:
      return number_type(NumberKind::kSigned, 2);
    case 2:
      return number_type(NumberKind::kSigned, 4);
    case 3:
      return number_type(NumberKind::kSigned, 8);
    case 4:
      return number_type(NumberKind::kFloat, 2);
    case 5:
      return number_type(NumberKind::kFloat, 4);
    case 6:
      return number_type(NumberKind::kFloat, 8);
    case 20:
      return number_type(NumberKind::kUnsigned, 1);
    case 21:
      return number_type(NumberKind::kSigned, 1);
    case 22:
      return number_type(NumberKind::kBFloat16, 2);
    default:
      return std::nullopt;
  }
}

void read_desc(Cursor& cursor, const std::string& file, PaddleTensor& tensor) {
  const auto size = cursor.number<std::uint32_t>();
  if (size > kLargestDesc) cursor.refuse("its description is too large");
  const std::string bytes = cursor.text(size);
  std::optional<std::int32_t> number;
  ProtoReader reader(bytes, file, "TensorDesc");
  while (reader.next()) {
    if (reader.tag() == 1) number = reader.int32();
    if (reader.tag() == 2) {
      reader.each_varint([&](std::int64_t axis) { tensor.sizes.push_back(axis); });
    }
  }
  if (!number) reader.refuse("says no element type");
  const std::optional<NumberType> type = type_of(*number);
  if (!type) {
    reader.refuse_unsupported("says the element type {}, which Sluice does not read", *number);
  }
  tensor.type = *type;
}

}  // namespace

PaddleTensor find_paddle_tensor(const ByteSource& source, std::uint64_t offset) {
  Cursor cursor(source, offset);
  PaddleTensor tensor;
  if (cursor.number<std::uint32_t>() != 0) cursor.refuse("the version is not 0");
  for (auto levels = cursor.number<std::uint64_t>(); levels > 0; --levels) {
    cursor.skip(cursor.number<std::uint64_t>());
  }
  if (cursor.number<std::uint32_t>() != 0) cursor.refuse("the tensor's version is not 0");
  read_desc(cursor, source.path().native(), tensor);
  const std::optional<std::uint64_t> bytes = bytes_of(tensor.sizes, tensor.type.bytes);
  if (!bytes) cursor.refuse("the sizes are impossible");
  tensor.begin = cursor.offset();
  cursor.skip(*bytes);
  tensor.end = cursor.offset();
  return tensor;
}

HostTensor read_paddle_tensor(const ByteSource& source, const PaddleTensor& tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  source.read_at(tensor.begin, bytes);
  return tensor_of(tensor.type, tensor.sizes, bytes,
                   fmt::format("'{}': a tensor", source.path().native()));
}

HostTensor read_paddle_tensor(const ByteSource& source) {
  const PaddleTensor tensor = find_paddle_tensor(source, 0);
  if (tensor.end != source.size()) {
    base::fail(ErrorCode::kFormat, "'{}' has {} bytes, of which one tensor of Paddle takes {}",
               source.path().native(), source.size(), tensor.end);
  }
  return read_paddle_tensor(source, tensor);
}

HostTensor read_paddle_tensor(const std::filesystem::path& path) {
  return read_paddle_tensor(ByteSource(File::open(path)));
}

}  // namespace sluice::io::formats
