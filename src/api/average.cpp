#include "sluice/average.h"

#include <filesystem>

#include "base/check.h"
#include "training/average.h"

namespace sluice {

void average_checkpoints(const std::string& output, const std::vector<std::string>& checkpoints) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  SLUICE_CHECK(!fs::exists(output, unreadable) && !unreadable,
               "'{}' is there already or cannot be looked at; name a folder to be made", output);
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  const std::vector<fs::path> paths(checkpoints.begin(), checkpoints.end());
  const training::LoadedModel mean = training::average_models(context, paths);
  training::save_model(context, output, *mean.model, mean.tokenizers, mean.config);
}

}  // namespace sluice
