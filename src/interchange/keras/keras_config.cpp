#include "interchange/keras/keras_config.h"

#include <fmt/format.h>

#include "base/check.h"

namespace sluice::interchange::keras {
namespace {

constexpr int kMostLevels = 100;
constexpr std::size_t kMostListed = 40;

[[noreturn]] void refuse_value(const Layer& layer, Keys keys, std::string_view wanted) {
  base::fail(ErrorCode::kFormat, "the configuration of layer '{}' ({}) has no {} '{}'", layer.name,
             layer.type, wanted, *keys.begin());
}

/// The name of the policy of a layer's numbers, or an empty text.
std::string dtype_of(const Layer& layer) {
  const Json* dtype = find(layer, {"dtype"});
  if (dtype == nullptr) return "";
  if (dtype->is_string()) return dtype->get<std::string>();
  if (!dtype->is_object()) return "";
  const auto config = dtype->find("config");
  std::string name = dtype->value("class_name", Json()).dump();
  if (config != dtype->end()) name += " " + config->dump();
  return name;
}

}  // namespace

Json parse_config(std::string_view text, std::string_view file) {
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMostLevels) {
      base::fail(ErrorCode::kFormat, "'{}': its configuration has more than {} levels", file,
                 kMostLevels);
    }
    return true;
  };
  try {
    return Json::parse(text, check_depth);
  } catch (const Json::exception& error) {
    base::fail(ErrorCode::kFormat, "'{}': its configuration is damaged JSON: {}", file,
               error.what());
  }
}

std::string type_of(const Json& entry, std::string_view file) {
  if (!entry.is_object() || !entry.contains("class_name") || !entry["class_name"].is_string()) {
    base::fail(ErrorCode::kFormat, "'{}': an entry of its configuration has no class_name", file);
  }
  return entry["class_name"].get<std::string>();
}

const Json* find(const Layer& layer, Keys keys) {
  for (const std::string_view key : keys) {
    const auto found = layer.config.find(key);
    if (found != layer.config.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

std::string text(const Layer& layer, Keys keys) {
  const Json* value = find(layer, keys);
  if (value == nullptr || !value->is_string()) refuse_value(layer, keys, "text");
  return value->get<std::string>();
}

std::int64_t integer(const Layer& layer, Keys keys) {
  const Json* value = find(layer, keys);
  if (value == nullptr || !value->is_number_integer()) refuse_value(layer, keys, "whole number");
  return value->get<std::int64_t>();
}

double number(const Layer& layer, Keys keys) {
  const Json* value = find(layer, keys);
  if (value == nullptr || !value->is_number()) refuse_value(layer, keys, "number");
  return value->get<double>();
}

bool flag(const Layer& layer, Keys keys, bool otherwise) {
  const Json* value = find(layer, keys);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse_value(layer, keys, "true or false for");
  return value->get<bool>();
}

std::string activation(const Layer& layer, Keys keys) {
  const Json* value = find(layer, keys);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  // Keras 3 may write a function of its own as an object.
  if (value->is_object() && value->contains("config") && (*value)["config"].is_string()) {
    return (*value)["config"].get<std::string>();
  }
  refuse_value(layer, keys, "name of a function for");
}

Layer inner_layer(const Layer& layer, const Json& entry) {
  Layer inner = layer;
  inner.type = type_of(entry, layer.name);
  if (!entry.contains("config") || !entry["config"].is_object()) {
    base::fail(ErrorCode::kFormat, "the {} in layer '{}' has no configuration", inner.type,
               layer.name);
  }
  inner.config = entry["config"];
  require_plain(inner);
  return inner;
}

void require_plain(const Layer& layer) {
  const std::string dtype = dtype_of(layer);
  const bool is_quantized =
      dtype.find("int8") != std::string::npos || dtype.find("int4") != std::string::npos ||
      dtype.find("float8") != std::string::npos || dtype.find("Quantized") != std::string::npos ||
      find(layer, {"quantization_config"}) != nullptr;
  if (is_quantized) {
    base::fail(ErrorCode::kUnsupported,
               "layer '{}' ({}) is quantized; convert the model from before its quantization",
               layer.name, layer.type);
  }
}

std::string list_of(const std::vector<Layer>& layers) {
  std::string list;
  for (std::size_t i = 0; i < layers.size() && i < kMostListed; ++i) {
    list += fmt::format("{}{} ({})", i == 0 ? "" : ", ", layers[i].name, layers[i].type);
  }
  if (layers.size() > kMostListed) {
    list += fmt::format(" and {} more", layers.size() - kMostListed);
  }
  return list.empty() ? "none" : list;
}

}  // namespace sluice::interchange::keras
