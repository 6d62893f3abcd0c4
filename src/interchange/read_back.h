#pragma once

#include <filesystem>
#include <string_view>

#include "interchange/source_model.h"
#include "interchange/write_target.h"

namespace sluice::interchange {

/// Reads what write_target() wrote by the reader of its format, with its words and labels. The
/// layers are those of `exported.chain`, in the same order, with the tensors of the file; a state
/// dict of PyTorch has the tensors alone, which must be equal. Settings that a format does not
/// store, such as activations in a checkpoint, are those of the chain. `device` is the GPU whose
/// cuDNN lays buffers out, or null. Throws as the readers do,
/// and ErrorCode::kNumeric if the file says other layers or tensors.
SourceModel read_back(const Export& exported, std::string_view target,
                      const std::filesystem::path& path, runtime::Device* device = nullptr);

}  // namespace sluice::interchange
