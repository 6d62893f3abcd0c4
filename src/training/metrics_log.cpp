#include "training/metrics_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <span>

#include "base/warn.h"
#include "io/crc32c.h"
#include "sluice/error.h"

namespace sluice::training {
namespace {

namespace fs = std::filesystem;

double wall_time() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

template <typename Unsigned>
void append_fixed(std::string& bytes, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

// The wire format of protocol buffers: each field is a key (number, kind), then its value.
enum class Wire : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}

void append_key(std::string& bytes, std::uint64_t field, Wire wire) {
  append_varint(bytes, field << 3 | static_cast<std::uint64_t>(wire));
}

void append_bytes(std::string& bytes, std::uint64_t field, std::string_view value) {
  append_key(bytes, field, Wire::kBytes);
  append_varint(bytes, value.size());
  bytes += value;
}

void append_number(std::string& bytes, std::uint64_t field, std::int64_t number) {
  append_key(bytes, field, Wire::kVarint);
  append_varint(bytes, static_cast<std::uint64_t>(number));
}

void append_double(std::string& bytes, std::uint64_t field, double number) {
  append_key(bytes, field, Wire::kFixed64);
  append_fixed(bytes, std::bit_cast<std::uint64_t>(number));
}

// Packed, as repeated numbers are in proto3.
void append_doubles(std::string& bytes, std::uint64_t field, const std::vector<double>& numbers) {
  std::string packed;
  for (const double number : numbers) append_fixed(packed, std::bit_cast<std::uint64_t>(number));
  append_bytes(bytes, field, packed);
}

// Event: 1 wall_time (double), 2 step (int64), 3 file_version, 5 summary, 7 session_log.
std::string event(std::int64_t step, std::uint64_t content_field, std::string_view content) {
  std::string bytes;
  append_double(bytes, 1, wall_time());
  append_number(bytes, 2, step);
  append_bytes(bytes, content_field, content);
  return bytes;
}

std::string version_event() { return event(0, 3, "brain.Event:2"); }

// SessionLog: 1 status, where START is 1.
std::string start_event(std::int64_t step) {
  std::string log;
  append_number(log, 1, 1);
  return event(step, 7, log);
}

// Summary: repeated 1 value; Value: 1 tag, and what it is of.
std::string summary_event(std::string_view tag, std::int64_t step, std::string_view content) {
  std::string value;
  append_bytes(value, 1, tag);
  value += content;
  std::string summary;
  append_bytes(summary, 1, value);
  return event(step, 5, summary);
}

// Value: 2 simple_value (float).
std::string scalar_of(double number) {
  std::string value;
  append_key(value, 2, Wire::kFixed32);
  append_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  return value;
}

// Value: 5 histo; HistogramProto: 1 min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 bucket_limit,
// 7 bucket.
std::string histogram_of(const Histogram& histogram) {
  std::string numbers;
  append_double(numbers, 1, histogram.least);
  append_double(numbers, 2, histogram.most);
  append_double(numbers, 3, histogram.count);
  append_double(numbers, 4, histogram.sum);
  append_double(numbers, 5, histogram.squares);
  append_doubles(numbers, 6, histogram.limits);
  append_doubles(numbers, 7, histogram.counts);
  std::string value;
  append_bytes(value, 5, numbers);
  return value;
}

// Value: 4 image; Image: 1 height, 2 width, 3 colorspace (3 is RGB), 4 encoded_image_string.
std::string image_of(std::int64_t width, std::int64_t height, std::string_view png) {
  std::string image;
  append_number(image, 1, height);
  append_number(image, 2, width);
  append_number(image, 3, 3);
  append_bytes(image, 4, png);
  std::string value;
  append_bytes(value, 4, image);
  return value;
}

std::string record(std::string_view payload) {
  std::string bytes;
  append_fixed(bytes, static_cast<std::uint64_t>(payload.size()));
  append_fixed(bytes, io::masked_crc32c(bytes));
  bytes += payload;
  append_fixed(bytes, io::masked_crc32c(payload));
  return bytes;
}

// TensorBoard reads a folder's event files in the order of their names.
fs::path unused_name(const fs::path& directory) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't', '\0'};
  const auto microseconds = static_cast<std::int64_t>(wall_time() * 1e6);
  for (std::int64_t attempt = microseconds;; ++attempt) {
    fs::path path =
        directory / fmt::format("events.out.tfevents.{}.{:06}.{}.{}", attempt / 1'000'000,
                                attempt % 1'000'000, host.data(), ::getpid());
    if (!fs::exists(path)) return path;
  }
}

}  // namespace

MetricsLog::MetricsLog(const fs::path& directory, std::int64_t first_step,
                       const WarningHandler* warnings)
    : warnings_(warnings) {
  try {
    fs::create_directories(directory);
    path_ = unused_name(directory);
    file_ = io::File::open_to_write(path_);
  } catch (const std::exception& error) {
    base::warn(warnings_, "no metrics for TensorBoard: {}", error.what());
    return;
  }
  write_event(version_event());
  write_event(start_event(first_step));
}

void MetricsLog::scalar(std::string_view tag, std::int64_t step, double value) {
  write_event(summary_event(tag, step, scalar_of(value)));
}

void MetricsLog::histogram(std::string_view tag, std::int64_t step, const Histogram& histogram) {
  write_event(summary_event(tag, step, histogram_of(histogram)));
}

void MetricsLog::image(std::string_view tag, std::int64_t step, std::int64_t width,
                       std::int64_t height, std::string_view png) {
  write_event(summary_event(tag, step, image_of(width, height, png)));
}

void MetricsLog::write_event(std::string_view event_bytes) {
  if (!file_) return;
  const std::string bytes = record(event_bytes);
  try {
    file_->write(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    base::warn(warnings_, "no more metrics for TensorBoard: {}", error.what());
    file_.reset();
  }
}

}  // namespace sluice::training
