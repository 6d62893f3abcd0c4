#include "training/ranks/devices.h"

#include <algorithm>
#include <sstream>

#include "base/check.h"
#include "distributed/process_ranks.h"
#include "runtime/cuda_library.h"

namespace sluice::training {
namespace {

std::vector<std::string> names_of(const std::string& devices) {
  std::vector<std::string> names;
  std::istringstream list(devices + ",");
  for (std::string name; std::getline(list, name, ',');) {
    const std::size_t begin = name.find_first_not_of(' '), end = name.find_last_not_of(' ');
    SLUICE_CHECK(begin != std::string::npos,
                 "machine.devices is '{}', which has an empty name; list devices as in 'cpu,cpu'",
                 devices);
    names.push_back(name.substr(begin, end + 1 - begin));
  }
  return names;
}

}  // namespace

std::vector<std::string> all_gpus() {
  std::vector<std::string> names;
  std::string missing = "there is none";
  for (const runtime::GpuReport& gpu : runtime::cuda_part().gpus()) {
    if (gpu.missing.empty()) {
      names.push_back(gpu.device);
    } else {
      missing = gpu.missing;
    }
  }
  if (names.empty()) base::fail(ErrorCode::kDevice, "no GPU can be used: {}", missing);
  return names;
}

std::vector<std::string> devices_here(const TrainConfig& config,
                                      const distributed::Communicator* process) {
  const std::vector<std::string> devices = devices_of(config);
  if (process == nullptr) return devices;
  const bool any_gpu = devices == std::vector<std::string>{"cuda"};
  return {distributed::device_here(devices, any_gpu ? all_gpus() : std::vector<std::string>())};
}

std::vector<std::string> devices_of(const TrainConfig& config) {
  if (config.devices.empty()) return {config.device};
  const std::vector<std::string> devices = names_of(config.devices);
  if (devices == std::vector<std::string>{"cuda:all"}) return all_gpus();
  if (devices.size() == 1) return devices;
  const bool gpus = devices.front().starts_with("cuda");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string& device = devices[i];
    const bool gpu = device.starts_with("cuda:") && device != "cuda:all";
    SLUICE_CHECK(gpu || device == "cpu" || device == "test",
                 "machine.devices is '{}', but there is no device '{}'; list devices as in "
                 "'cpu,cpu', 'cuda:0,cuda:1' or 'cuda:all'",
                 config.devices, device);
    SLUICE_CHECK(gpus ? gpu : device == devices.front(),
                 "machine.devices is '{}'; ranks run on devices of one kind", config.devices);
    const bool shares = config.distributed.mode == "async";  // then NCCL has no part in it
    SLUICE_CHECK(!gpu || shares ||
                     std::find(devices.begin(), devices.begin() + static_cast<long>(i), device) ==
                         devices.begin() + static_cast<long>(i),
                 "machine.devices is '{}', which names {} twice; a GPU takes one rank",
                 config.devices, device);
  }
  return devices;
}

}  // namespace sluice::training
