#include "interchange/tensorflow/graph_writer.h"

#include "base/check.h"
#include "interchange/tensorflow/graph_builder.h"
#include "interchange/tensorflow/graph_loop.h"
#include "interchange/tensorflow/written_cells.h"
#include "io/formats/tensorflow/saved_model.h"
#include "io/output_file.h"

namespace sluice::interchange {
namespace tensorflow {
namespace {

using io::formats::GraphDef;
using io::formats::TensorflowShape;
using Value = GraphBuilder::Value;

// TensorFlow 1.15, the first with all ops of these graphs.
constexpr std::int32_t kProducer = 134;

std::int32_t size(std::int64_t width) { return static_cast<std::int32_t>(width); }

/// Adds the layers of a chain one behind the other.
class ChainWriter {
 public:
  explicit ChainWriter(const SourceModel& model)
      : model_(model), recurrent_(written_layers(model)), graph_(GraphBuilder::Place::kGraph) {}

  GraphDef write() {
    add_input();
    for (const SourceLayer& layer : model_.layers) {
      std::visit([this](const auto& one) { x_ = add(one); }, layer);
    }
    graph_.add_node("Identity", "output", {x_}, {{"T", type_of(kFloat)}});
    return {.nodes = graph_.take_nodes(),
            .functions = std::move(functions_),
            .gradients = {},
            .producer = kProducer,
            .min_consumer = 0};
  }

 private:
  void add_input() {
    SLUICE_CHECK(!model_.layers.empty(), "a model without layers cannot be written");
    const SourceLayer& first = model_.layers.front();
    const bool reads_ids = std::holds_alternative<EmbeddingLayer>(first);
    TensorflowShape shape{.sizes = {-1, -1}};
    if (!reads_ids) {
      const auto* recurrent = std::get_if<RecurrentLayer>(&first);
      const auto* dense = std::get_if<LinearLayer>(&first);
      const auto* affine = std::get_if<AffineLayer>(&first);
      shape.sizes.push_back(recurrent != nullptr ? recurrent->input()
                            : dense != nullptr   ? dense->weight.shape[1]
                            : affine != nullptr  ? affine->scale.shape[0]
                                                 : -1);
    }
    x_ = graph_.output(
        graph_.add_node("Placeholder", "input", {},
                        {{"dtype", type_of(reads_ids ? kInt32 : kFloat)}, {"shape", shape}}),
        "output");
  }

  Value add(const EmbeddingLayer& layer) {
    if (&layer != std::get_if<EmbeddingLayer>(&model_.layers.front())) {
      base::fail(ErrorCode::kUnsupported, "{}: an embedding must be the first layer", layer.name);
    }
    return graph_.row(add_variable(graph_, "embedding", layer.table), x_);
  }

  Value add(const RecurrentLayer&) {
    const WrittenLayer& layer = recurrent_[next_recurrent_++];
    GraphBuilder::Values outputs;
    forward_ = size(layer.forward.scope.empty() ? 0 : layer.forward.cell.output);
    if (!layer.forward.scope.empty()) {
      outputs.push_back(add_recurrent(graph_, functions_, layer.forward, x_));
    }
    if (!layer.backward.scope.empty()) {
      const Value backward = add_recurrent(graph_, functions_, layer.backward, reversed(x_));
      outputs.push_back(reversed(backward));
    }
    return outputs.size() == 1 ? outputs[0] : graph_.concat(outputs, -1);
  }
  Value reversed(const Value& x) {
    const std::string node = graph_.add_node("ReverseV2", "ReverseV2", {x, graph_.vector({0})},
                                             {{"T", type_of(kFloat)}, {"Tidx", type_of(kInt32)}});
    return graph_.output(node, "output");
  }

  Value add(const LinearLayer& layer) {
    const bool is_last = &layer == std::get_if<LinearLayer>(&model_.layers.back());
    const std::string scope = is_last ? "output" : layer.name;
    const std::int64_t out = layer.weight.shape[0], in = layer.weight.shape[1];
    const Value kernel = add_variable(graph_, scope + "/kernel", transposed(layer.weight));
    Value y = graph_.matmul(graph_.reshape(x_, graph_.vector({-1, size(in)})), kernel);
    if (layer.bias) {
      y = graph_.binary("AddV2", y, add_variable(graph_, scope + "/bias", *layer.bias));
    }
    y = add_activation(graph_, layer.activation, y);
    if (is_pooled_) return y;
    return graph_.reshape(y, graph_.pack({graph_.size_of_axis(x_, 0), graph_.size_of_axis(x_, 1),
                                          graph_.scalar(size(out))}));
  }

  Value add(const AffineLayer& layer) {
    const Value scale = add_variable(graph_, layer.name + "/scale", layer.scale);
    const Value shift = add_variable(graph_, layer.name + "/shift", layer.shift);
    return graph_.binary("AddV2", graph_.binary("Mul", x_, scale), shift);
  }

  Value add(const CrfLayer& layer) const { refuse_crf(layer, "TensorFlow's graph"); }
  Value add(const PoolingLayer& layer) {
    is_pooled_ = true;
    if (layer.kind == "mean") return graph_.reduce("Mean", x_, 0, false);
    if (layer.kind == "max") return graph_.reduce("Max", x_, 0, false);
    if (layer.kind == "last") return add_last();
    if (layer.kind != "attention" || !layer.query) {
      base::fail(ErrorCode::kUnsupported, "{}: the pooling '{}' is not written", layer.name,
                 layer.kind);
    }
    const Value query = add_variable(graph_, layer.name + "/query", *layer.query);
    const Value scores = graph_.reduce("Sum", graph_.binary("Mul", x_, query), 2, true);
    const Value most = graph_.reduce("Max", scores, 0, true);
    const Value weights = graph_.unary("Exp", graph_.binary("Sub", scores, most));
    const Value shares = graph_.binary("RealDiv", weights, graph_.reduce("Sum", weights, 0, true));
    return graph_.reduce("Sum", graph_.binary("Mul", x_, shares), 0, false);
  }
  /// The last step of the forward direction and the first of the backward one.
  Value add_last() {
    const Value last_index = graph_.output(
        graph_.add_node("Sub", "last_step", {graph_.size_of_axis(x_, 0), graph_.scalar(1)},
                        {{"T", type_of(kInt32)}}),
        "z");
    const Value last = graph_.row(x_, last_index), first = graph_.row(x_, graph_.scalar(0));
    return graph_.concat(
        {graph_.slice(last, {0, 0}, {-1, forward_}), graph_.slice(first, {0, forward_}, {-1, -1})},
        1);
  }

  const SourceModel& model_;
  const std::vector<WrittenLayer> recurrent_;
  GraphBuilder graph_;
  std::vector<io::formats::GraphFunction> functions_;
  Value x_;
  std::size_t next_recurrent_ = 0;
  std::int32_t forward_ = 0;  ///< columns of the forward direction of the last recurrent layer
  bool is_pooled_ = false;
};

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  io::OutputFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

io::formats::SignatureTensor signature_of(const GraphDef& graph, const SourceModel& model,
                                          bool is_input) {
  if (is_input) {
    const io::formats::GraphNode& node = graph.nodes.front();
    return {.name = "input:0",
            .type = std::get<io::formats::TensorflowType>(*node.find("dtype")).number,
            .shape = std::get<TensorflowShape>(*node.find("shape"))};
  }
  bool is_pooled = false;
  for (const SourceLayer& layer : model.layers) {
    is_pooled = is_pooled || std::holds_alternative<PoolingLayer>(layer);
  }
  TensorflowShape shape{.sizes = {-1, -1}};
  if (!is_pooled) shape.sizes.push_back(-1);
  return {.name = "output:0", .type = kFloat, .shape = shape};
}

}  // namespace

GraphDef graph_of(const SourceModel& model) { return ChainWriter(model).write(); }

}  // namespace tensorflow

void write_frozen_graph(const SourceModel& model, const std::filesystem::path& path) {
  tensorflow::write_file(path, io::formats::write_graph_def(tensorflow::graph_of(model)));
}

void write_saved_model_folder(const SourceModel& model, const std::filesystem::path& folder) {
  io::formats::MetaGraph meta;
  meta.tags = {"serve"};
  meta.tensorflow_version = "1.15.0";
  meta.graph = tensorflow::graph_of(model);
  io::formats::Signature signature;
  signature.method = "tensorflow/serving/predict";
  signature.inputs["input"] = tensorflow::signature_of(meta.graph, model, true);
  signature.outputs["output"] = tensorflow::signature_of(meta.graph, model, false);
  meta.signatures["serving_default"] = std::move(signature);
  io::formats::SavedModel saved;
  saved.graphs.push_back(std::move(meta));
  std::filesystem::create_directories(folder);
  tensorflow::write_file(folder / "saved_model.pb", io::formats::write_saved_model(saved));
}

}  // namespace sluice::interchange
