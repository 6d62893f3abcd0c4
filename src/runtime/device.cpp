#include "runtime/device.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <typeinfo>

#include "base/check.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda_library.h"
#include "runtime/device_trace.h"
#include "runtime/launch.h"
#include "runtime/machine.h"
#include "runtime/test/test_device.h"

namespace sluice::runtime {
namespace {

/// N of "cuda:N".
std::optional<int> ordinal_of(std::string_view name) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int ordinal = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), ordinal);
  if (error != std::errc() || end != name.data() + name.size() || ordinal < 0) return std::nullopt;
  return ordinal;
}

}  // namespace

std::unique_ptr<Graph> Stream::capture(const std::function<void()>&) {
  base::fail(ErrorCode::kUnsupported, "work can't be captured on this device");
}

bool runs_at_once(const Stream& stream) { return typeid(stream) == typeid(cpu::CpuStream); }

double Stream::milliseconds_of(const std::function<void()>& work) {
  synchronize();
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize();
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

std::unique_ptr<Stream> Device::make_stream() {
  base::fail(ErrorCode::kUnsupported, "{} has one stream", name());
}

std::unique_ptr<Stream> Device::wrap_stream(void*, StreamMemory) {
  base::fail(ErrorCode::kUnsupported, "{} has no streams of the system's; create one instead",
             name());
}

std::unique_ptr<DeviceTrace> Device::trace(bool) { return nullptr; }

std::size_t Device::cache_bytes() const {
  constexpr std::size_t kGuess = 64u << 20;  // of systems that don't say
  const long bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : kGuess;
}

std::size_t Device::free_bytes() const { return host_free_bytes(); }

void Device::note_taken(std::size_t bytes) {
  const std::size_t now = held_ += bytes;
  std::size_t peak = peak_;
  while (peak < now && !peak_.compare_exchange_weak(peak, now)) {
  }
}

std::unique_ptr<Device> open_device(std::string_view name) {
  if (name == "cpu") return std::make_unique<cpu::CpuDevice>();
  if (name == "test") return std::make_unique<test::TestDevice>();
  if (name == "cuda") return open_cuda_device(0);
  if (const auto ordinal = ordinal_of(name)) return open_cuda_device(*ordinal);
  base::fail(ErrorCode::kInvalidArgument, "unknown device '{}'; use cpu, cuda or cuda:N", name);
}

}  // namespace sluice::runtime
