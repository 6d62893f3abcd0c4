#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Work that belongs to no span.
inline constexpr std::uint32_t kNoLabel = ~std::uint32_t{0};

/// Something that a device did between two moments (nanoseconds on steady_clock).
struct DeviceWork {
  std::int64_t start = 0, end = 0;
  std::uint32_t name = 0;          ///< of a kernel, or what else it was: index of DeviceLog::names
  std::uint32_t label = kNoLabel;  ///< of the span that queued it
  std::uint32_t stream = 0;        ///< the device's number for it
};

struct DeviceLog {
  std::vector<std::string> names;
  std::vector<DeviceWork> work;     ///< in no order
  std::vector<std::string> faults;  ///< a sentence for each thing that is missing from it
};

/// Tells when a device, whose clock is not the host's, did what the host queued. To be used by one
/// thread.
class DeviceTrace {
 public:
  virtual ~DeviceTrace() = default;

  /// What is queued until `leave` belongs to `label`; calls nest. `name` is for tools that watch
  /// from outside (NVTX). Also outside of start and stop, for what is captured in a graph then.
  virtual void enter(std::uint32_t label, const char* name) noexcept = 0;
  virtual void leave() noexcept = 0;

  /// Begins to record what the device does. Never throws: what can't be recorded is a fault of the
  /// log.
  virtual void start() noexcept = 0;
  /// Pieces of work known so far, about.
  virtual std::size_t size() const noexcept = 0;
  /// Ends; all queued work must be done.
  virtual DeviceLog stop() = 0;
};

}  // namespace sluice::runtime
