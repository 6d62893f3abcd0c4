#include "interchange/torch/torch_export.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "io/formats/torch/torch_writer.h"
#include "io/safetensors.h"
#include "model_files/model_text.h"
#include "model_files/stored_weights.h"

namespace sluice::interchange {
namespace {

using io::HostTensor;

/// Refuses cells beyond those of torch.nn.
void require_torch_cells(const io::Container& model) {
  const std::string text = model_files::parse_model_text(model.text, model.origin).architecture;
  const nlohmann::json config = nlohmann::json::parse(text);
  const auto refuse = [&](bool has, std::string_view what) {
    if (!has) return;
    base::fail(ErrorCode::kUnsupported, "'{}' has {}, which no module of PyTorch has", model.origin,
               what);
  };
  refuse(config.value("cell", "") == "gru_reset_before", "a GRU that resets before the product");
  refuse(config.value("hard_sigmoid", false), "hard sigmoids");
  refuse(config.value("peepholes", false), "peepholes");
  refuse(config.value("layer_norm", false), "layer norm");
}

}  // namespace

io::TensorTable torch_tensors(const io::Container& model) {
  io::TensorTable table;
  for (const auto& [name, tensor] : model.tensors) {
    if (name.ends_with(".scale") &&
        model.tensors.find(name.substr(0, name.size() - 6)) != nullptr) {
      continue;  // of an int8 matrix, which stored_values multiplies
    }
    const std::vector<float> values = model_files::stored_values(model, name, tensor.shape);
    table.add(name, HostTensor::copy_of<float>(values, tensor.shape));
  }
  return table;
}

void write_torch(const io::Container& model, const std::filesystem::path& path) {
  require_torch_cells(model);
  const io::TensorTable table = torch_tensors(model);
  if (path.extension() != ".safetensors") {
    io::formats::write_torch_state_dict(path, table);
    return;
  }
  io::SafetensorsWriter writer;
  for (const auto& [name, tensor] : table) {
    writer.add(name, tensor.dtype, tensor.shape, tensor.data);
  }
  writer.write(path);
}

}  // namespace sluice::interchange
