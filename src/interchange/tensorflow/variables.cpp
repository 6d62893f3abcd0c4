#include "interchange/tensorflow/variables.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "interchange/comma_list.h"
#include "interchange/tensorflow/graph_facts.h"
#include "interchange/tensorflow/names.h"
#include "io/formats/tensorflow/object_graph.h"

namespace sluice::interchange::tensorflow {
namespace {

using io::formats::TensorflowCheckpoint;

// The names of variables that optimizers and averages keep for another variable.
constexpr std::array kSlots = {
    "adam", "momentum", "rmsprop",         "exponentialmovingaverage", "adagrad", "adadelta",
    "ftrl", "adamax",   "adamweightdecay", "gradientdescent",          "lamb"};

bool is_slot(std::string_view name) {
  const std::string stem = lower(numbered(last_of(name)).stem);
  return std::ranges::find(kSlots, stem) != kSlots.end();
}

/// Reads numbers of any type that Sluice has; others are refused when they are read.
bool has_numbers(const io::formats::ElementType& type) { return !type.is_string; }

std::map<std::string, std::string> full_names_of(const TensorflowCheckpoint& checkpoint) {
  if (checkpoint.find(io::formats::kObjectGraphKey) == nullptr) return {};
  const auto text = checkpoint.read_strings(io::formats::kObjectGraphKey);
  if (text.empty()) return {};
  return io::formats::read_object_graph(text[0], checkpoint.path().string()).full_names();
}

/// Layers of Keras hold other tensors, and their file lacks their activations.
void refuse_keras(const std::string& name, const TensorflowCheckpoint& checkpoint) {
  const std::string last = last_of(name);
  if (last != "recurrent_kernel" && name.find("_lstm_weights") == std::string::npos) return;
  base::fail(ErrorCode::kUnsupported,
             "{}: '{}' belongs to a layer of Keras, whose activations and order of layers are not "
             "in a checkpoint; load it with Keras and save the model as .keras or .h5",
             checkpoint.path().string(), name);
}

}  // namespace

void Variables::add(const std::string& name, Variable variable) {
  if (!variables_.emplace(name, std::move(variable)).second) {
    base::fail(ErrorCode::kFormat, "{}: the variable '{}' is there twice", file_, name);
  }
}

const std::vector<std::int64_t>& Variables::sizes(std::string_view name) const {
  const auto place = variables_.find(name);
  if (place == variables_.end()) {
    base::fail(ErrorCode::kFormat, "{}: there is no variable '{}'", file_, name);
  }
  return place->second.sizes;
}

io::HostTensor Variables::take(std::string_view name) {
  sizes(name);
  used_.emplace(name);
  return to_float32(variables_.find(name)->second.read());
}

std::vector<std::string> Variables::unused() const {
  std::vector<std::string> names;
  for (const auto& [name, variable] : variables_) {
    if (!is_used(name)) names.push_back(name);
  }
  return names;
}

Variables variables_of(const TensorflowCheckpoint& checkpoint, Account& account) {
  Variables variables(checkpoint.path().string());
  const std::map<std::string, std::string> full_names = full_names_of(checkpoint);
  std::map<std::string, int> uses;
  for (const auto& [key, name] : full_names) ++uses[name];
  std::vector<std::string> scalars;
  for (const io::formats::CheckpointTensor& tensor : checkpoint.tensors()) {
    if (!has_numbers(*tensor.type)) continue;
    std::string name = tensor.name;
    if (name.ends_with(io::formats::kVariableValueSuffix)) {
      name.resize(name.size() - io::formats::kVariableValueSuffix.size());
      const auto full = full_names.find(tensor.name);
      if (full != full_names.end() && !full->second.empty() && uses[full->second] == 1) {
        name = full->second;
      }
    }
    refuse_keras(name, checkpoint);
    if (tensor.sizes.empty()) {
      scalars.push_back(name);
      continue;
    }
    variables.add(name, {.sizes = tensor.sizes,
                         .read = [checkpoint, key = tensor.name] { return checkpoint.read(key); }});
  }
  if (!scalars.empty()) account.leave_out("single numbers of training: " + listed(scalars));
  return variables;
}

Variables constants_of(const io::formats::GraphDef& graph, const std::string& file) {
  Variables variables(file);
  const std::set<std::string> names = variable_constants(graph);
  for (const io::formats::GraphNode& node : graph.nodes) {
    if (!names.contains(node.name)) continue;
    const io::formats::GraphAttribute* value = node.find("value");
    const auto* tensor = value == nullptr ? nullptr : std::get_if<io::formats::StoredTensor>(value);
    if (tensor == nullptr || !tensor->type->dtype || tensor->sizes.empty()) continue;
    const base::DType dtype = *tensor->type->dtype;
    if (dtype == base::DType::kInt32 || dtype == base::DType::kInt64) continue;
    // The graph outlives its variables.
    variables.add(node.name, {.sizes = tensor->sizes, .read = [tensor, file] {
                                return io::formats::to_host(*tensor, file);
                              }});
  }
  return variables;
}

void remove_training_state(Variables& variables, Account& account) {
  std::vector<std::string> slots;
  for (const auto& [name, variable] : variables.all()) {
    if (is_slot(name)) slots.push_back(name);
  }
  for (const std::string& name : slots) variables.remove(name);
  if (slots.empty()) return;
  account.leave_out(
      fmt::format("{} variables of optimizers and averages: {}", slots.size(), listed(slots, 3)));
}

void keep_subgraph(Variables& variables, const ReadOptions& options) {
  if (options.subgraph.empty()) return;
  std::vector<std::string> others;
  for (const auto& [name, variable] : variables.all()) {
    if (!lies_in(name, options.subgraph)) others.push_back(name);
  }
  for (const std::string& name : others) variables.remove(name);
  SLUICE_CHECK(!variables.all().empty(),
               "{}: no variable lies in the scope '{}' of --subgraph; the file has {}",
               variables.file(), options.subgraph, listed(others));
}

void require_all_used(const Variables& variables, const ReadOptions& options, Account& account) {
  std::vector<std::string> scopes = comma_list(options.find("ignore").value_or(""));
  std::erase(scopes, "");
  std::vector<std::string> ignored, others, unknown;
  for (const std::string& name : variables.unused()) {
    const bool is_ignored =
        std::ranges::any_of(scopes, [&](const std::string& scope) { return lies_in(name, scope); });
    (is_ignored ? ignored : options.subgraph.empty() ? unknown : others).push_back(name);
  }
  if (!unknown.empty()) {
    base::fail(ErrorCode::kUnsupported,
               "{}: it is not known what these variables are for: {}. Sluice reads an embedding, "
               "recurrent layers and a dense layer: name them with --set embedding=NAME, "
               "--set lstm=SCOPE and --set output=NAME, leave variables out with "
               "--set ignore=NAME,SCOPE (the model then computes something else than the source), "
               "or take the recurrent part alone with --subgraph SCOPE",
               variables.file(), listed(unknown));
  }
  if (!others.empty()) account.leave_out("variables: " + listed(others));
  if (ignored.empty()) return;
  account.leave_out("variables, by --set ignore: " + listed(ignored) +
                    "; if the source computes with them, the model computes something else than "
                    "the source");
}

}  // namespace sluice::interchange::tensorflow
