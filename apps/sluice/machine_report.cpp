#include "machine_report.h"

#include <sstream>

namespace sluice::app {
namespace {

constexpr std::size_t kColumn = 18;

std::string label(std::string name) {
  if (name.size() < kColumn) name.resize(kColumn, ' ');
  return name;
}

std::string memory(std::size_t bytes, std::size_t free) {
  return std::to_string(bytes >> 20) + " MiB, " + std::to_string(free >> 20) + " free";
}

}  // namespace

std::string machine_report(const MachineInfo& info) {
  std::ostringstream out;
  out << label("cpu") << info.cpu << ", " << info.threads
      << (info.threads == 1 ? " thread\n" : " threads\n");
  out << label("memory") << memory(info.memory_bytes, info.free_bytes) << "\n";
  for (const auto& [dtype, name] : info.implementations) {
    out << label("  " + dtype) << "recurrent layers by " << name << "\n";
  }
  if (!info.driver_cuda.empty()) {
    out << label("driver") << info.driver << ", for CUDA " << info.driver_cuda << "\n";
  }
  if (!info.cuda_runtime.empty()) {
    out << label("CUDA runtime") << info.cuda_runtime << ", kernels for " << info.kernels_for
        << "\n";
  }
  for (const MachineInfo::Gpu& gpu : info.gpus) {
    out << label(gpu.device) << gpu.model << ", compute capability " << gpu.capability << ", "
        << memory(gpu.memory_bytes, gpu.free_bytes) << "\n";
    if (!gpu.missing.empty()) out << label("") << "can't be used: " << gpu.missing << "\n";
  }
  if (info.gpus.empty()) out << label("cuda") << "no GPU: " << info.gpus_missing << "\n";
  for (const MachineInfo::Library& library : info.libraries) {
    out << label(library.name);
    if (library.missing.empty()) {
      out << library.version << ", " << library.path << "\n";
    } else {
      out << library.missing << "\n";
    }
  }
  return out.str();
}

}  // namespace sluice::app
