#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/file.h"
#include "runtime/profiler.h"

namespace sluice::profiling {

/// A trace as chrome://tracing and ui.perfetto.dev read it: JSON in the Trace Event Format, the
/// host's spans on one track and a track for each stream of the GPU, whose kernels stand below the
/// module that queued them. Of bounded size: what comes first is kept, and an event says where it
/// stops. The file appears whole or not at all.
class TraceFile {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  /// Throws ErrorCode::kIo if it can't be written. `most_bytes` is for tests.
  explicit TraceFile(const std::filesystem::path& path, std::size_t most_bytes = kMostBytes);

  /// Appends a profile of work on `device`. Profiles stand one after another, whatever time was
  /// between them.
  void add(const runtime::Profile& profile, const std::string& device);
  void commit();

  const std::filesystem::path& path() const { return path_; }
  std::int64_t events() const { return events_; }
  std::size_t bytes() const { return bytes_; }
  /// Whether something had to be left out.
  bool is_full() const { return full_; }

 private:
  class Timeline;

  void put(std::string_view text);
  /// False, and nothing written, where the event would not fit.
  bool put_event(const std::string& event);
  void put_track(int process, std::uint32_t thread, std::string_view name);
  void stop_at(std::int64_t time);

  std::filesystem::path path_;
  std::size_t most_bytes_;
  io::DurableFile file_;
  std::size_t bytes_ = 0;
  std::int64_t events_ = 0;
  std::int64_t end_ = 0;  ///< of the last profile, on the trace's own clock in nanoseconds
  bool full_ = false;
};

}  // namespace sluice::profiling
