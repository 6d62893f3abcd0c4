#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/source_model.h"

/// The configuration of a Keras model. It is read as data: nothing in it is run.
namespace sluice::interchange::keras {

using Json = nlohmann::json;

/// A layer's entry in the configuration.
struct Layer {
  std::string type = {};  ///< its class: "LSTM"
  std::string name = {};
  Json config = {};
  /// The group of its weights in files of `model_weights`: its own name, or that of the outermost
  /// nested model.
  std::string group = {};
  bool is_nested = false;  ///< the group holds weights of other layers too
  /// Where its weights stand in model.weights.h5: "layers/lstm_1".
  std::string place = {};
};

/// Reads the text of a configuration. Throws ErrorCode::kFormat for damaged JSON and for more than
/// 100 levels.
Json parse_config(std::string_view text, std::string_view file);

/// The class of a layer or a model; throws ErrorCode::kFormat if there is none.
std::string type_of(const Json& entry, std::string_view file);

/// All layers of a model and of the models nested in it, in the order of the file.
std::vector<Layer> all_layers(const Json& model, std::string_view file);
/// The same in the order in which they run. Throws ErrorCode::kUnsupported, naming layers, unless
/// the model is a single chain.
std::vector<Layer> chain_of(const Json& model, std::string_view file);
/// "embedding (Embedding), lstm_1 (LSTM)", at most 40 of them.
std::string list_of(const std::vector<Layer>& layers);

/// Values of a layer's configuration. Keys are names of one value in several versions of Keras;
/// the first that is there and is not null counts. A value of another type is ErrorCode::kFormat.
using Keys = std::initializer_list<std::string_view>;
const Json* find(const Layer& layer, Keys keys);
std::string text(const Layer& layer, Keys keys);
std::int64_t integer(const Layer& layer, Keys keys);
double number(const Layer& layer, Keys keys);
bool flag(const Layer& layer, Keys keys, bool otherwise);
/// The name of an activation; the empty name if the key is missing.
std::string activation(const Layer& layer, Keys keys);

/// The layer inside a wrapper, such as `layer` of Bidirectional or `cell` of RNN.
Layer inner_layer(const Layer& layer, const Json& entry);

/// Refuses quantized layers and classes of a module other than Keras's by name.
void require_plain(const Layer& layer);

}  // namespace sluice::interchange::keras
