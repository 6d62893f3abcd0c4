#include "training/metrics_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "io/crc32c.h"
#include "io/file.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;

// Some 50 bytes a value: this is millions of them.
constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 28;

template <typename Unsigned>
Unsigned fixed(std::string_view bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(value); ++i) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

/// Where something was read, for messages.
struct Place {
  const fs::path* file;
  std::uint64_t byte;

  [[noreturn]] void fail(std::string_view what) const {
    base::fail(ErrorCode::kFormat, "'{}': {} at byte {}; move the file away to read the others",
               file->native(), what, byte);
  }
};

/// A field of a protocol buffer. `number` holds a varint or fixed one, `bytes` all else.
struct Field {
  std::uint64_t id = 0;
  std::uint64_t number = 0;
  std::string_view bytes = {};
};

/// Takes the fields of a message from its front.
class Message {
 public:
  Message(std::string_view bytes, const Place& place) : rest_(bytes), place_(place) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field{.id = key >> 3};
    switch (key & 7) {
      case 0:
        field.number = varint();
        break;
      case 1:
        field.number = fixed<std::uint64_t>(take(8));
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.number = fixed<std::uint32_t>(take(4));
        break;
      default:
        place_.fail("there is no event of TensorBoard");
    }
    return field;
  }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) place_.fail("there is no event of TensorBoard");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    place_.fail("there is no event of TensorBoard");
  }

  std::string_view rest_;
  Place place_;
};

void read_value(std::string_view bytes, std::int64_t step, const Place& place, Metrics& metrics) {
  std::string_view tag;
  std::optional<float> value;
  Message message(bytes, place);
  while (const auto field = message.next()) {
    if (field->id == 1) tag = field->bytes;
    if (field->id == 2) value = std::bit_cast<float>(static_cast<std::uint32_t>(field->number));
  }
  if (value) metrics.curves[std::string(tag)][step] = *value;
}

void forget_from(std::int64_t step, Metrics& metrics) {
  for (auto& [tag, curve] : metrics.curves) curve.erase(curve.lower_bound(step), curve.end());
}

// The numbers of fields are those of MetricsLog.
void read_event(std::string_view bytes, const Place& place, Metrics& metrics) {
  std::int64_t step = 0;
  std::string_view summary, session;
  Message event(bytes, place);
  while (const auto field = event.next()) {
    if (field->id == 2) step = static_cast<std::int64_t>(field->number);
    if (field->id == 5) summary = field->bytes;
    if (field->id == 7) session = field->bytes;
  }
  Message log(session, place);
  while (const auto field = log.next()) {
    if (field->id == 1 && field->number == 1) forget_from(step, metrics);
  }
  Message values(summary, place);
  while (const auto field = values.next()) {
    if (field->id == 1) read_value(field->bytes, step, place, metrics);
  }
}

// A record: length (8), its checksum (4), content, its checksum (4).
void read_file(const fs::path& path, Metrics& metrics) {
  constexpr std::uint64_t kHead = 12, kTail = 4;
  const std::string content = io::read_file(path, kLargestFile);
  std::string_view rest = content;
  while (!rest.empty()) {
    const Place place{&path, content.size() - rest.size()};
    std::uint64_t length = 0;
    if (rest.size() >= kHead) {
      if (fixed<std::uint32_t>(rest.substr(8)) != io::masked_crc32c(rest.substr(0, 8))) {
        place.fail("the length of a record does not fit its checksum");
      }
      length = fixed<std::uint64_t>(rest);
    }
    // Lengths are subtracted, not added: one from a file may be close to 2^64.
    if (rest.size() < kHead + kTail || length > rest.size() - kHead - kTail) {
      metrics.notes.push_back(
          fmt::format("'{}' ends within a record at byte {}, as a killed run leaves it",
                      path.native(), place.byte));
      return;
    }
    const std::string_view event = rest.substr(kHead, length);
    if (fixed<std::uint32_t>(rest.substr(kHead + length)) != io::masked_crc32c(event)) {
      place.fail("a record does not fit its checksum");
    }
    read_event(event, place, metrics);
    rest.remove_prefix(kHead + length + kTail);
  }
}

std::vector<fs::path> event_files(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(directory, unreadable)) {
    if (entry.path().filename().native().find("tfevents") != std::string::npos) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    base::fail(ErrorCode::kNotFound,
               "there are no event files in '{}'; name the output folder of a training run",
               directory.native());
  }
  return files;
}

}  // namespace

Metrics read_metrics(const fs::path& directory) {
  Metrics metrics;
  for (const fs::path& file : event_files(directory)) read_file(file, metrics);
  return metrics;
}

}  // namespace sluice::training
