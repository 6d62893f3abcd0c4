#include "interchange/keras/keras_writer.h"

#include <fmt/format.h>

#include "base/check.h"
#include "interchange/keras/keras_entries.h"
#include "interchange/keras/keras_names.h"
#include "io/formats/hdf5/hdf5_writer.h"
#include "io/formats/zip_writer.h"

namespace sluice::interchange {
namespace {

using io::formats::Hdf5Writer;
using keras::Entry;
using keras::Json;
using keras::WeightGroup;

/// The version whose hard sigmoid the files mean.
constexpr std::string_view kVersion = "3.0.0";
constexpr std::string_view kModelName = "sluice";

/// The input of a chain: [batch, steps], or [batch, steps, features].
Json input_shape(const SourceModel& model) {
  const keras::Json none = nullptr;
  if (model.layers.empty()) {
    base::fail(ErrorCode::kInvalidArgument, "a model without layers cannot be written");
  }
  const SourceLayer& first = model.layers.front();
  if (std::holds_alternative<EmbeddingLayer>(first)) return Json::array({none, none});
  std::int64_t features = 0;
  if (const auto* recurrent = std::get_if<RecurrentLayer>(&first)) features = recurrent->input();
  if (const auto* linear = std::get_if<LinearLayer>(&first)) features = linear->weight.shape[1];
  if (const auto* affine = std::get_if<AffineLayer>(&first)) features = affine->scale.shape[0];
  if (features == 0) {
    base::fail(ErrorCode::kUnsupported, "a model of Keras cannot begin with pooling ('{}')",
               name_of(first));
  }
  return Json::array({none, none, features});
}

Json entry(std::string_view module, std::string_view type, Json config) {
  return {{"module", module},
          {"class_name", type},
          {"config", std::move(config)},
          {"registered_name", nullptr}};
}

Json input_config(const Json& shape, std::string_view shape_key) {
  return {{std::string(shape_key), shape},
          {"dtype", shape.size() == 2 ? "int32" : "float32"},
          {"sparse", false},
          {"name", "input_layer"}};
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Json keras3_config(const std::vector<Entry>& entries, const Json& shape) {
  Json layers =
      Json::array({entry("keras.layers", "InputLayer", input_config(shape, "batch_shape"))});
  for (const Entry& one : entries) {
    layers.push_back(entry("keras.layers", one.type, one.config));
  }
  Json config = entry("keras", "Sequential",
                      {{"name", kModelName},
                       {"trainable", true},
                       {"dtype", "float32"},
                       {"layers", std::move(layers)},
                       {"build_input_shape", shape}});
  config["build_config"] = {{"input_shape", shape}};
  return config;
}

void write_container(const std::vector<Entry>& entries, const Json& shape,
                     const std::filesystem::path& path) {
  Hdf5Writer weights;
  keras::Counter counter;
  for (const Entry& one : entries) {
    const std::string place = "layers/" + counter.unique(keras::snake_case(one.type));
    weights.add_group(place + "/vars");
    weights.set_text(place + "/vars", "name", one.name);
    for (const WeightGroup& group : one.groups) {
      const std::string vars = place + (group.place.empty() ? "" : "/" + group.place) + "/vars";
      for (std::size_t i = 0; i < group.weights.size(); ++i) {
        weights.add_dataset(fmt::format("{}/{}", vars, i), group.weights[i].second);
      }
    }
  }
  weights.add_group("vars");
  io::formats::ZipWriter zip(path);
  zip.add("metadata.json",
          text_of({{"keras_version", kVersion}, {"date_saved", "1970-01-01@00:00:00"}}));
  zip.add("config.json", text_of(keras3_config(entries, shape)));
  zip.add("model.weights.h5", weights.bytes());
  zip.finish();
}

/// The configuration in the form of older versions, whose entries have no module. Keras 3 wants it
/// inside Bidirectional nevertheless.
Json legacy_config(const std::vector<Entry>& entries, const Json& shape) {
  Json layers = Json::array();
  layers.push_back(
      {{"class_name", "InputLayer"}, {"config", input_config(shape, "batch_input_shape")}});
  for (const Entry& one : entries) {
    layers.push_back({{"class_name", one.type}, {"config", one.config}});
  }
  return {{"class_name", "Sequential"},
          {"config", {{"name", kModelName}, {"layers", std::move(layers)}}}};
}

void write_hdf5(const std::vector<Entry>& entries, const Json& shape,
                const std::filesystem::path& path) {
  Hdf5Writer file;
  file.add_group("model_weights");
  file.set_text("", "keras_version", kVersion);
  file.set_text("", "backend", "tensorflow");
  file.set_text("", "model_config", text_of(legacy_config(entries, shape)));
  file.set_text("model_weights", "keras_version", kVersion);
  file.set_text("model_weights", "backend", "tensorflow");
  std::vector<std::string> layer_names;
  for (const Entry& one : entries) {
    layer_names.push_back(one.name);
    const std::string group_path = "model_weights/" + one.name;
    file.add_group(group_path);
    std::vector<std::string> weight_names;
    for (const WeightGroup& group : one.groups) {
      const std::string scope = one.name + "/" + (group.scope.empty() ? "" : group.scope + "/");
      for (const auto& [name, tensor] : group.weights) {
        weight_names.push_back(scope + name + ":0");
        file.add_dataset(group_path + "/" + weight_names.back(), tensor);
      }
    }
    file.set_texts(group_path, "weight_names", weight_names);
  }
  file.set_texts("model_weights", "layer_names", layer_names);
  file.write(path);
}

}  // namespace

void write_keras(const SourceModel& model, const std::filesystem::path& path) {
  const Json shape = input_shape(model);
  const std::vector<Entry> entries = keras::entries_of(model);
  if (path.extension() == ".keras") {
    write_container(entries, shape, path);
  } else {
    write_hdf5(entries, shape, path);
  }
}

}  // namespace sluice::interchange
