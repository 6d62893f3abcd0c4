#include "interchange/onnx/onnx_writer.h"

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "interchange/onnx/onnx_constants.h"
#include "interchange/onnx/onnx_node_maker.h"
#include "interchange/onnx/onnx_pooling.h"
#include "interchange/onnx/onnx_write_recurrent.h"
#include "io/output_file.h"

namespace sluice::interchange {
namespace {

using io::HostTensor;
using io::formats::OnnxAxis;
using io::formats::OnnxModel;
using io::formats::OnnxValue;
using Axes = std::vector<OnnxAxis>;
using Layers = std::vector<const SourceLayer*>;

constexpr std::int32_t kFloat = 1, kInt32 = 6, kInt64 = 7;
constexpr const char *kInput = "input", *kLengths = "lengths", *kOutput = "output";

OnnxAxis axis(std::int64_t size) { return {size, ""}; }
OnnxAxis axis(const char* symbol) { return {{}, symbol}; }

const RecurrentLayer* recurrent(const SourceLayer* layer) {
  return std::get_if<RecurrentLayer>(layer);
}
bool is_last_pooling(const SourceLayer* layer) {
  const auto* pooling = std::get_if<PoolingLayer>(layer);
  return pooling != nullptr && pooling->kind == "last";
}

/// The layers in an order in which reading the last step directly follows a recurrent layer, whose
/// node gives it for rows of any length.
Layers ordered(const SourceModel& model) {
  Layers layers;
  for (const SourceLayer& layer : model.layers) {
    auto place = layers.end();
    if (is_last_pooling(&layer)) {
      while (place != layers.begin() && (std::holds_alternative<LinearLayer>(**(place - 1)) ||
                                         std::holds_alternative<AffineLayer>(**(place - 1)))) {
        --place;
      }
      const RecurrentLayer* before = place == layers.begin() ? nullptr : recurrent(*(place - 1));
      if (before == nullptr || (place != layers.end() && before->backward)) {
        base::fail(ErrorCode::kUnsupported,
                   "{} reads the last step of a layer that is not recurrent, which is not written",
                   name_of(layer));
      }
    }
    layers.insert(place, &layer);
  }
  return layers;
}

/// Writes the layers one after the other.
class GraphWriter {
 public:
  GraphWriter(const SourceModel& model, const OnnxWriteOptions& options)
      : layers_(ordered(model)), options_(options) {}

  OnnxModel write() {
    SLUICE_CHECK(!layers_.empty(), "a model without layers cannot be written");
    file_.ir_version = 8;
    file_.opsets[""] = onnx::kWrittenOpset;
    file_.producer_name = "sluice";
    file_.graph.name = "model";
    add_input();
    if (options_.lengths) add_value(file_.graph.inputs, kLengths, kInt32, {axis("batch")});
    for (index_ = 0; index_ < layers_.size(); ++index_) {
      prefix_ = std::to_string(index_) + "." + std::string(name_of(*layers_[index_]));
      is_end_ = index_ + 1 == layers_.size();
      std::visit([this](const auto& layer) { add(layer); }, *layers_[index_]);
    }
    add_output(kOutput);
    if (!probabilities_.empty()) add_output(probabilities_);
    for (OnnxValue& state : final_states_) file_.graph.outputs.push_back(std::move(state));
    if (!functions_.empty()) file_.opsets[std::string(onnx::kPoolingDomain)] = 1;
    for (const std::string& name : functions_) {
      file_.functions.push_back(onnx::pooling_function(name));
    }
    return std::move(file_);
  }

 private:
  static OnnxValue value(std::string name, std::int32_t type, Axes axes) {
    return {std::move(name), "tensor", type, std::move(axes)};
  }
  static void add_value(std::vector<OnnxValue>& values, std::string name, std::int32_t type,
                        Axes axes) {
    values.push_back(value(std::move(name), type, std::move(axes)));
  }
  void add_input() {
    if (std::holds_alternative<EmbeddingLayer>(*layers_[0])) {
      add_value(file_.graph.inputs, kInput, kInt64, {axis("time"), axis("batch")});
      return;
    }
    std::optional<std::int64_t> width;
    if (const auto* layer = recurrent(layers_[0])) width = layer->input();
    if (const auto* layer = std::get_if<LinearLayer>(layers_[0])) width = layer->weight.shape[1];
    if (const auto* layer = std::get_if<AffineLayer>(layers_[0])) width = layer->scale.shape[0];
    SLUICE_CHECK(width, "a model cannot begin with the pooling {}", name_of(*layers_[0]));
    width_ = *width;
    add_value(file_.graph.inputs, kInput, kFloat, {axis("time"), axis("batch"), axis(width_)});
  }
  void add_output(const std::string& name) {
    Axes axes{axis("batch"), axis(width_)};
    if (!is_pooled_) axes.insert(axes.begin(), axis("time"));
    add_value(file_.graph.outputs, name, kFloat, std::move(axes));
  }

  /// The name of the layer's output, or of its last node.
  std::string made() const { return is_end_ ? kOutput : prefix_; }
  std::string tensor(const HostTensor& values, const char* suffix) {
    file_.graph.initializers.push_back(io::formats::to_onnx(values, prefix_ + suffix));
    return prefix_ + suffix;
  }
  void add_node(std::string op_type, std::vector<std::string> inputs, std::string output,
                std::vector<io::formats::OnnxAttribute> attributes = {}) {
    file_.graph.nodes.push_back(onnx::node(std::move(op_type), std::move(inputs),
                                           {std::move(output)}, std::move(attributes)));
  }

  void add(const EmbeddingLayer& layer) {
    SLUICE_CHECK(index_ == 0, "the embedding {} must be the first layer", layer.name);
    add_node("Gather", {tensor(layer.table, ".weight"), at_}, made());
    width_ = layer.table.shape[1];
    at_ = made();
  }

  void add(const RecurrentLayer& layer) {
    SLUICE_CHECK(!is_pooled_, "{} stands after a pooling, which is not written", layer.name);
    onnx::RecurrentValues values;
    values.input = at_;
    values.output = made();
    if (options_.lengths) values.lengths = kLengths;
    const bool reads_last = !is_end_ && is_last_pooling(layers_[index_ + 1]);
    if (reads_last) {
      const bool ends = index_ + 2 == layers_.size();
      last_ = values.last = ends ? kOutput : prefix_ + ".last";
    }
    if (options_.states) add_states(layer, values);
    onnx::write_recurrent(file_.graph, layer, prefix_, values);
    width_ = layer.output();
    at_ = made();
    ++recurrent_count_;
  }

  void add_states(const RecurrentLayer& layer, onnx::RecurrentValues& values) {
    SLUICE_CHECK(layer.forward && !layer.backward,
                 "{} runs backward, so a sequence cannot be run in parts", layer.name);
    const std::string suffix = "_l" + std::to_string(recurrent_count_);
    const Axes axes{axis(1), axis("batch"), axis(layer.forward->hidden)};
    values.h0 = "h0" + suffix;
    values.hn = "hn" + suffix;
    add_value(file_.graph.inputs, values.h0, kFloat, axes);
    add_value(final_states_, values.hn, kFloat, axes);
    if (layer.forward->kind != CellKind::kLstm) return;
    values.c0 = "c0" + suffix;
    values.cn = "cn" + suffix;
    add_value(file_.graph.inputs, values.c0, kFloat, axes);
    add_value(final_states_, values.cn, kFloat, axes);
  }

  void add(const LinearLayer& layer) {
    const Activation& activation = layer.activation;
    const bool is_linear = activation.is("linear");
    const bool is_softmax = activation.is("softmax") || activation.is("log_softmax");
    // Logits are an output of their own.
    const std::string logits = is_linear || (is_end_ && is_softmax) ? made() : prefix_ + ".logits";
    const std::string product = layer.bias ? prefix_ + ".product" : logits;
    add_node("MatMul", {at_, tensor(transposed(layer.weight), ".weight")}, product);
    if (layer.bias) add_node("Add", {product, tensor(*layer.bias, ".bias")}, logits);
    width_ = layer.weight.shape[0];
    at_ = logits;
    if (is_linear) return;
    std::string output = made();
    if (is_end_ && is_softmax) {
      output = probabilities_ = activation.is("softmax") ? "probabilities" : "log_probabilities";
    }
    add_activation(layer, logits, output);
    at_ = output;
  }

  void add_activation(const LinearLayer& layer, const std::string& input,
                      const std::string& output) {
    const Activation& activation = layer.activation;
    if (activation.is("softmax")) {
      add_node("Softmax", {input}, output, {onnx::attribute("axis", std::int64_t{-1})});
    } else if (activation.is("log_softmax")) {
      add_node("LogSoftmax", {input}, output, {onnx::attribute("axis", std::int64_t{-1})});
    } else if (activation.is("sigmoid")) {
      add_node("Sigmoid", {input}, output);
    } else if (activation.is("tanh")) {
      add_node("Tanh", {input}, output);
    } else if (activation.is("relu")) {
      add_node("Relu", {input}, output);
    } else if (activation.is("hard_sigmoid")) {
      add_node("HardSigmoid", {input}, output,
               {onnx::attribute("alpha", static_cast<float>(activation.alpha)),
                onnx::attribute("beta", static_cast<float>(activation.beta))});
    } else {
      base::fail(ErrorCode::kUnsupported, "{} has the activation '{}', which is not written",
                 layer.name, activation.name);
    }
  }

  void add(const AffineLayer& layer) {
    add_node("Mul", {at_, tensor(layer.scale, ".scale")}, prefix_ + ".scaled");
    add_node("Add", {prefix_ + ".scaled", tensor(layer.shift, ".shift")}, made());
    at_ = made();
  }

  void add(const CrfLayer& layer) const { refuse_crf(layer, "ONNX"); }
  void add(const PoolingLayer& layer) {
    SLUICE_CHECK(!options_.states, "{} reads all steps, so a sequence cannot be run in parts",
                 layer.name);
    SLUICE_CHECK(!is_pooled_, "{} stands after another pooling", layer.name);
    is_pooled_ = true;
    if (layer.kind == "last") {
      at_ = last_;
      return;
    }
    const bool is_attention = layer.kind == "attention";
    SLUICE_CHECK(is_attention == layer.query.has_value() &&
                     (is_attention || layer.kind == "mean" || layer.kind == "max"),
                 "{} is a pooling '{}', which is not written", layer.name, layer.kind);
    if (!options_.lengths && !is_attention) {
      add_node(layer.kind == "mean" ? "ReduceMean" : "ReduceMax", {at_}, made(),
               {onnx::attribute("axes", std::vector<std::int64_t>{0}),
                onnx::attribute("keepdims", std::int64_t{0})});
    } else {
      const std::string op = onnx::pooling_operator(layer.kind, options_.lengths);
      std::vector<std::string> inputs{at_};
      if (is_attention) inputs.push_back(tensor(*layer.query, ".query"));
      if (options_.lengths) inputs.emplace_back(kLengths);
      add_node(op, std::move(inputs), made());
      file_.graph.nodes.back().domain = onnx::kPoolingDomain;
      functions_.insert(op);
    }
    at_ = made();
  }

  const Layers layers_;
  const OnnxWriteOptions options_;
  OnnxModel file_;
  std::string at_ = kInput;  ///< the value that the next layer reads
  std::string last_, prefix_, probabilities_;
  std::int64_t width_ = 0;
  std::size_t index_ = 0, recurrent_count_ = 0;
  bool is_end_ = false, is_pooled_ = false;
  std::set<std::string> functions_;
  std::vector<OnnxValue> final_states_;
};

}  // namespace

void write_onnx_model(const SourceModel& model, const std::filesystem::path& path,
                      const OnnxWriteOptions& options) {
  const std::string bytes = io::formats::write_onnx(GraphWriter(model, options).write());
  io::OutputFile file(path);
  file.write(std::as_bytes(std::span(bytes)));
  file.commit();
}

}  // namespace sluice::interchange
