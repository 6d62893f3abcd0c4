#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/train/step_bench.h"

namespace sluice::bench::train {

/// Training configurations to measure.
struct ConfigRequest {
  std::vector<std::string> paths{};      ///< TOML files
  std::vector<std::string> overrides{};  ///< section.key=value, of all of them
  std::int64_t batches = 100;            ///< most batches of a round
};

/// What a round of a configuration's steps takes.
struct ConfigSizes {
  std::string name;  ///< of the file, without folder and ending
  std::string kind;  ///< of the model
  std::int64_t batches = 0;
  std::int64_t examples = 0;
  std::int64_t source_tokens = 0;  ///< before padding
  std::int64_t target_tokens = 0;
};

struct ConfigWork {
  ConfigSizes sizes;
  TrainWork work;
};

/// Reads the configuration `path` and its examples. A round is the first batches of the first
/// epoch, as training would take them. A device or dtype that is not empty is taken instead of the
/// configuration's. Throws Error as training does, and for `training.accumulate` other than 1.
ConfigWork read_config_work(const ConfigRequest& request, const std::string& path,
                            const std::string& device, const std::string& dtype);

}  // namespace sluice::bench::train
