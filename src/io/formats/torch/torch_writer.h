#pragma once

#include <filesystem>

#include "io/host_tensor.h"

namespace sluice::io::formats {

/// Writes a state dict in the zip format of torch.save: an OrderedDict from the names to contiguous
/// tensors on the CPU, in the order of the table. torch.load reads it, also with weights_only=True.
/// The file's bytes follow from the table alone. Throws as OutputFile.
void write_torch_state_dict(const std::filesystem::path& path, const TensorTable& tensors);

}  // namespace sluice::io::formats
