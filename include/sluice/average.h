#pragma once

#include <string>
#include <vector>

#include "sluice/warnings.h"

namespace sluice {

/// Writes a checkpoint whose weights are the means of those of two or more `checkpoints` (folders
/// or model.safetensors) of one architecture and vocabulary; configuration and tokenizers are the
/// first one's. `output` is a folder that must not be there yet; it is written whole or not at all.
/// Throws Error.
void average_checkpoints(const std::vector<std::string>& checkpoints, const std::string& output,
                         const WarningHandler& warnings = {});

}  // namespace sluice
