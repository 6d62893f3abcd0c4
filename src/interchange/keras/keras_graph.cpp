#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/check.h"
#include "interchange/keras/keras_config.h"
#include "interchange/keras/keras_names.h"

namespace sluice::interchange::keras {
namespace {

constexpr std::string_view kHint =
    "only a single chain of layers is read; --subgraph NAME takes a recurrent layer alone";

bool is_model(std::string_view type) {
  return type == "Sequential" || type == "Functional" || type == "Model";
}

/// A tensor that a layer reads: the layer that puts it out, and its number among the outputs.
struct Link {
  std::string layer;
  std::int64_t output = 0;
};

/// Collects the links in one call of a layer.
class Links {
 public:
  std::vector<Link> of(const Json& call) {
    if (call.is_object()) {
      collect_keras3(call.value("args", Json::array()));
      const Json named = call.value("kwargs", Json::object());
      for (const auto& [key, value] : named.items())
        add_argument(key, value, &Links::collect_keras3);
    } else {
      collect_keras2(call);
    }
    return links_;
  }
  /// Of the same call: the tensors that are its mask.
  const std::vector<Link>& masks() const { return masks_; }
  /// Whether it is made in training mode, wherever the model runs.
  bool trains() const { return trains_; }

 private:
  // Recursion ends, because the levels of the JSON text are bounded.
  void collect_keras3(const Json& value) {
    if (value.is_object() && value.value("class_name", Json()) == "__keras_tensor__") {
      const Json config = value.value("config", Json::object());
      add(config.is_object() ? config.value("keras_history", Json()) : Json());
      return;
    }
    if (value.is_structured()) {
      for (const Json& part : value) collect_keras3(part);
    }
  }
  /// [name, node, output, {arguments}], or a list of them.
  void collect_keras2(const Json& value) {
    if (!value.is_array()) return;
    if (value.empty() || !value[0].is_string()) {
      for (const Json& part : value) collect_keras2(part);
      return;
    }
    add(value);
    if (value.size() < 4 || !value[3].is_object()) return;
    for (const auto& [key, argument] : value[3].items()) {
      add_argument(key, argument, &Links::collect_keras2);
    }
  }
  /// A mask is kept apart. A call in training mode is noted.
  void add_argument(const std::string& key, const Json& value,
                    void (Links::*collect)(const Json&)) {
    if (key == "training" && value.is_boolean() && value.get<bool>()) trains_ = true;
    std::vector<Link> before = links_;
    (this->*collect)(value);
    if (key != "mask") return;
    masks_.insert(masks_.end(), links_.begin() + static_cast<std::int64_t>(before.size()),
                  links_.end());
    links_ = std::move(before);
  }
  void add(const Json& history) {
    if (!history.is_array() || history.size() < 3 || !history[0].is_string()) return;
    links_.push_back({history[0].get<std::string>(),
                      history[2].is_number_integer() ? history[2].get<std::int64_t>() : 0});
  }

  std::vector<Link> links_, masks_;
  bool trains_ = false;
};

/// Reads the layers of a model, in order or not.
class ModelReader {
 public:
  ModelReader(std::string_view file, bool in_order) : file_(file), in_order_(in_order) {}

  std::vector<Layer> read(const Json& model) {
    add_model(model, nullptr);
    return std::move(layers_);
  }

 private:
  struct Entry {
    const Json* json;
    Layer layer;
  };

  void add_model(const Json& model, const Layer* outer) {
    const std::string type = type_of(model, file_);
    if (!is_model(type)) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' holds a model of the class '{}'; Sequential and Functional models are read",
                 file_, type);
    }
    std::vector<Entry> entries = entries_of(model, outer);
    if (in_order_ && type != "Sequential") entries = sorted(model, std::move(entries));
    for (const Entry& entry : entries) {
      if (is_model(entry.layer.type)) {
        add_model(*entry.json, &entry.layer);
      } else {
        layers_.push_back(entry.layer);
      }
    }
  }

  std::vector<Entry> entries_of(const Json& model, const Layer* outer) const {
    const Json* list = model.contains("config") ? &model["config"] : nullptr;
    // Sequential of Keras 1, and of Keras 2 up to 2.2.2, has the list alone.
    if (list != nullptr && list->is_object() && list->contains("layers")) list = &(*list)["layers"];
    if (list == nullptr || !list->is_array()) {
      base::fail(ErrorCode::kFormat, "'{}': its configuration has no list of layers", file_);
    }
    std::vector<Entry> entries;
    Counter counter;
    for (const Json& json : *list) {
      Layer layer;
      layer.type = type_of(json, file_);
      layer.config = json.value("config", Json::object());
      layer.name = name_in(json, layer.config);
      layer.is_nested = outer != nullptr;
      layer.group = outer == nullptr ? layer.name : outer->group;
      layer.place = (outer == nullptr ? "" : outer->place + "/") + "layers/" +
                    counter.unique(snake_case(layer.type));
      layer.type = full_type(json, layer.type);
      entries.push_back({&json, std::move(layer)});
    }
    return entries;
  }

  std::string name_in(const Json& json, const Json& config) const {
    const Json none;
    const Json* name = json.contains("name") ? &json["name"] : &none;
    if (config.is_object() && config.contains("name")) name = &config["name"];
    if (name->is_string()) return name->get<std::string>();
    // A nested Sequential of Keras 1 has no name.
    if (config.is_array()) return "sequential";
    base::fail(ErrorCode::kFormat, "'{}': a layer of its configuration has no name", file_);
  }

  /// "LSTM", or "module>LSTM" for a class that is not of Keras.
  static std::string full_type(const Json& json, const std::string& type) {
    const Json module = json.value("module", Json());
    if (!module.is_string()) return type;
    const std::string name = module.get<std::string>();
    return name == "keras" || name.starts_with("keras.") ? type : name + ">" + type;
  }

  [[noreturn]] void refuse(const Json& model, std::string_view what) const {
    base::fail(ErrorCode::kUnsupported, "'{}': {}, and {}; its layers: {}", file_, what, kHint,
               list_of(ModelReader(file_, false).read(model)));
  }

  /// The layers of a Functional model from its input to its output.
  std::vector<Entry> sorted(const Json& model, std::vector<Entry> entries) {
    std::map<std::string, std::vector<std::size_t>, std::less<>> readers;
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Layer& layer = entries[i].layer;
      // It makes the mask of an Embedding, which Keras 3 writes as an operation.
      if (layer.type == "NotEqual") continue;
      const std::optional<Link> link = link_of(model, entries[i]);
      if (link) {
        readers[link->layer].push_back(i);
      } else {
        starts.push_back(i);
      }
    }
    check_masks(model, entries);
    if (starts.size() != 1) {
      refuse(model, fmt::format("the model has {} inputs", starts.size()));
    }
    std::vector<Entry> result;
    std::set<std::size_t> done;
    for (std::size_t at = starts[0]; done.insert(at).second;) {
      result.push_back(entries[at]);
      const std::vector<std::size_t>& next = readers[entries[at].layer.name];
      if (next.empty()) break;
      if (next.size() > 1) {
        refuse(model, fmt::format("layers '{}' and '{}' both read the output of '{}'",
                                  entries[next[0]].layer.name, entries[next[1]].layer.name,
                                  entries[at].layer.name));
      }
      at = next[0];
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (done.contains(i) || entries[i].layer.type == "NotEqual") continue;
      refuse(model, fmt::format("layer '{}' is not reached from the input", entries[i].layer.name));
    }
    require_one_output(model, result.back().layer);
    return result;
  }

  /// Refuses masks but those that follow from an Embedding: of ids that differ from 0.
  void check_masks(const Json& model, const std::vector<Entry>& entries) const {
    for (const Entry& entry : entries) {
      if (entry.layer.type != "NotEqual") {
        if (!masks_.contains(entry.layer.name)) continue;
        refuse(model, fmt::format("layer '{}' makes a mask", entry.layer.name));
      }
      const Json calls = entry.json->value("inbound_nodes", Json::array());
      const Json call = calls.size() == 1 ? calls[0] : Json();
      const Json arguments = call.is_object() ? call.value("args", Json::array()) : Json::array();
      if (arguments.size() == 2 && arguments[1] == 0) continue;
      refuse(model, fmt::format("layer '{}' makes another mask than that of an Embedding",
                                entry.layer.name));
    }
  }

  std::optional<Link> link_of(const Json& model, const Entry& entry) {
    const Json calls = entry.json->value("inbound_nodes", Json::array());
    if (!calls.is_array() || calls.empty()) return std::nullopt;
    if (calls.size() > 1) {
      refuse(model, fmt::format("layer '{}' is used {} times", entry.layer.name, calls.size()));
    }
    Links call;
    const std::vector<Link> links = call.of(calls[0]);
    if (call.trains()) {
      refuse(model, fmt::format("layer '{}' is called in training mode", entry.layer.name));
    }
    for (const Link& mask : call.masks()) masks_.insert(mask.layer);
    if (links.size() != 1) {
      std::string names;
      for (const Link& link : links) names += (names.empty() ? "'" : ", '") + link.layer + "'";
      refuse(model, links.empty()
                        ? fmt::format("the input of layer '{}' is not named", entry.layer.name)
                        : fmt::format("layer '{}' ({}) reads several tensors, of {}",
                                      entry.layer.name, entry.layer.type, names));
    }
    if (links[0].output != 0) {
      refuse(model, fmt::format("layer '{}' reads output {} of '{}'", entry.layer.name,
                                links[0].output, links[0].layer));
    }
    return links[0];
  }

  void require_one_output(const Json& model, const Layer& last) const {
    const Json& config = model["config"];
    if (!config.contains("output_layers")) return;
    const std::vector<Link> links = Links().of(config["output_layers"]);
    for (const Link& link : links) {
      if (link.layer == last.name && link.output == 0) continue;
      refuse(model, fmt::format("output {} of layer '{}' is an output of the model too",
                                link.output, link.layer));
    }
  }

  std::string_view file_;
  bool in_order_;
  std::vector<Layer> layers_;
  std::set<std::string, std::less<>> masks_;  ///< names of layers that make masks
};

}  // namespace

std::string snake_case(std::string_view name) {
  const auto is_upper = [&](std::size_t i) { return name[i] >= 'A' && name[i] <= 'Z'; };
  const auto is_lower = [&](std::size_t i) {
    return i < name.size() && name[i] >= 'a' && name[i] <= 'z';
  };
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (i > 0 && is_upper(i) && (is_lower(i + 1) || is_lower(i - 1))) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return result;
}

std::string Counter::unique(const std::string& name) {
  const int before = counts_[name]++;
  return before == 0 ? name : fmt::format("{}_{}", name, before);
}

std::vector<Layer> all_layers(const Json& model, std::string_view file) {
  return ModelReader(file, false).read(model);
}

std::vector<Layer> chain_of(const Json& model, std::string_view file) {
  return ModelReader(file, true).read(model);
}

}  // namespace sluice::interchange::keras
