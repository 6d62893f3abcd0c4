#include "io/formats/hdf5/hdf5_input.h"

#include <array>
#include <bit>

#include "io/little_endian.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

constexpr std::uint64_t kBudgetFactor = 4, kLeastBudget = 64 << 10;

}  // namespace

Hdf5Input::Hdf5Input(ByteSource source)
    : source_(std::move(source)),
      size_(source_.size()),
      budget_(kBudgetFactor * size_ + kLeastBudget) {}

std::string Hdf5Input::take(std::uint64_t address, std::uint64_t bytes) {
  if (address > size_ || bytes > size_ - address) {
    refuse(address, "{} bytes would stand there, but the file has {}; copy it again", bytes, size_);
  }
  charge(bytes);
  std::string taken(static_cast<std::size_t>(bytes), '\0');
  source_.read_at(address, std::as_writable_bytes(std::span(taken)));
  return taken;
}

std::string Hdf5Input::take_signed(std::uint64_t address, std::uint64_t bytes,
                                   std::string_view signature) {
  std::string taken = take(address, bytes);
  if (!taken.starts_with(signature)) {
    refuse(address, "{} should stand there, not {}", signature,
           quote_name(std::string_view(taken).substr(0, signature.size())));
  }
  return taken;
}

void Hdf5Input::check_sum(std::string_view bytes, std::uint64_t address) const {
  if (bytes.size() < sizeof(std::uint32_t)) refuse(address, "a checksum is missing");
// Otherwise a fuzzer would get no further than to checksums.
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  const std::size_t covered = bytes.size() - sizeof(std::uint32_t);
  if (Hdf5Cursor(*this, bytes.substr(covered), address).u32() !=
      hdf5_checksum(bytes.substr(0, covered))) {
    refuse(address, "the checksum of {} bytes there is another; copy the file again", covered);
  }
#endif
}

void Hdf5Input::read(std::uint64_t address, std::span<std::byte> bytes) const {
  if (address > size_ || bytes.size() > size_ - address) {
    refuse(address, "{} bytes of data would stand there, but the file has {}; copy it again",
           bytes.size(), size_);
  }
  source_.read_at(address, bytes);
}

void Hdf5Input::charge(std::uint64_t bytes) {
  if (bytes > budget_) {
    base::fail(ErrorCode::kFormat,
               "{} is damaged: its structures refer to each other more often than a file of {} "
               "bytes needs",
               name(), size_);
  }
  budget_ -= bytes;
}

void Hdf5Input::refuse_feature(std::string_view feature) const {
  base::fail(ErrorCode::kUnsupported,
             "{} has {}, which is not read; save it again with h5py's default settings", name(),
             feature);
}

std::string_view Hdf5Cursor::take(std::uint64_t bytes) {
  if (bytes > left()) {
    input_->refuse(address(), "a structure ends {} bytes early", bytes - left());
  }
  const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(bytes));
  at_ += taken.size();
  return taken;
}

std::uint64_t Hdf5Cursor::number(std::size_t bytes) { return little_endian(take(bytes)); }

std::string_view Hdf5Cursor::text() {
  const std::size_t end = bytes_.find('\0', at_);
  if (end == std::string_view::npos) input_->refuse(address(), "a name does not end");
  const std::string_view name = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return name;
}

void Hdf5Cursor::expect_version(std::uint8_t wanted, std::string_view of) {
  const std::uint64_t where = address();
  if (const std::uint8_t version = u8(); version != wanted) {
    base::fail(ErrorCode::kUnsupported,
               "{} has version {} of {} at its byte {}; only version {} is read", input_->name(),
               version, of, where, wanted);
  }
}

std::uint32_t hdf5_checksum(std::string_view bytes) {
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  // A step of one of the two mixing functions: x loses y, meets its rotation, y gains z.
  const auto mix = [](std::uint32_t& x, std::uint32_t& y, std::uint32_t z, int rotation) {
    x -= y;
    x ^= std::rotl(y, rotation);
    y += z;
  };
  const auto finish = [](std::uint32_t& x, std::uint32_t y, int rotation) {
    x ^= y;
    x -= std::rotl(y, rotation);
  };
  const auto add = [&](std::string_view block) {
    std::array<std::uint32_t, 3> words{};
    for (std::size_t i = 0; i < block.size(); ++i) {
      words[i / 4] |= std::uint32_t{static_cast<unsigned char>(block[i])} << (8 * (i % 4));
    }
    a += words[0];
    b += words[1];
    c += words[2];
  };
  if (bytes.empty()) return c;
  for (; bytes.size() > 12; bytes.remove_prefix(12)) {
    add(bytes.substr(0, 12));
    mix(a, c, b, 4);
    mix(b, a, c, 6);
    mix(c, b, a, 8);
    mix(a, c, b, 16);
    mix(b, a, c, 19);
    mix(c, b, a, 4);
  }
  add(bytes);
  finish(c, b, 14);
  finish(a, c, 11);
  finish(b, a, 25);
  finish(c, b, 16);
  finish(a, c, 4);
  finish(b, a, 14);
  finish(c, b, 24);
  return c;
}

}  // namespace sluice::io::formats
