#pragma once

#include <filesystem>

#include "interchange/source_model.h"
#include "runtime/device.h"

namespace sluice::interchange {

/// Writes an archive of NumPy with cuDNN's packed buffer and the other arrays of a chain, and
/// beside it the map that reads it back, "<path>.toml" (array_map.h). Layers of one width are one
/// buffer; other widths begin another. The layout is that of cuDNN on `device`, or the documented
/// one if it is null. Throws ErrorCode::kUnsupported, naming the layer, for what cuDNN lacks, and
/// as cudnn_layout().
void write_cudnn(const SourceModel& chain, const std::filesystem::path& path,
                 runtime::Device* device);

}  // namespace sluice::interchange
