#include "sluice/average.h"

#include <filesystem>

#include "api/output_folder.h"
#include "training/average.h"

namespace sluice {

void average_checkpoints(const std::vector<std::string>& checkpoints, const std::string& output,
                         const WarningHandler& warnings) {
  api::prepare_output_folder(output);
  const std::unique_ptr<runtime::Device> device = runtime::open_device("cpu");
  runtime::Context context(*device);
  context.set_warnings(&warnings);
  const std::vector<std::filesystem::path> paths(checkpoints.begin(), checkpoints.end());
  const model_files::LoadedModel mean = training::average_models(context, paths);
  model_files::save_model(context, output, *mean.model, mean.tokenizers, mean.run);
}

}  // namespace sluice
