#include "interchange/tensorflow/written_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "interchange/canonical_cell.h"

namespace sluice::interchange::tensorflow {
namespace {

SourceCell tensorflow_cell(const SourceCell& cell, std::string_view layer) {
  const CanonicalCell canonical = to_canonical(cell, layer);
  const bool resets_after = canonical.type == kernels::recurrent::CellType::kGru;
  return from_canonical(
      canonical, resets_after ? Convention::kTensorflowCudnnGru : Convention::kTensorflow, layer);
}

std::string_view cell_name(const SourceCell& cell) {
  if (cell.convention == Convention::kTensorflowCudnnGru) return "cudnn_compatible_gru_cell";
  if (cell.kind == CellKind::kGru) return "gru_cell";
  if (cell.kind == CellKind::kRnn) return "basic_rnn_cell";
  const bool is_plain = cell.find("projection") == nullptr && cell.find("w_f_diag") == nullptr &&
                        cell.gate.is("sigmoid");
  return is_plain ? "cudnn_compatible_lstm_cell" : "lstm_cell";
}

/// Layers in a row whose scopes differ in their numbers alone.
struct Run {
  std::string_view cell;
  bool has_forward, has_backward;

  bool operator==(const Run&) const = default;
};

Run run_of(const RecurrentLayer& layer) {
  const auto& one = layer.forward ? layer.forward : layer.backward;
  return {cell_name(tensorflow_cell(*one, layer.name)), layer.forward.has_value(),
          layer.backward.has_value()};
}

std::string stack_scope(const Run& run, int number, bool is_only) {
  if (!is_only) return fmt::format("recurrent_{}", number);
  if (run.cell == "cudnn_compatible_lstm_cell") return "cudnn_lstm";
  return run.cell == "cudnn_compatible_gru_cell" ? "cudnn_gru" : "recurrent";
}

std::string cell_scope(const std::string& stack, const Run& run, int layer, bool is_backward) {
  if (run.has_forward && run.has_backward) {
    return fmt::format("{}/stack_bidirectional_rnn/cell_{}/bidirectional_rnn/{}/{}", stack, layer,
                       is_backward ? "bw" : "fw", run.cell);
  }
  return fmt::format("{}/{}/multi_rnn_cell/cell_{}/{}", stack,
                     is_backward ? "bidirectional_rnn/bw" : "rnn", layer, run.cell);
}

// The names of Convention, and those of variables.
const std::map<std::string_view, std::string_view> kVariables = {
    {"gate_kernel", "gates/kernel"},
    {"gate_bias", "gates/bias"},
    {"candidate_kernel", "candidate/kernel"},
    {"candidate_bias", "candidate/bias"},
    {"input_kernel", "candidate/input_projection/kernel"},
    {"input_bias", "candidate/input_projection/bias"},
    {"hidden_kernel", "candidate/hidden_projection/kernel"},
    {"hidden_bias", "candidate/hidden_projection/bias"},
    {"projection", "projection/kernel"}};

}  // namespace

std::vector<WrittenLayer> written_layers(const SourceModel& model) {
  std::vector<std::pair<const RecurrentLayer*, Run>> layers;
  std::vector<std::vector<std::size_t>> runs;
  bool continues = false;
  for (const SourceLayer& one : model.layers) {
    const auto* layer = std::get_if<RecurrentLayer>(&one);
    if (layer != nullptr) {
      const Run run = run_of(*layer);
      if (!continues || layers.back().second != run) runs.emplace_back();
      runs.back().push_back(layers.size());
      layers.emplace_back(layer, run);
    }
    continues = layer != nullptr;
  }
  std::vector<WrittenLayer> result;
  for (std::size_t number = 0; number < runs.size(); ++number) {
    for (std::size_t place = 0; place < runs[number].size(); ++place) {
      const auto& [layer, run] = layers[runs[number][place]];
      const std::string stack = stack_scope(run, static_cast<int>(number), runs.size() == 1);
      WrittenLayer written;
      const auto write = [&](const std::optional<SourceCell>& cell, bool is_backward) {
        if (!cell) return WrittenCell{};
        return WrittenCell{cell_scope(stack, run, static_cast<int>(place), is_backward),
                           tensorflow_cell(*cell, layer->name)};
      };
      written.forward = write(layer->forward, false);
      written.backward = write(layer->backward, true);
      result.push_back(std::move(written));
    }
  }
  return result;
}

std::vector<std::pair<std::string, const io::HostTensor*>> variables_of(const WrittenCell& cell) {
  std::vector<std::pair<std::string, const io::HostTensor*>> variables;
  for (const auto& [name, tensor] : cell.cell.tensors) {
    const auto other = kVariables.find(name);
    const std::string_view variable = other == kVariables.end() ? name : other->second;
    variables.emplace_back(fmt::format("{}/{}", cell.scope, variable), &tensor);
  }
  return variables;
}

}  // namespace sluice::interchange::tensorflow
