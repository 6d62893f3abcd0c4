#pragma once

#include <string>
#include <string_view>

namespace sluice::model_files {

/// The text of model.safetensors.
struct ModelText {
  std::string architecture;  ///< Model::configuration
  std::string run;           ///< configuration of the run that trained it, TOML
};

std::string to_json(const ModelText& text);
/// Throws ErrorCode::kFormat, naming `origin`, if a key lacks, has another type or is not known.
ModelText parse_model_text(std::string_view json, std::string_view origin);

}  // namespace sluice::model_files
