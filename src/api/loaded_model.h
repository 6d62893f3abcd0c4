#pragma once

#include <memory>
#include <string>

#include "model_files/loaded_model.h"
#include "sluice/model_info.h"

namespace sluice::api {

/// A context on `device` whose numbers round as `placement` says for the model at `path`; its
/// warnings go where `placement`, which must outlive it, says. Throws ErrorCode::kInvalidArgument
/// for a precision that the device lacks.
runtime::Context context_on(runtime::Device& device, const Placement& placement,
                            const std::string& path);

/// Throws ErrorCode::kInvalidArgument, with the commands that use such a model, unless the model
/// read from `path` is of this kind.
void require_kind(const std::string& path, const model_files::LoadedModel& loaded,
                  std::string_view kind);

ModelInfo model_info(const runtime::Context& context, const std::string& path,
                     const model_files::LoadedModel& loaded);

}  // namespace sluice::api
