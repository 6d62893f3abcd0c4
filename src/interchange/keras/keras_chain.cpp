#include "interchange/keras/keras_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "interchange/comma_list.h"

namespace sluice::interchange::keras {
namespace {

const std::set<std::string_view> kTrainingOnly = {"Dropout",       "SpatialDropout1D",
                                                  "GaussianNoise", "GaussianDropout",
                                                  "AlphaDropout",  "ActivityRegularization"};
const std::set<std::string_view> kActivations = {"linear",  "softmax", "log_softmax",
                                                 "sigmoid", "tanh",    "relu"};

/// Reads the layers one after the other.
class ChainReader {
 public:
  ChainReader(const std::vector<Layer>& layers, const Reading& reading, SourceModel& model)
      : layers_(layers), reading_(reading), model_(model) {}

  void read() {
    for (const Layer& layer : layers_) {
      require_plain(layer);
      add(layer);
    }
    if (model_.layers.empty()) {
      base::fail(ErrorCode::kFormat, "'{}' has no layer with weights", model_.path);
    }
    if (is_reversed_ && !is_vector_) note_reversed();
  }

  void read_parts(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const auto found = std::ranges::find(layers_, name, &Layer::name);
      if (found == layers_.end() || !is_recurrent(found->type)) {
        base::fail(ErrorCode::kUnsupported, "'{}' has no recurrent layer '{}'; its layers: {}",
                   model_.path, name, list_of(layers_));
      }
      add_recurrent(*found, false);
    }
    if (is_reversed_) note_reversed();
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  [[noreturn]] void refuse(const Layer& layer, std::string_view what) const {
    base::fail(ErrorCode::kUnsupported, "layer '{}' ({}) {}", layer.name, layer.type, what);
  }

  void add(const Layer& layer) {
    const std::string_view type = layer.type;
    if (type == "InputLayer") return;
    if (kTrainingOnly.contains(type)) {
      return model_.account.leave_out(
          fmt::format("{}: {} acts in training alone", layer.name, layer.type));
    }
    if (type == "Masking") return add_masking(layer);
    if (type == "Embedding") return add_embedding(layer);
    if (is_recurrent(type)) return add_recurrent(layer, true);
    if (type == "Dense") return add_dense(layer, layer, {});
    if (type == "TimeDistributed") return add_time_distributed(layer);
    if (type == "Activation") return set_activation(layer, activation(layer, {"activation"}));
    if (type == "Softmax") return add_softmax(layer);
    if (type == "BatchNormalization") return add_normalization(layer);
    if (type == "GlobalAveragePooling1D") return add_pooling(layer, "mean");
    if (type == "GlobalMaxPooling1D") return add_pooling(layer, "max");
    refuse(layer, fmt::format("is of a class that is not read; --subgraph NAME takes a recurrent "
                              "layer alone; the layers: {}",
                              list_of(layers_)));
  }

  Tensors read(const Layer& layer, Names names, const Part& part = {}) const {
    const std::vector<std::string_view> list = names;
    return reading_.weights.read(layer, part, list);
  }

  void require_width(const Layer& layer, std::int64_t width) {
    if (width_ && *width_ != width) {
      base::fail(ErrorCode::kFormat,
                 "layer '{}' ({}) reads {} features, but the layer before has "
                 "{}",
                 layer.name, layer.type, width, *width_);
    }
  }
  static void require_shape(const Layer& layer, std::string_view name, const io::HostTensor& tensor,
                            std::int64_t rank, std::int64_t size) {
    const auto axes = static_cast<std::int64_t>(tensor.shape.rank());
    if (axes == rank && (size < 0 || tensor.shape[0] == size)) return;
    base::fail(ErrorCode::kFormat, "layer '{}' ({}): {} has the shape {}", layer.name, layer.type,
               name, tensor.shape.to_string());
  }

  void add_masking(const Layer& layer) {
    const Json* value = find(layer, {"mask_value"});
    model_.account.assume(fmt::format(
        "{}: Keras skips steps whose features all are {}; here such steps count, so give each row "
        "its length",
        layer.name, value == nullptr ? "0" : value->dump()));
  }

  void add_embedding(const Layer& layer) {
    Tensors tensors = read(layer, {"embeddings"});
    EmbeddingLayer embedding{layer.name, std::move(tensors.at("embeddings"))};
    require_shape(layer, "embeddings", embedding.table, 2, -1);
    if (!model_.layers.empty()) refuse(layer, "is not the first layer");
    if (flag(layer, {"mask_zero"}, false)) {
      embedding.padding = 0;
      model_.account.find(layer.name + ": mask_zero, so the id 0 is padding (configuration)");
      model_.account.assume(layer.name +
                            ": padding stands at the end of a row; Keras also skips it elsewhere");
    }
    width_ = embedding.table.shape[1];
    model_.layers.emplace_back(std::move(embedding));
  }

  void add_recurrent(const Layer& layer, bool pools) {
    if (is_vector_) refuse(layer, "follows a layer that puts out one vector for a sequence");
    RecurrentPart part = read_recurrent(layer, is_reversed_, reading_);
    for (RecurrentLayer& one : part.layers) {
      require_width(layer, one.input());
      width_ = one.output();
      model_.layers.emplace_back(std::move(one));
    }
    is_reversed_ = part.is_reversed;
    if (part.returns_sequences || !pools) return;
    is_vector_ = true;
    model_.layers.emplace_back(PoolingLayer{.name = layer.name + ".last", .kind = "last"});
  }

  void add_time_distributed(const Layer& layer) {
    const Json* entry = find(layer, {"layer"});
    if (entry == nullptr) refuse(layer, "has no layer in its configuration");
    const Layer inner = inner_layer(layer, *entry);
    if (inner.type != "Dense") {
      refuse(layer, fmt::format("holds a layer of the class '{}'; Dense is read", inner.type));
    }
    add_dense(layer, inner, {.is_wrapped = true});
  }

  void add_dense(const Layer& layer, const Layer& dense, const Part& part) {
    const bool has_bias = flag(dense, {"use_bias", "bias"}, true);
    Tensors tensors =
        has_bias ? read(layer, {"kernel", "bias"}, part) : read(layer, {"kernel"}, part);
    const io::HostTensor& kernel = tensors.at("kernel");
    require_shape(layer, "kernel", kernel, 2, -1);
    const std::int64_t in = kernel.shape[0], out = kernel.shape[1];
    require_width(layer, in);
    LinearLayer linear{layer.name, io::HostTensor::make(base::DType::kFloat32, {out, in})};
    const auto from = kernel.values<float>();
    const auto to = linear.weight.values<float>();
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t o = 0; o < out; ++o) {
        to[static_cast<std::size_t>(o * in + i)] = from[static_cast<std::size_t>(i * out + o)];
      }
    }
    if (has_bias) {
      linear.bias = std::move(tensors.at("bias"));
      require_shape(layer, "bias", *linear.bias, 1, out);
    }
    width_ = out;
    model_.layers.emplace_back(std::move(linear));
    set_activation(dense, activation(dense, {"activation"}));
  }

  void add_softmax(const Layer& layer) {
    const Json* axis = find(layer, {"axis"});
    if (axis != nullptr && *axis != Json(-1)) {
      refuse(layer, fmt::format("has axis={}; -1 is read", axis->dump()));
    }
    set_activation(layer, "softmax");
  }

  /// Gives the last layer, a linear one, its activation.
  void set_activation(const Layer& layer, const std::string& name) {
    if (name.empty() || name == "linear") return;
    if (!kActivations.contains(name)) {
      refuse(layer, fmt::format("has the activation '{}'; linear, softmax, log_softmax, sigmoid, "
                                "tanh and relu are read",
                                name));
    }
    auto* linear =
        model_.layers.empty() ? nullptr : std::get_if<LinearLayer>(&model_.layers.back());
    if (linear == nullptr || !linear->activation.is("linear")) {
      refuse(layer, fmt::format("applies '{}' to another layer than a Dense without an activation, "
                                "which is not read",
                                name));
    }
    linear->activation = {name};
  }

  void add_normalization(const Layer& layer) {
    require_last_axis(layer);
    const bool scales = flag(layer, {"scale"}, true), centers = flag(layer, {"center"}, true);
    std::vector<std::string_view> names;
    if (scales) names.push_back("gamma");
    if (centers) names.push_back("beta");
    names.insert(names.end(), {"moving_mean", "moving_variance"});
    const Tensors tensors = reading_.weights.read(layer, {}, names);
    const std::int64_t width = tensors.at("moving_mean").shape.element_count();
    for (const auto& [name, tensor] : tensors) require_shape(layer, name, tensor, 1, width);
    require_width(layer, width);
    const double epsilon = number(layer, {"epsilon"});
    AffineLayer affine{layer.name, io::HostTensor::make(base::DType::kFloat32, {width}),
                       io::HostTensor::make(base::DType::kFloat32, {width})};
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) {
      const auto value = [&](std::string_view name) -> double {
        return tensors.find(name)->second.values<float>()[i];
      };
      const double scale =
          (scales ? value("gamma") : 1) / std::sqrt(value("moving_variance") + epsilon);
      const double shift = (centers ? value("beta") : 0) - value("moving_mean") * scale;
      affine.scale.values<float>()[i] = static_cast<float>(scale);
      affine.shift.values<float>()[i] = static_cast<float>(shift);
    }
    model_.account.find(
        fmt::format("{}: BatchNormalization with its moving mean and variance, "
                    "epsilon {}",
                    layer.name, epsilon));
    width_ = width;
    model_.layers.emplace_back(std::move(affine));
  }
  void require_last_axis(const Layer& layer) const {
    const Json* axis = find(layer, {"axis"});
    if (axis != nullptr && axis->is_array() && axis->size() == 1) axis = &(*axis)[0];
    const int last = is_vector_ ? 1 : 2;
    if (axis != nullptr && *axis != Json(-1) && *axis != Json(last)) {
      refuse(layer, fmt::format("has axis={}; the last axis is read", axis->dump()));
    }
    const Json* mode = find(layer, {"mode"});  // of Keras 1
    if (mode != nullptr && *mode != Json(0)) {
      refuse(layer, fmt::format("has mode={}; 0 is read", mode->dump()));
    }
  }

  void add_pooling(const Layer& layer, const std::string& kind) {
    if (is_vector_) refuse(layer, "follows a layer that puts out one vector for a sequence");
    if (find(layer, {"data_format"}) != nullptr &&
        text(layer, {"data_format"}) == "channels_first") {
      refuse(layer, "has data_format=channels_first; channels_last is read");
    }
    if (flag(layer, {"keepdims"}, false)) refuse(layer, "has keepdims, which is not read");
    if (kind == "max") {
      model_.account.assume(layer.name +
                            ": the largest of a row's own steps; Keras reads its padding too");
    }
    is_vector_ = true;
    model_.layers.emplace_back(PoolingLayer{.name = layer.name, .kind = kind});
  }

  void note_reversed() {
    model_.account.assume(
        "go_backwards: Keras puts the last step first in the output; here each output stands at "
        "its own step");
  }

  const std::vector<Layer>& layers_;
  const Reading& reading_;
  SourceModel& model_;
  std::optional<std::int64_t> width_;  ///< of the output of the layer before
  bool is_vector_ = false;             ///< that output is one vector for a sequence
  bool is_reversed_ = false;           ///< Keras has its steps in reverse order
};

}  // namespace

void read_chain(const std::vector<Layer>& layers, const Reading& reading, SourceModel& model) {
  ChainReader(layers, reading, model).read();
}

void read_subgraph(const std::vector<Layer>& layers, std::string_view names, const Reading& reading,
                   SourceModel& model) {
  const std::vector<std::string> list = comma_list(names);
  ChainReader(layers, reading, model).read_parts(list);
  if (list.size() == layers.size()) return;
  model.account.leave_out(fmt::format("all layers of '{}' but {}", model.path, names));
}

}  // namespace sluice::interchange::keras
