#include "interchange/arrays/array_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/suggest.h"
#include "interchange/cudnn/cudnn_buffer.h"
#include "io/file.h"

namespace sluice::interchange {
namespace {

using base::Shape;
using io::HostTensor;

constexpr std::uint64_t kLargestMap = 1 << 20;

constexpr std::array<std::string_view, 6> kTensors{"weight_ih", "weight_hh",       "bias_ih",
                                                   "bias_hh",   "weight_peephole", "weight_hr"};

/// One below the other; all have the same other axes.
HostTensor joined(const std::vector<HostTensor>& parts) {
  std::vector<std::int64_t> sizes(parts.front().shape.begin(), parts.front().shape.end());
  sizes[0] = 0;
  for (const HostTensor& part : parts) sizes[0] += part.shape[0];
  HostTensor result = HostTensor::make(parts.front().dtype, Shape(std::span(sizes)));
  auto to = result.data.begin();
  for (const HostTensor& part : parts) to = std::ranges::copy(part.data, to).out;
  return result;
}

class Reader {
 public:
  Reader(const NamedArrays& arrays, const ReadOptions& options)
      : arrays_(arrays), options_(options), path_(options.map) {
    SLUICE_CHECK(options.subgraph.empty(),
                 "--map says which arrays make the model, so --subgraph has no use");
  }

  SourceModel read() {
    const toml::table root = parse();
    model_.format = arrays_.format() + ", read by '" + path_ + "'";
    model_.path = arrays_.path().native();
    const toml::table* decoder = table_of(root, "decoder");
    if (decoder == nullptr) {
      refuse_other_keys(
          root, "",
          std::array<std::string_view, 5>{"embedding", "layer", "pooling", "output", "decoder"});
    } else {
      refuse_other_keys(root, "a map with a decoder",
                        std::array<std::string_view, 3>{"embedding", "layer", "decoder"});
      refuse_other_keys(*decoder, "[decoder]",
                        std::array<std::string_view, 3>{"embedding", "layer", "output"});
      read_chain(*decoder, "decoder.");
      model_.decoder = std::exchange(model_.layers, {});
    }
    read_chain(root, "");
    account_for_the_rest();
    return std::move(model_);
  }

 private:
  /// Names and messages begin with `prefix`.
  void read_chain(const toml::table& root, std::string_view prefix) {
    prefix_ = prefix;
    layers_ = 0;
    if (const toml::table* table = table_of(root, "embedding")) read_embedding(*table);
    const toml::array* layers = root["layer"].as_array();
    SLUICE_CHECK(layers != nullptr && !layers->empty(), "'{}' has no [[{}layer]]", path_, prefix_);
    for (const toml::node& layer : *layers) {
      SLUICE_CHECK(layer.is_table(), "'{}': a layer is a table, [[{}layer]]", path_, prefix_);
      const toml::table& table = *layer.as_table();
      table.contains("cudnn_buffer") ? read_buffer(table) : read_layer(table);
    }
    if (const toml::table* table = table_of(root, "pooling")) read_pooling(*table);
    if (const toml::table* table = table_of(root, "output")) read_output(*table);
  }

  toml::table parse() const {
    try {
      return toml::parse(io::read_file(path_, kLargestMap), path_);
    } catch (const toml::parse_error& error) {
      base::fail(ErrorCode::kInvalidArgument, "'{}' line {}: {}", path_, error.source().begin.line,
                 error.description());
    }
  }

  [[noreturn]] void refuse(const toml::node& at, const std::string& why) const {
    base::fail(ErrorCode::kInvalidArgument, "'{}' line {}: {}", path_, at.source().begin.line, why);
  }

  /// Null if there is none; refuses what is no table.
  const toml::table* table_of(const toml::table& parent, std::string_view key) const {
    const toml::node* node = parent.get(key);
    if (node != nullptr && !node->is_table()) {
      refuse(*node, fmt::format("'{}' is a table of its own, and only one", key));
    }
    return node == nullptr ? nullptr : node->as_table();
  }

  void require_key(const toml::table& table, std::string_view key) const {
    if (!table.contains(key)) refuse(table, fmt::format("'{}' is missing here", key));
  }

  template <typename Keys>
  void refuse_other_keys(const toml::table& table, std::string_view what, const Keys& keys) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(keys, key.str()) != std::ranges::end(keys)) continue;
      refuse(node, fmt::format("there is no key '{}' {}; use one of {}{}", key.str(),
                               what.empty() ? "here" : fmt::format("in {}", what),
                               fmt::join(keys, ", "), base::did_you_mean(key.str(), keys)));
    }
  }

  template <typename T>
  T value(const toml::table& table, std::string_view key, T otherwise) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return otherwise;
    const auto found = node->value<T>();
    if (!found) refuse(*node, fmt::format("'{}' has a value of another type", key));
    return *found;
  }

  const NamedArrays::Entry& entry(const toml::node& node) {
    const std::optional<std::string> name = node.value<std::string>();
    if (!name) refuse(node, "the name of an array is a text");
    const NamedArrays::Entry* found = arrays_.find(*name);
    if (found == nullptr) refuse_array(node, *name);
    used_.insert(*name);
    return *found;
  }
  [[noreturn]] void refuse_array(const toml::node& node, const std::string& name) const {
    constexpr std::size_t kMostNames = 20;
    std::vector<std::string_view> names;
    for (const NamedArrays::Entry& entry : arrays_.entries()) names.push_back(entry.name);
    std::string rest;
    const std::string suggestion = base::did_you_mean(name, names);
    if (names.size() > kMostNames) {
      const std::size_t more = names.size() - kMostNames;
      names.resize(kMostNames);
      rest = fmt::format(", and {} more", more);
    }
    refuse(node, fmt::format("'{}' has no array '{}'; it has: {}{}{}", model_.path, name,
                             fmt::join(names, ", "), rest, suggestion));
  }
  HostTensor array(const toml::node& node) { return arrays_.read(entry(node).name); }

  /// The array of a key, joined and turned as the map says; absent if the key is.
  std::optional<HostTensor> tensor(const toml::table& table, std::string_view key,
                                   bool is_transposed, std::size_t rank) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return std::nullopt;
    std::vector<HostTensor> parts;
    const auto take = [&](const toml::node& one) {
      HostTensor part = array(one);
      if (part.shape.rank() != rank) {
        refuse(one, fmt::format("'{}' has the shape {}; it must have {} {}", key,
                                part.shape.to_string(), rank, rank == 1 ? "axis" : "axes"));
      }
      if (is_transposed && rank == 2) part = transposed(part);
      if (rank == 2 && !parts.empty() && part.shape[1] != parts.front().shape[1]) {
        refuse(one, fmt::format("'{}' joins arrays of different widths", key));
      }
      parts.push_back(std::move(part));
    };
    if (const toml::array* list = node->as_array()) {
      if (list->empty()) refuse(*node, fmt::format("'{}' is an empty list", key));
      for (const toml::node& one : *list) take(one);
    } else {
      take(*node);
    }
    return parts.size() == 1 ? std::move(parts.front()) : joined(parts);
  }
  HostTensor required(const toml::table& table, std::string_view key, bool is_transposed,
                      std::size_t rank) {
    std::optional<HostTensor> found = tensor(table, key, is_transposed, rank);
    if (!found) refuse(table, fmt::format("'{}' is missing here", key));
    return *std::move(found);
  }

  void read_embedding(const toml::table& table) {
    refuse_other_keys(table, "[embedding]",
                      std::array<std::string_view, 3>{"table", "padding", "transposed"});
    EmbeddingLayer layer{.name = prefix_ + "embedding",
                         .table = required(table, "table", value(table, "transposed", false), 2)};
    if (table.contains("padding") && !prefix_.empty()) {
      refuse(*table.get("padding"), "a decoder has no padding that a file could name");
    }
    if (table.contains("padding")) layer.padding = value<std::int64_t>(table, "padding", 0);
    model_.layers.emplace_back(std::move(layer));
  }

  void read_layer(const toml::table& table) {
    std::vector<std::string_view> keys{"cell",        "gates",        "transposed",
                                       "forget_bias", "hard_sigmoid", "keeps_by_complement",
                                       "backward"};
    keys.insert(keys.end(), kTensors.begin(), kTensors.end());
    refuse_other_keys(table, "[[layer]]", keys);
    RecurrentLayer layer{.name = fmt::format("{}layer {}", prefix_, ++layers_)};
    layer.forward = read_direction(table, table);
    if (const toml::table* backward = table_of(table, "backward")) {
      refuse_other_keys(*backward, "[layer.backward]", kTensors);
      layer.backward = read_direction(table, *backward);
    }
    const SourceCell& cell = *layer.forward;
    model_.account.find(fmt::format("{}: {} with {} units, gates {}, by the map", layer.name,
                                    name_of(cell.kind), cell.hidden, cell.gates));
    model_.layers.emplace_back(std::move(layer));
  }

  /// The layers of one packed buffer.
  void read_buffer(const toml::table& table) {
    refuse_other_keys(
        table, "a [[layer]] with cudnn_buffer",
        std::array<std::string_view, 8>{"cudnn_buffer", "cell", "layers", "directions", "input",
                                        "hidden", "projection", "biases"});
    const NamedArrays::Entry& buffer = entry(*table.get("cudnn_buffer"));
    CudnnStack stack{.biases = biases_of(table)};
    const std::string cell = value<std::string>(table, "cell", "");
    if (!is_cell(cell)) refuse_cell(table, cell);
    stack.cell = kernels::recurrent::parse_cell(cell);
    stack.layers = value<std::int64_t>(table, "layers", 1);
    stack.directions = value<std::int64_t>(table, "directions", 1);
    for (const char* key : {"input", "hidden"}) require_key(table, key);
    stack.input = value<std::int64_t>(table, "input", 0);
    stack.hidden = value<std::int64_t>(table, "hidden", 0);
    stack.projection = value<std::int64_t>(table, "projection", 0);
    const StoredBuffer stored{
        "'" + buffer.name + "'", buffer.sizes, [&] { return arrays_.read(buffer.name); },
        fmt::format("cell, layers, directions, input, hidden, projection and biases in '{}'",
                    path_)};
    std::vector<SourceCell> cells = cells_of_cudnn_buffer(stack, stored, options_, model_.account);
    for (std::size_t at = 0; at < cells.size(); ++at) {
      RecurrentLayer layer{.name = fmt::format("{}layer {}", prefix_, ++layers_)};
      layer.forward = std::move(cells[at]);
      if (stack.directions == 2) layer.backward = std::move(cells[++at]);
      model_.layers.emplace_back(std::move(layer));
    }
  }

  kernels::recurrent::CudnnBiases biases_of(const toml::table& table) const {
    using kernels::recurrent::CudnnBiases;
    const std::string name = value<std::string>(table, "biases", "both");
    if (name == "both") return CudnnBiases::kBoth;
    if (name == "none") return CudnnBiases::kNone;
    if (name == "input") return CudnnBiases::kInput;
    if (name == "recurrent") return CudnnBiases::kRecurrent;
    refuse(table, fmt::format("biases is '{}'; use both, none, input or recurrent", name));
  }

  SourceCell read_direction(const toml::table& options, const toml::table& names) {
    SourceCell cell;
    cell.convention = Convention::kArrays;
    set_cell(cell, options);
    const bool is_transposed = value(options, "transposed", false);
    for (const std::string_view part : kTensors) {
      const bool is_matrix = part.starts_with("weight_") && part != "weight_peephole";
      std::optional<HostTensor> found = tensor(names, part, is_transposed, is_matrix ? 2 : 1);
      if (found) cell.tensors[std::string(part)] = *std::move(found);
    }
    for (const char* part : {"weight_ih", "weight_hh"}) {
      if (cell.find(part) == nullptr) refuse(names, fmt::format("'{}' is missing here", part));
    }
    cell.input = cell.get("weight_ih").shape[1];
    cell.output = cell.get("weight_hh").shape[1];
    const HostTensor* projection = cell.find("weight_hr");
    cell.hidden = projection == nullptr ? cell.output : projection->shape[1];
    const auto peepholes = cell.tensors.find("weight_peephole");
    if (peepholes != cell.tensors.end()) {
      HostTensor* peephole = &peepholes->second;
      if (peephole->shape != Shape{3 * cell.hidden}) {
        refuse(names, fmt::format("weight_peephole has the shape {} for {} units",
                                  peephole->shape.to_string(), cell.hidden));
      }
      peephole->shape = Shape{3, cell.hidden};
    }
    return cell;
  }

  static bool is_cell(std::string_view name) {
    return std::ranges::find(kernels::recurrent::kCellTypes, name, [](auto type) {
             return kernels::recurrent::name_of(type);
           }) != kernels::recurrent::kCellTypes.end();
  }
  [[noreturn]] void refuse_cell(const toml::table& table, std::string_view name) const {
    refuse(table, fmt::format("cell is '{}'; use lstm, gru, gru_reset_before, rnn_tanh or rnn_relu",
                              name));
  }

  [[noreturn]] void refuse_gates(const toml::table& table, const SourceCell& cell) const {
    const std::string_view letters =
        cell.kind == CellKind::kLstm
            ? "i (input), f (forget), g (candidate, Keras's c) and o (output)"
        : cell.kind == CellKind::kGru ? "r (reset), z (update) and n (candidate)"
                                      : "n";
    const toml::node* gates = table.get("gates");
    refuse(
        gates == nullptr ? static_cast<const toml::node&>(table) : *gates,
        fmt::format("{}; give the letters {} in the order in which the arrays have them",
                    gates == nullptr ? "'gates' is missing here" : "gates is '" + cell.gates + "'",
                    letters));
  }

  void set_cell(SourceCell& cell, const toml::table& table) const {
    const std::string name = value<std::string>(table, "cell", "");
    const auto is = [&](std::string_view other) { return name == other; };
    if (is("lstm")) {
      cell.kind = CellKind::kLstm;
    } else if (is("gru") || is("gru_reset_before")) {
      cell.kind = CellKind::kGru;
      cell.reset_after = is("gru");
    } else if (is("rnn_tanh") || is("rnn_relu")) {
      cell.kind = CellKind::kRnn;
      cell.candidate = {is("rnn_tanh") ? "tanh" : "relu"};
    } else {
      refuse_cell(table, name);
    }
    const std::string_view letters = cell.kind == CellKind::kLstm  ? "fgio"
                                     : cell.kind == CellKind::kGru ? "nrz"
                                                                   : "n";
    cell.gates = value<std::string>(table, "gates", cell.kind == CellKind::kRnn ? "n" : "");
    std::string sorted = cell.gates;
    std::ranges::sort(sorted);
    if (sorted != letters) refuse_gates(table, cell);
    cell.forget_bias = value(table, "forget_bias", 0.0);
    cell.keeps_by_complement = value(table, "keeps_by_complement", false);
    const double slope = value(table, "hard_sigmoid", 0.0);
    if (slope != 0) cell.gate = {"hard_sigmoid", slope, 0.5};
  }

  void read_pooling(const toml::table& table) {
    refuse_other_keys(table, "[pooling]", std::array<std::string_view, 1>{"kind"});
    const std::string kind = value<std::string>(table, "kind", "");
    if (kind != "last" && kind != "mean" && kind != "max") {
      refuse(table, fmt::format("kind is '{}'; use last, mean or max", kind));
    }
    model_.layers.emplace_back(PoolingLayer{.name = "pooling", .kind = kind});
  }

  void read_output(const toml::table& table) {
    refuse_other_keys(
        table, "[output]",
        std::array<std::string_view, 4>{"weight", "bias", "activation", "transposed"});
    LinearLayer layer{.name = prefix_ + "output",
                      .weight = required(table, "weight", value(table, "transposed", false), 2),
                      .bias = tensor(table, "bias", false, 1),
                      .activation = {value<std::string>(table, "activation", "linear")}};
    if (layer.bias && layer.bias->shape[0] != layer.weight.shape[0]) {
      refuse(table, fmt::format("the bias has {} numbers for {} outputs", layer.bias->shape[0],
                                layer.weight.shape[0]));
    }
    model_.layers.emplace_back(std::move(layer));
  }

  void account_for_the_rest() {
    for (const NamedArrays::Entry& entry : arrays_.entries()) {
      if (!used_.contains(entry.name)) {
        model_.account.leave_out("'" + entry.name + "', which the map does not name");
      }
    }
  }

  const NamedArrays& arrays_;
  const ReadOptions& options_;
  std::string path_;
  SourceModel model_;
  std::set<std::string, std::less<>> used_;
  std::string prefix_;  ///< of the names of a chain's layers
  int layers_ = 0;
};

}  // namespace

SourceModel read_mapped(const NamedArrays& arrays, const ReadOptions& options) {
  return Reader(arrays, options).read();
}

}  // namespace sluice::interchange
