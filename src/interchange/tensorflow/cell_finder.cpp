#include "interchange/tensorflow/cell_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "interchange/comma_list.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

using Sizes = std::vector<std::int64_t>;

// Names of variables in TensorFlow 1.2 and later, before it, and in 0.x.
constexpr std::array kKernelNames = {"kernel", "weights", "Matrix", "Linear/Matrix", "W_0"};
constexpr std::array kBiasNames = {"bias", "biases", "Bias", "Linear/Bias", "B"};

// The scopes that TensorFlow gives cells, in lower case and without underscores and numbers.
constexpr std::array kLstmScopes = {"basiclstmcell",          "lstmcell",      "lstmblockcell",
                                    "lstmblockfusedcell",     "lstmfusedcell", "lstmblockwrapper",
                                    "cudnncompatiblelstmcell"};
constexpr std::array kRnnScopes = {"basicrnncell"};
constexpr std::array kUnsupportedScopes = {"layernormbasiclstmcell",
                                           "convlstmcell",
                                           "conv1dlstmcell",
                                           "conv2dlstmcell",
                                           "conv3dlstmcell",
                                           "coupledinputforgetgatelstmcell",
                                           "gridlstmcell",
                                           "bidirectionalgridlstmcell",
                                           "timefreqlstmcell",
                                           "phasedlstmcell",
                                           "glstmcell",
                                           "ugrnncell",
                                           "intersectionrnncell",
                                           "nascell",
                                           "indrnncell",
                                           "indygrucell",
                                           "indylstmcell",
                                           "ntmcell",
                                           "srucell",
                                           "minimalrnncell",
                                           "cfncell",
                                           "weightnormlstmcell",
                                           "attentioncellwrapper"};

template <typename Names>
bool is_one_of(const std::string& name, const Names& names) {
  return std::ranges::find(names, name) != names.end();
}

/// "lstmcell" of "a/b/lstm_cell_1".
std::string kind_name(std::string_view scope) {
  std::string name = lower(numbered(last_of(scope)).stem);
  std::erase(name, '_');
  return name;
}

std::optional<std::string> find_name(const Variables& variables, const std::string& scope,
                                     const auto& names) {
  for (const char* name : names) {
    std::string full = scope + "/" + name;
    if (variables.has(full)) return full;
  }
  return {};
}

/// Collects the cells of one file.
class Finder {
 public:
  Finder(Variables& variables, const ReadOptions& options, const GraphFacts& facts,
         Account& account)
      : variables_(variables), options_(options), facts_(facts), account_(account) {
    for (const std::string& scope : comma_list(options.find("lstm").value_or(""))) {
      if (!scope.empty()) lstm_scopes_.insert(scope);
    }
    for (const std::string& scope : comma_list(options.find("rnn").value_or(""))) {
      if (!scope.empty()) rnn_scopes_.insert(scope);
    }
  }

  std::vector<FoundCell> find() {
    for (const std::string& scope : scopes()) find_in(scope);
    for (const auto* scopes : {&lstm_scopes_, &rnn_scopes_}) {
      for (const std::string& scope : *scopes) {
        SLUICE_CHECK(seen_.contains(scope), "{}: there is no kernel in the scope '{}'",
                     variables_.file(), scope);
      }
    }
    if (asks_forget_bias_ != "") refuse_without_forget_bias();
    return std::move(cells_);
  }

 private:
  /// The scopes of variables, each once and in order, and those above `gates` and the like.
  std::set<std::string> scopes() const {
    std::set<std::string> result;
    for (const auto& [name, variable] : variables_.all()) {
      std::string scope = scope_of(name);
      if (scope.ends_with("/Linear")) scope = scope_of(scope);
      result.insert(scope);
      if (kind_name(scope) == "gates") result.insert(scope_of(scope));
    }
    return result;
  }

  void find_in(const std::string& scope) {
    const std::string kind = kind_name(scope);
    if (is_one_of(kind, kUnsupportedScopes)) {
      base::fail(ErrorCode::kUnsupported,
                 "{}: '{}' is a cell that Sluice does not have. It reads LSTM, GRU and plain RNN "
                 "cells; --subgraph SCOPE takes another recurrent part alone",
                 variables_.file(), scope);
    }
    if (std::string gates = scope + "/gates"; find_name(variables_, gates, kKernelNames)) {
      return add_gru(scope, gates, scope + "/candidate");
    }
    if (std::string gates = scope + "/Gates"; find_name(variables_, gates, kKernelNames)) {
      return add_gru(scope, gates, scope + "/Candidate");
    }
    if (variables_.has(scope + "/w_ru")) return add_block_gru(scope);
    const auto kernel = find_name(variables_, scope, kKernelNames);
    if (!kernel) return;
    seen_.insert(scope);
    if (is_one_of(kind, kLstmScopes) || facts_.lstm.contains(*kernel) ||
        lstm_scopes_.contains(scope) || variables_.has(scope + "/w_f_diag") ||
        variables_.has(scope + "/W_F_diag")) {
      add_lstm(scope, *kernel, kind == "cudnncompatiblelstmcell");
    } else if (is_one_of(kind, kRnnScopes) || rnn_scopes_.contains(scope)) {
      add_rnn(scope, *kernel);
    } else {
      refuse_maybe(scope, kind, *kernel);
    }
  }

  /// A scope with a user's name that looks like that of a cell.
  void refuse_maybe(const std::string& scope, const std::string& kind, const std::string& kernel) {
    const bool is_lstm = kind.find("lstm") != std::string::npos;
    if (!is_lstm && kind.find("rnncell") == std::string::npos) return;
    base::fail(ErrorCode::kInvalidArgument,
               "{}: '{}' may be the kernel of a recurrent cell, but its scope is not one that "
               "TensorFlow names a cell. If it is an {}, say --set {}={}",
               variables_.file(), kernel, is_lstm ? "LSTM" : "RNN", is_lstm ? "lstm" : "rnn",
               scope);
  }

  /// The sizes of a matrix.
  std::pair<std::int64_t, std::int64_t> matrix(const std::string& name) const {
    const Sizes& sizes = variables_.sizes(name);
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1) {
      base::fail(ErrorCode::kFormat, "{}: '{}' has the rank {} instead of 2", variables_.file(),
                 name, sizes.size());
    }
    return {sizes[0], sizes[1]};
  }

  /// Sets the sizes of a cell whose kernel reads input and state and makes `gates` blocks.
  SourceCell sized(CellKind kind, const std::string& kernel, std::int64_t gates,
                   std::optional<std::int64_t> output = {}) const {
    SourceCell cell;
    cell.convention = Convention::kTensorflow;
    cell.kind = kind;
    const auto [rows, columns] = matrix(kernel);
    cell.hidden = columns / gates;
    cell.output = output.value_or(cell.hidden);
    cell.input = rows - cell.output;
    if (columns % gates != 0 || cell.input < 1) {
      base::fail(ErrorCode::kFormat,
                 "{}: '{}' has the shape [{}, {}], which is no kernel [input + {}, {}] of {}",
                 variables_.file(), kernel, rows, columns, output ? "projection" : "hidden",
                 gates == 1 ? "hidden" : fmt::format("{} * hidden", gates), name_of(kind));
    }
    return cell;
  }
  void take(SourceCell& cell, const char* tensor, const std::string& name, const Sizes& wanted) {
    const Sizes& sizes = variables_.sizes(name);
    if (sizes != wanted) {
      base::fail(ErrorCode::kFormat, "{}: '{}' has the shape [{}] instead of [{}]",
                 variables_.file(), name, fmt::join(sizes, ", "), fmt::join(wanted, ", "));
    }
    cell.tensors[tensor] = variables_.take(name);
  }
  void take_bias(SourceCell& cell, const char* tensor, const std::string& scope,
                 std::int64_t size) {
    const auto name = find_name(variables_, scope, kBiasNames);
    if (!name) {
      base::fail(ErrorCode::kFormat, "{}: there is no bias beside the kernel of '{}'",
                 variables_.file(), scope);
    }
    take(cell, tensor, *name, {size});
  }
  void add(const std::string& scope, SourceCell cell, const std::string& how) {
    account_.find(
        fmt::format("'{}': {}; input {}, hidden {}{}", scope, how, cell.input, cell.hidden,
                    cell.output == cell.hidden ? std::string()
                                               : fmt::format(", projected to {}", cell.output)));
    cells_.push_back({.scope = scope, .cell = std::move(cell)});
  }
  /// to_canonical() refuses activations that Sluice lacks.
  void set_activation(SourceCell& cell, const std::string& kernel) {
    const auto known = facts_.activation.find(kernel);
    if (known != facts_.activation.end()) cell.candidate = {known->second};
  }

  void add_lstm(const std::string& scope, const std::string& kernel, bool is_cudnn) {
    const auto projection = find_name(variables_, scope + "/projection", kKernelNames);
    std::optional<std::int64_t> output;
    if (projection) output = matrix(*projection).second;
    SourceCell cell = sized(CellKind::kLstm, kernel, 4, output);
    const std::int64_t h = cell.hidden, rows = cell.input + cell.output;
    take(cell, "kernel", kernel, {rows, 4 * h});
    take_bias(cell, "bias", scope, 4 * h);
    if (projection) take(cell, "projection", *projection, {h, cell.output});
    for (const char gate : {'i', 'f', 'o'}) {
      const std::string tensor = fmt::format("w_{}_diag", gate);
      std::string name = scope + "/" + tensor;
      if (!variables_.has(name)) name = fmt::format("{}/W_{}_diag", scope, std::toupper(gate));
      if (variables_.has(name)) take(cell, tensor.c_str(), name, {h});
    }
    const bool peeps = cell.find("w_f_diag") != nullptr;
    set_forget_bias(cell, scope, kernel, is_cudnn);
    set_activation(cell, kernel);
    if (facts_.lstm_v2.contains(kernel)) cell.gates = "ifgo";
    if (facts_.clips.contains(kernel)) {
      base::fail(ErrorCode::kUnsupported,
                 "{}: the cell of '{}' clips its state (cell_clip), which Sluice does not do",
                 variables_.file(), kernel);
    }
    const std::string cell_gates = cell.gates;
    const bool is_backward = facts_.backward.contains(kernel);
    add(scope, std::move(cell),
        fmt::format(
            "an LSTM{} in TensorFlow 1's layout, gates {}", peeps ? " with peepholes" : "",
            cell_gates.empty() ? "i c f o" : "i f c o, as the operation BlockLSTMV2 has them"));
    if (!is_backward) return;
    cells_.back().is_backward = true;
    account_.find(fmt::format("'{}': runs backward, for the graph reverses its input", scope));
  }

  void set_forget_bias(SourceCell& cell, const std::string& scope, const std::string& kernel,
                       bool is_cudnn) {
    if (is_cudnn) {
      account_.find(fmt::format("'{}': forget_bias 0, by the name of the cell", scope));
      return;
    }
    const auto known = facts_.forget_bias.find(kernel);
    if (known != facts_.forget_bias.end()) {
      cell.forget_bias = known->second;
      account_.find(fmt::format("'{}': forget_bias {}, in the graph", scope, known->second));
    } else if (const std::optional<double> bias = options_.find_number("forget_bias")) {
      cell.forget_bias = *bias;
      account_.assume(fmt::format("'{}': forget_bias {}, as --set forget_bias says", scope, *bias));
    } else if (asks_forget_bias_.empty()) {
      asks_forget_bias_ = scope;
    }
  }
  [[noreturn]] void refuse_without_forget_bias() const {
    base::fail(
        ErrorCode::kInvalidArgument,
        "{}: TensorFlow adds forget_bias to the forget gate of '{}' at run time and does "
        "not store it. Say --set forget_bias=1 (TensorFlow's default for LSTM cells is 1.0), "
        "or the number in the program that made the model; with another number the LSTM "
        "would forget faster or slower than it was trained to",
        variables_.file(), asks_forget_bias_);
  }

  void add_rnn(const std::string& scope, const std::string& kernel) {
    SourceCell cell = sized(CellKind::kRnn, kernel, 1);
    take(cell, "kernel", kernel, {cell.input + cell.hidden, cell.hidden});
    take_bias(cell, "bias", scope, cell.hidden);
    const auto known = facts_.activation.find(kernel);
    const std::optional<std::string> answer = options_.find("activation");
    if (known != facts_.activation.end()) {
      cell.candidate = {known->second};
      account_.find(fmt::format("'{}': the activation {}, in the graph", scope, known->second));
    } else {
      cell.candidate = {answer.value_or("tanh")};
      SLUICE_CHECK(cell.candidate.is("tanh") || cell.candidate.is("relu"),
                   "--set activation={}: a plain RNN has tanh or relu", *answer);
      account_.assume(
          fmt::format("'{}': the activation {}, which a checkpoint does not hold; say "
                      "--set activation=tanh or relu",
                      scope, cell.candidate.name));
    }
    add(scope, std::move(cell), "a plain RNN");
  }

  void add_gru(const std::string& scope, const std::string& gates, const std::string& candidate) {
    const std::string input = candidate + "/input_projection";
    const std::string hidden = candidate + "/hidden_projection";
    const std::string gate_kernel = *find_name(variables_, gates, kKernelNames);
    SourceCell cell = sized(CellKind::kGru, gate_kernel, 2);
    const std::int64_t h = cell.hidden, i = cell.input;
    take(cell, "gate_kernel", gate_kernel, {i + h, 2 * h});
    take_bias(cell, "gate_bias", gates, 2 * h);
    if (variables_.has(input + "/kernel")) {
      cell.convention = Convention::kTensorflowCudnnGru;
      take(cell, "input_kernel", input + "/kernel", {i, h});
      take(cell, "hidden_kernel", hidden + "/kernel", {h, h});
      take_bias(cell, "input_bias", input, h);
      take_bias(cell, "hidden_bias", hidden, h);
      return add(scope, std::move(cell), "a GRU that resets after the product, gates r u");
    }
    const auto kernel = find_name(variables_, candidate, kKernelNames);
    if (!kernel) {
      base::fail(ErrorCode::kFormat, "{}: '{}' is a GRU's, but there is no kernel in '{}'",
                 variables_.file(), gate_kernel, candidate);
    }
    cell.reset_after = false;
    take(cell, "candidate_kernel", *kernel, {i + h, h});
    set_activation(cell, *kernel);
    take_bias(cell, "candidate_bias", candidate, h);
    add(scope, std::move(cell), "a GRU that resets before the product, gates r u");
  }

  void add_block_gru(const std::string& scope) {
    SourceCell cell = sized(CellKind::kGru, scope + "/w_ru", 2);
    cell.reset_after = false;
    const std::int64_t h = cell.hidden, i = cell.input;
    take(cell, "gate_kernel", scope + "/w_ru", {i + h, 2 * h});
    take(cell, "gate_bias", scope + "/b_ru", {2 * h});
    take(cell, "candidate_kernel", scope + "/w_c", {i + h, h});
    take(cell, "candidate_bias", scope + "/b_c", {h});
    add(scope, std::move(cell), "a GRU that resets before the product, gates r u");
  }

  Variables& variables_;
  const ReadOptions& options_;
  const GraphFacts& facts_;
  Account& account_;
  std::set<std::string, std::less<>> lstm_scopes_, rnn_scopes_, seen_;
  std::vector<FoundCell> cells_;
  std::string asks_forget_bias_;  ///< the first cell whose forget_bias is not known
};

}  // namespace

std::vector<FoundCell> find_cells(Variables& variables, const ReadOptions& options,
                                  const GraphFacts& facts, Account& account) {
  return Finder(variables, options, facts, account).find();
}

}  // namespace sluice::interchange::tensorflow
