#include "runtime/machine.h"

#include <charconv>
#include <fstream>
#include <string_view>

namespace sluice::runtime {
namespace {

/// What stands behind the first line of a file of /proc that begins with `key`; empty if none does.
std::string value_of(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t begin = line.find_first_not_of(" \t:", key.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::size_t memory_of(std::string_view key) {
  const std::string text = value_of("/proc/meminfo", key);
  std::size_t kibibytes = 0;
  std::from_chars(text.data(), text.data() + text.size(), kibibytes);
  return kibibytes << 10;
}

}  // namespace

std::string cpu_model() {
  std::string model = value_of("/proc/cpuinfo", "model name");
  return model.empty() ? "unknown" : model;
}

std::size_t host_memory_bytes() { return memory_of("MemTotal:"); }
std::size_t host_free_bytes() { return memory_of("MemAvailable:"); }

}  // namespace sluice::runtime
