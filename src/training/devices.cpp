#include "training/devices.h"

#include <sstream>

#include "base/check.h"

namespace sluice::training {

std::vector<std::string> devices_of(const TrainConfig& config) {
  if (config.devices.empty()) return {config.device};
  std::vector<std::string> devices;
  std::istringstream list(config.devices + ",");
  for (std::string name; std::getline(list, name, ',');) {
    const std::size_t begin = name.find_first_not_of(' '), end = name.find_last_not_of(' ');
    SLUICE_CHECK(begin != std::string::npos,
                 "machine.devices is '{}', which has an empty name; list devices as in 'cpu,cpu'",
                 config.devices);
    devices.push_back(name.substr(begin, end + 1 - begin));
  }
  if (devices.size() == 1) return devices;
  for (const std::string& device : devices) {
    const bool gpu = device.starts_with("cuda");
    SLUICE_CHECK(
        gpu || device == "cpu" || device == "test",
        "machine.devices is '{}', but there is no device '{}'; list devices as in 'cpu,cpu'",
        config.devices, device);
    if (gpu) {
      base::fail(ErrorCode::kUnsupported,
                 "machine.devices is '{}', but ranks run on CPUs alone so far; name cpu several "
                 "times, or one GPU",
                 config.devices);
    }
    SLUICE_CHECK(device == devices.front(),
                 "machine.devices is '{}'; ranks run on devices of one kind", config.devices);
  }
  return devices;
}

}  // namespace sluice::training
