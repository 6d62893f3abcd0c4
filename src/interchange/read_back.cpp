#include "interchange/read_back.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "data/line_reader.h"
#include "interchange/arrays/named_arrays.h"
#include "interchange/read_source.h"
#include "interchange/source_format.h"
#include "interchange/torch/torch_export.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;

template <typename... Parts>
[[noreturn]] void refuse(fmt::format_string<Parts...> text, Parts&&... parts) {
  base::fail(ErrorCode::kNumeric, "{}", fmt::format(text, std::forward<Parts>(parts)...));
}

/// Answers to questions that the variables of TensorFlow leave open. A reader of a SavedModel does
/// not look into its functions for them.
ReadOptions answers_of(const SourceModel& chain) {
  ReadOptions options;
  const auto& first = chain.layers.front();
  options.answer(std::holds_alternative<EmbeddingLayer>(first) ? "embedding=embedding"
                                                               : "embedding=none");
  const auto* output = std::get_if<LinearLayer>(&chain.layers.back());
  options.answer(output == nullptr ? "output=none" : "output=output/kernel");
  if (output != nullptr) {
    options.answer(output->bias ? "output_bias=output/bias" : "output_bias=none");
  }
  options.answer("forget_bias=0");
  bool has_activation = false;
  for (const SourceLayer& layer : chain.layers) {
    if (const auto* pooling = std::get_if<PoolingLayer>(&layer)) {
      if (pooling->kind != "attention") options.answer("pooling=" + pooling->kind);
    }
    const auto* recurrent = std::get_if<RecurrentLayer>(&layer);
    if (recurrent == nullptr || has_activation) continue;
    const SourceCell& cell = recurrent->forward ? *recurrent->forward : *recurrent->backward;
    if (cell.kind != CellKind::kRnn) continue;
    options.answer("activation=" + cell.candidate.name);
    has_activation = true;
  }
  return options;
}

void take_hard_sigmoids(const SourceModel& chain, SourceModel& read) {
  for (std::size_t i = 0; i < std::min(chain.layers.size(), read.layers.size()); ++i) {
    const auto* from = std::get_if<RecurrentLayer>(&chain.layers[i]);
    auto* to = std::get_if<RecurrentLayer>(&read.layers[i]);
    if (from == nullptr || to == nullptr) continue;
    if (from->forward && to->forward) to->forward->gate = from->forward->gate;
    if (from->backward && to->backward) to->backward->gate = from->backward->gate;
  }
}

std::string form_of(const std::optional<SourceCell>& cell) {
  if (!cell) return "no cell";
  std::string form = fmt::format("{} {} -> {} -> {}, {}", name_of(cell->kind), cell->input,
                                 cell->hidden, cell->output, cell->candidate.name);
  if (cell->kind != CellKind::kRnn) form += ", " + cell->gate.name;
  if (cell->kind == CellKind::kLstm) form += ", " + cell->state.name;
  return form;
}

/// The kind and the sizes of a layer.
std::string form_of(const SourceLayer& layer) {
  struct Form {
    std::string operator()(const EmbeddingLayer& one) const {
      return "embedding " + one.table.shape.to_string();
    }
    std::string operator()(const RecurrentLayer& one) const {
      return fmt::format("forward {}, backward {}", interchange::form_of(one.forward),
                         interchange::form_of(one.backward));
    }
    std::string operator()(const LinearLayer& one) const {
      return "linear " + one.weight.shape.to_string();
    }
    std::string operator()(const AffineLayer& one) const {
      return "scale and shift " + one.scale.shape.to_string();
    }
    std::string operator()(const PoolingLayer& one) const { return "pooling by " + one.kind; }
    std::string operator()(const CrfLayer& one) const {
      return "CRF " + one.transitions.shape.to_string();
    }
  };
  return std::visit(Form{}, layer);
}

void require_same_layers(const SourceModel& written, const SourceModel& read) {
  if (read.layers.size() != written.layers.size()) {
    refuse("the written file reads back as {} layers, not {}", read.layers.size(),
           written.layers.size());
  }
  for (std::size_t i = 0; i < written.layers.size(); ++i) {
    const std::string was = form_of(written.layers[i]), is = form_of(read.layers[i]);
    if (was == is) continue;
    refuse("the layer '{}' of the written file reads back as {}, not {}",
           name_of(written.layers[i]), is, was);
  }
}

void require_same_tensors(const io::Container& model, const fs::path& path) {
  const NamedArrays file =
      path.extension() == ".safetensors" ? open_safetensors_arrays(path) : open_torch_arrays(path);
  const io::TensorTable expected = torch_tensors(model);
  if (file.entries().size() != expected.size()) {
    refuse("the written file has {} tensors, not {}", file.entries().size(), expected.size());
  }
  for (const auto& [name, tensor] : expected) {
    if (file.find(name) == nullptr) refuse("the written file lacks the tensor '{}'", name);
    const io::HostTensor read = file.read(name);
    if (read.shape != tensor.shape || read.data != tensor.data) {
      refuse("the tensor '{}' of the written file is another than was written", name);
    }
  }
}

void require_same_lines(const fs::path& path, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  const std::vector<std::string> read = data::read_lines(path.native());
  if (read != written_lines(lines)) refuse("'{}' has other lines than were written", path.native());
}

}  // namespace

SourceModel read_back(const Export& exported, std::string_view target, const fs::path& path,
                      runtime::Device* device) {
  require_same_lines(path.native() + ".words.txt", exported.chain.pieces);
  require_same_lines(path.native() + ".labels.txt", exported.chain.labels);
  if (target == "torch") {
    require_same_tensors(exported.model.container, path);
    return exported.chain;
  }
  const bool is_tensorflow = target == "tf1" || target == "pb" || target == "savedmodel";
  ReadOptions options = is_tensorflow ? answers_of(exported.chain) : ReadOptions();
  if (target == "cudnn") {
    options.map = path.native() + ".toml";
    options.set_device(device);
  }
  SourceModel read = read_by_format(path, recognize(path), options);
  if (is_tensorflow) take_hard_sigmoids(exported.chain, read);
  require_same_layers(exported.chain, read);
  return read;
}

}  // namespace sluice::interchange
