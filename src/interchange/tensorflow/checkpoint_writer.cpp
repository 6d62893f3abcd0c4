#include "interchange/tensorflow/checkpoint_writer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "interchange/tensorflow/written_cells.h"
#include "io/formats/tensorflow/tensor_bundle_writer.h"

namespace sluice::interchange {
namespace {

[[noreturn]] void refuse(std::string_view layer, std::string_view reason) {
  base::fail(ErrorCode::kUnsupported,
             "a checkpoint of TensorFlow cannot hold the layer {}, {}; write a frozen graph or a "
             "SavedModel instead",
             layer, reason);
}

void check_layer(const SourceLayer& layer, bool is_first, bool is_last) {
  const std::string_view name = name_of(layer);
  if (std::holds_alternative<EmbeddingLayer>(layer)) {
    if (!is_first) refuse(name, "an embedding that is not the first layer");
  } else if (const auto* dense = std::get_if<LinearLayer>(&layer)) {
    if (!is_last) refuse(name, "a dense layer that is not the last one");
    const Activation& activation = dense->activation;
    if (!activation.is("linear") && !activation.is("softmax") && !activation.is("log_softmax")) {
      refuse(name, "whose activation is " + activation.name);
    }
  } else if (const auto* recurrent = std::get_if<RecurrentLayer>(&layer)) {
    for (const auto* cell : {&recurrent->forward, &recurrent->backward}) {
      if (*cell && !(*cell)->gate.is("sigmoid") && (*cell)->kind != CellKind::kRnn) {
        refuse(name, "whose gates have a hard sigmoid");
      }
    }
  } else {
    refuse(name, "since it has no cell and no product");
  }
}

}  // namespace

void write_tensorflow_checkpoint(const SourceModel& model, const std::filesystem::path& prefix) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    check_layer(model.layers[i], i == 0, i + 1 == model.layers.size());
  }
  io::formats::TensorBundleWriter writer;
  const auto add = [&](std::string name, const io::HostTensor& tensor) {
    writer.add(std::move(name), tensor.dtype, tensor.shape, tensor.data);
  };
  // The writer borrows the tensors until write().
  const std::vector<tensorflow::WrittenLayer> layers = tensorflow::written_layers(model);
  for (const tensorflow::WrittenLayer& layer : layers) {
    for (const tensorflow::WrittenCell* cell : {&layer.forward, &layer.backward}) {
      for (const auto& [name, tensor] : tensorflow::variables_of(*cell)) add(name, *tensor);
    }
  }
  io::HostTensor kernel;
  for (const SourceLayer& layer : model.layers) {
    if (const auto* embedding = std::get_if<EmbeddingLayer>(&layer)) {
      add("embedding", embedding->table);
    }
    if (const auto* dense = std::get_if<LinearLayer>(&layer)) {
      kernel = transposed(dense->weight);
      add("output/kernel", kernel);
      if (dense->bias) add("output/bias", *dense->bias);
    }
  }
  writer.write(prefix);
}

}  // namespace sluice::interchange
