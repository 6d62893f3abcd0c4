#include "interchange/torch/torch_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/check.h"

namespace sluice::interchange {
namespace {

constexpr std::array<std::string_view, 5> kParts{"weight_ih", "weight_hh", "bias_ih", "bias_hh",
                                                 "weight_hr"};
constexpr std::string_view kReverse = "_reverse";
constexpr std::int64_t kMostLayers = 64;

/// What the name of a tensor says.
struct Place {
  std::string prefix, part;
  std::int64_t layer = -1;  ///< -1: of a cell
  bool is_backward = false;
};

std::optional<Place> place_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  Place place;
  if (dot != std::string_view::npos) place.prefix = name.substr(0, dot + 1);
  std::string_view rest = name.substr(place.prefix.size());
  const auto part =
      std::ranges::find_if(kParts, [&](std::string_view one) { return rest.starts_with(one); });
  if (part == kParts.end()) return std::nullopt;
  place.part = *part;
  rest.remove_prefix(part->size());
  if (rest.empty()) return place;
  if (rest.ends_with(kReverse)) {
    place.is_backward = true;
    rest.remove_suffix(kReverse.size());
  }
  if (!rest.starts_with("_l")) return std::nullopt;
  rest.remove_prefix(2);
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), place.layer);
  const bool is_number = error == std::errc() && stop == rest.data() + rest.size();
  if (!is_number || place.layer < 0 || place.layer >= kMostLayers) return std::nullopt;
  return place;
}

class ModuleReader {
 public:
  ModuleReader(const TorchModule& module, const NamedArrays& arrays, const ReadOptions& options,
               Account& account)
      : module_(module), arrays_(arrays), options_(options), account_(account) {}

  std::vector<RecurrentLayer> read() {
    std::vector<RecurrentLayer> layers;
    std::int64_t expected = module_.is_cell ? -1 : 0;
    for (const auto& [number, stored] : module_.layers) {
      if (number != expected++) {
        fail(fmt::format("has a layer {} but no layer {}", number, number - 1));
      }
      RecurrentLayer layer;
      layer.name = module_.is_cell ? module_.name() : fmt::format("{}.l{}", module_.name(), number);
      layer.forward = read_direction(stored.forward, layer.name);
      if (!stored.backward.empty()) layer.backward = read_direction(stored.backward, layer.name);
      layers.push_back(std::move(layer));
    }
    describe(layers);
    return layers;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    base::fail(ErrorCode::kFormat, "'{}': module '{}' {}", arrays_.path().native(), module_.name(),
               why);
  }

  SourceCell read_direction(const TorchModule::Direction& names, const std::string& layer) {
    for (const std::string_view part : {"weight_ih", "weight_hh"}) {
      if (!names.contains(part)) fail(fmt::format("lacks {} of layer '{}'", part, layer));
    }
    SourceCell cell;
    for (const auto& [part, name] : names) cell.tensors[part] = arrays_.read(name);
    const io::HostTensor &ih = cell.get("weight_ih"), &hh = cell.get("weight_hh");
    if (ih.shape.rank() != 2 || hh.shape.rank() != 2 || ih.shape[0] != hh.shape[0] ||
        hh.shape[1] == 0) {
      fail(fmt::format("has the weights {} and {} in layer '{}', which do not fit together",
                       ih.shape.to_string(), hh.shape.to_string(), layer));
    }
    const io::HostTensor* projection = cell.find("weight_hr");
    cell.input = ih.shape[1];
    cell.output = hh.shape[1];
    cell.hidden = cell.output;
    if (projection != nullptr) {
      if (projection->shape.rank() != 2) fail("has a weight_hr that is no matrix");
      cell.hidden = projection->shape[1];
    }
    set_kind(cell, hh.shape, layer);
    return cell;
  }

  void set_kind(SourceCell& cell, const base::Shape& weights, const std::string& layer) const {
    const std::int64_t gates =
        cell.hidden == 0 || weights[0] % cell.hidden != 0 ? 0 : weights[0] / cell.hidden;
    if (gates == 4) {
      cell.kind = CellKind::kLstm;
    } else if (gates == 3) {
      cell.kind = CellKind::kGru;
    } else if (gates == 1) {
      cell.kind = CellKind::kRnn;
      const std::optional<std::string> asked = options_.find("nonlinearity");
      SLUICE_CHECK(asked,
                   "'{}': module '{}' is a plain RNN, and the file does not say its nonlinearity; "
                   "say it by --set nonlinearity=tanh or --set nonlinearity=relu",
                   arrays_.path().native(), module_.name());
      cell.candidate = {*asked};
    } else {
      fail(
          fmt::format("has {} rows for {} units in layer '{}', which is no LSTM (4 times), GRU (3) "
                      "or RNN (1)",
                      weights[0], cell.hidden, layer));
    }
  }

  void describe(const std::vector<RecurrentLayer>& layers) const {
    const SourceCell& cell = *layers.front().forward;
    const bool is_lstm = cell.kind == CellKind::kLstm, is_gru = cell.kind == CellKind::kGru;
    account_.find(fmt::format(
        "module '{}': {} with {} units, {} layer{}{}{}, told by the shapes; {}{}", module_.name(),
        name_of(cell.kind), cell.hidden, layers.size(), layers.size() == 1 ? "" : "s",
        layers.front().backward ? ", both directions" : "",
        cell.find("weight_hr") != nullptr ? fmt::format(", projected to {}", cell.output) : "",
        is_lstm  ? "gates i f g o"
        : is_gru ? "gates r z n, reset after the product, as PyTorch has them"
                 : "activation " + cell.candidate.name,
        cell.find("bias_ih") == nullptr ? "; no biases" : ""));
  }

  const TorchModule& module_;
  const NamedArrays& arrays_;
  const ReadOptions& options_;
  Account& account_;
};

}  // namespace

std::string TorchModule::name() const {
  return prefix.empty() ? "(no name)" : prefix.substr(0, prefix.size() - 1);
}

std::vector<TorchModule> torch_modules(const NamedArrays& arrays) {
  std::vector<TorchModule> modules;
  for (const NamedArrays::Entry& entry : arrays.entries()) {
    const std::optional<Place> place = place_of(entry.name);
    if (!place) continue;
    auto module = std::ranges::find(modules, place->prefix, &TorchModule::prefix);
    if (module == modules.end()) {
      modules.push_back({.prefix = place->prefix, .layers = {}});
      module = modules.end() - 1;
    }
    module->is_cell = module->is_cell || place->layer < 0;
    TorchModule::Layer& layer = module->layers[place->layer];
    (place->is_backward ? layer.backward : layer.forward)[place->part] = entry.name;
  }
  return modules;
}

std::vector<RecurrentLayer> layers_of(const TorchModule& module, const NamedArrays& arrays,
                                      const ReadOptions& options, Account& account) {
  return ModuleReader(module, arrays, options, account).read();
}

}  // namespace sluice::interchange
