#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_format.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a model of any format but Sluice's own. Throws as the readers do.
SourceModel read_by_format(const std::filesystem::path& path, SourceFormat format,
                           const ReadOptions& options);

/// The same. Throws ErrorCode::kInvalidArgument before the file is read for answers that the
/// format never asks for, and after it for those that this source did not need. `options` learns
/// what it is asked for.
SourceModel read_source(const std::filesystem::path& path, SourceFormat format,
                        ReadOptions& options);

}  // namespace sluice::interchange
