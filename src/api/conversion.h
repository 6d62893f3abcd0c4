#pragma once

#include <filesystem>
#include <functional>

#include "sluice/convert.h"

namespace sluice::api {

/// Called with the path of what was written, before it is read back and proved. Tests damage it.
using AfterWrite = std::function<void(const std::filesystem::path&)>;

/// sluice::convert().
ConvertReport run_conversion(const ConvertRequest& request, const AfterWrite& after_write = {});

}  // namespace sluice::api
