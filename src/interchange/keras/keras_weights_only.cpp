#include "interchange/keras/keras_weights_only.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "interchange/keras/keras_chain.h"
#include "interchange/keras/keras_config.h"
#include "interchange/keras/keras_weights.h"

namespace sluice::interchange::keras {
namespace {

using io::formats::Hdf5File;

constexpr int kMostNested = 8;

/// Finds layers by their weights, and gives each recurrent one the configuration that follows from
/// the shapes of its weights and from the caller's answers.
class Finder {
 public:
  Finder(Hdf5File& file, Weights& weights, const ReadOptions& options)
      : file_(file), weights_(weights), options_(options) {}

  void add_legacy(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      Layer layer{.type = "", .name = name, .config = Json::object(), .group = name};
      std::vector<std::string> weights = texts_of(file_, name, "weight_names");
      if (weights.empty()) continue;
      const auto any = [&](const auto& accepts) { return std::ranges::any_of(weights, accepts); };
      const bool is_recurrent = any([](const std::string& weight) {
        return weight.find("recurrent_kernel") != std::string::npos ||
               keras1_end(weight.substr(0, weight.find(':'))).starts_with('U');
      });
      if (is_recurrent) {
        const bool has_sides = any([](const std::string& weight) {
          return weight.starts_with("forward_") || weight.find("/forward_") != std::string::npos;
        });
        const bool has_bias = any([](const std::string& weight) {
          const std::string_view text = std::string_view(weight).substr(0, weight.find(':'));
          return text.ends_with("bias") || keras1_end(text).starts_with('b');
        });
        configure(layer, has_sides, has_bias);
      }
      layers_.push_back(std::move(layer));
    }
    is_in_order_ = true;
  }

  void add_container(const std::string& group, int depth = 0) {
    if (depth > kMostNested || !file_.has(group)) return;
    for (const std::string& child : file_.children(group)) {
      const std::string place = group + "/" + child;
      Layer layer{.type = "", .name = child, .config = Json::object(), .place = place};
      const std::string vars = place + "/vars";
      if (file_.has(vars) && file_.has_attribute(vars, "name")) {
        layer.name = file_.attribute_text(vars, "name");
      }
      add_container(place + "/layers", depth + 1);
      const bool has_sides = file_.has(place + "/forward_layer");
      const std::string cell =
          has_sides ? place + "/forward_layer/cell/vars" : place + "/cell/vars";
      if (file_.has(cell + "/1")) {
        configure(layer, has_sides, file_.has(cell + "/2"));
      } else if (!file_.has(vars) || file_.children(vars).empty()) {
        continue;
      }
      layers_.push_back(std::move(layer));
    }
  }

  const std::vector<Layer>& layers() const { return layers_; }
  bool is_in_order() const { return is_in_order_; }

 private:
  void configure(Layer& layer, bool has_sides, bool has_bias) {
    Part part{.side = has_sides ? Part::Side::kForward : Part::Side::kNone, .is_cell = true};
    std::vector<std::string_view> names = {"kernel", "recurrent_kernel"};
    if (has_bias) names.push_back("bias");
    layer.type = "recurrent";
    const Tensors tensors = weights_.read(layer, part, names);
    const base::Shape& recurrent = tensors.find("recurrent_kernel")->second.shape;
    const std::int64_t units = recurrent.rank() == 2 ? recurrent[0] : 0;
    const std::int64_t gates = units > 0 ? recurrent[1] / units : 0;
    if (gates != 1 && gates != 3 && gates != 4) {
      base::fail(ErrorCode::kFormat,
                 "layer '{}': a recurrent_kernel of shape {} is of no LSTM, GRU or SimpleRNN",
                 layer.name, recurrent.to_string());
    }
    std::string type = gates == 4 ? "LSTM" : (gates == 3 ? "GRU" : "SimpleRNN");
    Json config = {{"units", units}, {"use_bias", has_bias}, {"return_sequences", true}};
    if (has_bias) {
      const base::Shape& bias = tensors.find("bias")->second.shape;
      config["reset_after"] = bias.rank() == 2;
      if (gates > 1 && bias == base::Shape{2 * gates * units}) type = "CuDNN" + type;
    } else if (gates == 3) {
      const std::optional<std::string> answer = options_.find("reset_after");
      SLUICE_CHECK(
          answer && (*answer == "true" || *answer == "false"),
          "layer '{}' is a GRU without biases, whose shapes do not say where it resets; say "
          "it by --set reset_after=true (the default of Keras since 2.0 of TensorFlow) or "
          "--set reset_after=false",
          layer.name);
      config["reset_after"] = *answer == "true";
    }
    config["activation"] = options_.find("activation").value_or("tanh");
    const std::optional<std::string> gate = options_.find("recurrent_activation");
    if (gate) config["recurrent_activation"] = *gate;
    layer.type = has_sides ? "Bidirectional" : type;
    layer.config = std::move(config);
    if (!has_sides) return;
    layer.config = {{"merge_mode", "concat"},
                    {"layer", {{"class_name", type}, {"config", std::move(layer.config)}}}};
  }

  Hdf5File& file_;
  Weights& weights_;
  const ReadOptions& options_;
  std::vector<Layer> layers_;
  bool is_in_order_ = false;
};

/// The names of the layers to read, with commas between them.
std::string choose(const Finder& finder, std::string_view file) {
  const std::vector<Layer>& layers = finder.layers();
  const bool are_recurrent =
      std::ranges::all_of(layers, [](const Layer& layer) { return is_recurrent(layer.type); });
  if (are_recurrent && !layers.empty() && (finder.is_in_order() || layers.size() == 1)) {
    std::string names;
    for (const Layer& layer : layers) names += (names.empty() ? "" : ",") + layer.name;
    return names;
  }
  std::vector<Layer> recurrent;
  std::ranges::copy_if(layers, std::back_inserter(recurrent),
                       [](const Layer& layer) { return is_recurrent(layer.type); });
  base::fail(ErrorCode::kUnsupported,
             "'{}' has weights alone, which do not say how the layers follow each other; say which "
             "recurrent layers to take (--subgraph NAME or NAME,NAME), or save the whole model "
             "with model.save; its recurrent layers: {}",
             file, list_of(recurrent));
}

void require_answers(const std::vector<Layer>& layers, const std::string& chosen,
                     const ReadOptions& options, SourceModel& model) {
  const std::string names = "," + chosen + ",";
  const Layer* open = nullptr;
  bool has_activation = false;
  for (const Layer& layer : layers) {
    if (names.find("," + layer.name + ",") == std::string::npos) continue;
    const Json& config =
        layer.type == "Bidirectional" ? layer.config["layer"]["config"] : layer.config;
    const std::string type = layer.type == "Bidirectional"
                                 ? layer.config["layer"]["class_name"].get<std::string>()
                                 : layer.type;
    if (!is_recurrent(type) || type.starts_with("CuDNN")) continue;
    has_activation = true;
    const bool has_gates = type != "SimpleRNN";
    if (has_gates && !config.contains("recurrent_activation")) open = &layer;
  }
  if (open != nullptr) {
    base::fail(ErrorCode::kUnsupported,
               "'{}' has weights alone, which do not say the activation of the gates of layer "
               "'{}'; say --set recurrent_activation=sigmoid (the default of tf.keras 2 and "
               "Keras 3) or --set recurrent_activation=hard_sigmoid (that of Keras 1 and 2)",
               model.path, open->name);
  }
  if (!has_activation) return;
  if (const std::optional<std::string> gate = options.find("recurrent_activation")) {
    model.account.find(fmt::format("recurrent_activation {}, which you said", *gate));
  }
  if (options.find("activation")) return;
  model.account.assume("the activation tanh; --set activation=NAME says another");
}

}  // namespace

void read_weights_only(Hdf5File& file, const std::string& version, const ReadOptions& options,
                       SourceModel& model) {
  const std::vector<std::string> names = texts_of(file, "", "layer_names");
  const bool is_legacy = !names.empty();
  if (!is_legacy && !file.has("layers")) {
    base::fail(ErrorCode::kFormat,
               "'{}' is an HDF5 file, but not of Keras: it has no attribute model_config or "
               "layer_names and no group 'layers'",
               model.path);
  }
  const std::unique_ptr<Weights> weights =
      is_legacy ? legacy_weights(file, "", model.path) : container_weights(file, model.path);
  Finder finder(file, *weights, options);
  is_legacy ? finder.add_legacy(names) : finder.add_container("layers");
  const std::string chosen =
      options.subgraph.empty() ? choose(finder, model.path) : options.subgraph;
  require_answers(finder.layers(), chosen, options, model);
  model.account.assume(
      "both directions of a Bidirectional stand next to each other, and no other layer runs "
      "backward: "
      "weights do not say it, so convert a file with its configuration where there is one");
  read_subgraph(finder.layers(), chosen,
                {*weights, version, options, model.account, "shapes of the weights"}, model);
}

}  // namespace sluice::interchange::keras
