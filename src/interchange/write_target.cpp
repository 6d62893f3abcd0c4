#include "interchange/write_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "interchange/cudnn/cudnn_writer.h"
#include "interchange/keras/keras_writer.h"
#include "interchange/model_chain.h"
#include "interchange/onnx/onnx_writer.h"
#include "interchange/tensorflow/checkpoint_writer.h"
#include "interchange/tensorflow/graph_writer.h"
#include "interchange/torch/torch_export.h"
#include "io/output_file.h"
#include "model_files/loaded_model.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;

Convention convention_of(std::string_view target) {
  if (target == "torch" || target == "cudnn") return Convention::kTorch;
  if (target == "keras") return Convention::kKeras;
  return target == "onnx" ? Convention::kOnnx : Convention::kTensorflow;
}

/// The layers of the model that put out what those of its own chain do: the same places.
Assembled paired(const SourceModel& chain, const io::Container& container, std::string kind) {
  Assembled made{.kind = std::move(kind), .container = container};
  const bool is_stack = made.kind == "features" || made.kind == "classifier";
  const auto identity = [](std::int64_t count) {
    std::vector<std::int64_t> places(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), 0);
    return places;
  };
  int recurrent = 0;
  std::int64_t width = 0;
  for (std::size_t at = 0; at < chain.layers.size(); ++at) {
    const SourceLayer& layer = chain.layers[at];
    if (const auto* embedding = std::get_if<EmbeddingLayer>(&layer)) {
      made.ids.resize(static_cast<std::size_t>(embedding->table.shape[0]));
      std::iota(made.ids.begin(), made.ids.end(), 0);
    } else if (const auto* stack = std::get_if<RecurrentLayer>(&layer)) {
      width = stack->output();
      made.pairs.push_back(
          {at, std::string(is_stack ? "stack" : "recurrent") + ".l" + std::to_string(recurrent++),
           identity(width)});
    } else if (const auto* linear = std::get_if<LinearLayer>(&layer)) {
      width = linear->weight.shape[0];
    }
  }
  const std::size_t last = chain.layers.size() - 1;
  if (made.pairs.back().source != last) made.pairs.push_back({last, "output", identity(width)});
  return made;
}

bool has_hard_sigmoid(const SourceModel& chain) {
  return std::ranges::any_of(chain.layers, [](const SourceLayer& layer) {
    const auto* recurrent = std::get_if<RecurrentLayer>(&layer);
    if (recurrent == nullptr) return false;
    const SourceCell& cell = recurrent->forward ? *recurrent->forward : *recurrent->backward;
    return cell.kind != CellKind::kRnn && cell.gate.is("hard_sigmoid");
  });
}

void write_lines(const fs::path& path, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  std::string text;
  for (const std::string& line : written_lines(lines)) text += line + "\n";
  io::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

std::vector<std::string> written_lines(std::vector<std::string> texts) {
  for (std::size_t id = 0; id < texts.size(); ++id) {
    // A character may be a line break itself.
    const bool is_line = texts[id].find_first_of("\r\n") == std::string::npos;
    if (!is_line) texts[id] = "<id" + std::to_string(id) + ">";
  }
  return texts;
}

namespace {

/// Says how a pooling that readers do not find in a file comes back from it.
void note_pooling(std::string_view target, SourceModel& chain) {
  const bool is_graph = target == "pb" || target == "savedmodel";
  if (target != "torch" && !is_graph) return;
  for (const SourceLayer& layer : chain.layers) {
    const auto* pooling = std::get_if<PoolingLayer>(&layer);
    if (pooling == nullptr || pooling->kind == "attention") continue;
    const std::string back =
        fmt::format("to bring the model back, say --set pooling={}", pooling->kind);
    if (is_graph) {
      chain.account.assume("the graph's pooling is told to who reads the file: " + back);
    } else {
      chain.account.leave_out("the pooling, of which tensors say nothing: " + back);
    }
  }
}

}  // namespace

Export export_model(const io::Container& container, std::string_view target,
                    std::string_view subgraph) {
  Export result;
  const std::string kind(model_files::kind_of_container(container).name);
  if (!subgraph.empty()) {
    const bool is_stack = kind == "features" || kind == "classifier";
    const std::string_view known =
        kind == "seq2seq" ? "encoder" : (is_stack ? "stack" : "recurrent");
    SLUICE_CHECK(subgraph == known, "'{}' has no part '{}' to take; a {} has '{}'",
                 container.origin, subgraph, kind, known);
    result.chain = recurrent_chain_of_model(container, convention_of(target));
    result.model = assemble(result.chain, {});
    return result;
  }
  if (target == "torch" && kind == "seq2seq") {
    result.model = {.kind = kind, .container = container};
    return result;
  }
  result.chain = chain_of_model(container, convention_of(target));
  if (target != "torch" && std::holds_alternative<CrfLayer>(result.chain.layers.back())) {
    result.chain.layers.pop_back();
    result.chain.account.leave_out(
        "the CRF: the output has the scores of the labels at each step, without those of "
        "neighbours");
  }
  note_pooling(target, result.chain);
  if (target == "pb" || target == "savedmodel") {
    result.chain.account.leave_out(
        "lengths of rows: every row of a batch has all its steps, so give rows of one length");
  }
  if (target == "keras" && kind == "features") {
    result.chain.account.leave_out(
        "lengths of rows: every row of a batch has all its steps, so give rows of one length");
  }
  if (target == "keras" && has_hard_sigmoid(result.chain)) {
    result.chain.account.assume(
        "hard_sigmoid is that of Keras 3, clip(a / 6 + 0.5, 0, 1); Keras 2 would compute another");
  }
  result.model = paired(result.chain, container, kind);
  return result;
}

void write_target(const Export& exported, std::string_view target, const fs::path& path,
                  runtime::Device* device) {
  if (target == "torch") {
    write_torch(exported.model.container, path);
  } else if (target == "keras") {
    write_keras(exported.chain, path);
  } else if (target == "tf1") {
    write_tensorflow_checkpoint(exported.chain, path);
  } else if (target == "pb") {
    write_frozen_graph(exported.chain, path);
  } else if (target == "savedmodel") {
    write_saved_model_folder(exported.chain, path);
  } else if (target == "cudnn") {
    write_cudnn(exported.chain, path, device);
  } else {
    SLUICE_ASSERT(target == "onnx");
    write_onnx_model(exported.chain, path);
  }
  write_lines(path.native() + ".words.txt", exported.chain.pieces);
  write_lines(path.native() + ".labels.txt", exported.chain.labels);
}

}  // namespace sluice::interchange
