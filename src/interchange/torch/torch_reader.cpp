#include "interchange/torch/torch_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "interchange/comma_list.h"
#include "interchange/torch/torch_modules.h"

namespace sluice::interchange {
namespace {

constexpr std::string_view kWeight = ".weight";

class Reader {
 public:
  Reader(const NamedArrays& arrays, const ReadOptions& options)
      : arrays_(arrays), options_(options) {}

  SourceModel read() {
    model_.format = arrays_.format() + " with a state dict of PyTorch";
    model_.path = arrays_.path().native();
    choose_modules();
    if (options_.subgraph.empty()) {
      add_embedding();
      add_layers();
      add_pooling();
      add_output();
      add_crf();
      account_for_the_rest();
    } else {
      add_layers();
      model_.account.leave_out("all tensors outside of '" + options_.subgraph + "' (--subgraph)");
    }
    return std::move(model_);
  }

 private:
  const std::string& path() const { return arrays_.path().native(); }

  static std::string names_of(const std::vector<TorchModule>& modules) {
    std::vector<std::string> names;
    for (const TorchModule& module : modules) names.push_back(module.name());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void choose_modules() {
    std::vector<TorchModule> found = torch_modules(arrays_);
    std::erase_if(found, [](const TorchModule& module) { return is_state(module.prefix); });
    if (found.empty()) {
      base::fail(ErrorCode::kUnsupported,
                 "'{}' has no tensors named as those of nn.LSTM, nn.GRU or nn.RNN (weight_ih_l0); "
                 "if it holds plain arrays, say what they are by --map",
                 path());
    }
    const std::string all = names_of(found);
    if (!options_.subgraph.empty()) {
      std::erase_if(found, [&](const TorchModule& module) {
        return module.name() != options_.subgraph &&
               !module.prefix.starts_with(options_.subgraph + ".");
      });
      SLUICE_CHECK(!found.empty(), "'{}' has no recurrent module '{}'; it has: {}", path(),
                   options_.subgraph, all);
    }
    if (const std::optional<std::string> order = options_.find("order")) {
      std::vector<TorchModule> ordered;
      for (const std::string& name : comma_list(*order)) {
        const auto module = std::ranges::find(found, name, &TorchModule::name);
        SLUICE_CHECK(module != found.end(), "'{}' has no recurrent module '{}'; it has: {}", path(),
                     name, all);
        ordered.push_back(*module);
      }
      found = std::move(ordered);
    } else if (found.size() > 1) {
      model_.account.assume(
          fmt::format("the modules run in this order{}: {} (say otherwise by --set order=A,B)",
                      arrays_.is_ordered() ? ", that of the file" : "", all));
    }
    modules_ = std::move(found);
    for (const TorchModule& module : modules_) {
      for (RecurrentLayer& layer : layers_of(module, arrays_, options_, model_.account)) {
        layers_.push_back(std::move(layer));
      }
      for (const auto& [number, layer] : module.layers) {
        for (const auto& [part, name] : layer.forward) recurrent_.insert(name);
        for (const auto& [part, name] : layer.backward) recurrent_.insert(name);
      }
    }
    used_.insert(recurrent_.begin(), recurrent_.end());
    require_chain();
  }

  void require_chain() const {
    for (std::size_t i = 1; i < layers_.size(); ++i) {
      SLUICE_CHECK(layers_[i].input() == layers_[i - 1].output(),
                   "'{}': '{}' reads {} numbers, but '{}' puts out {}; say the order by --set "
                   "order=A,B, or take one by --subgraph",
                   path(), layers_[i].name, layers_[i].input(), layers_[i - 1].name,
                   layers_[i - 1].output());
    }
  }

  /// Whether a tensor stands behind the recurrent modules in the file.
  bool stands_behind(const NamedArrays::Entry& entry) const {
    const auto first = std::ranges::find_if(arrays_.entries(), [&](const NamedArrays::Entry& one) {
      return recurrent_.contains(one.name);
    });
    return std::distance(&*first, &entry) > 0;
  }

  /// Names of matrices with so many columns, with or without a bias beside them, and `behind` or
  /// before the recurrent modules where the file has an order.
  std::vector<std::string> matrices(std::int64_t columns, bool with_bias, bool behind) const {
    std::vector<std::string> names;
    for (const NamedArrays::Entry& entry : arrays_.entries()) {
      if (used_.contains(entry.name) || is_state(entry.name) || is_ignored(entry.name)) continue;
      if (arrays_.is_ordered() && stands_behind(entry) != behind) continue;
      const bool is_matrix = entry.sizes.size() == 2 && entry.sizes[1] == columns &&
                             (entry.name.ends_with(kWeight) || entry.name == "weight");
      if (is_matrix && (arrays_.find(bias_of(entry.name)) != nullptr) == with_bias) {
        names.push_back(entry.name);
      }
    }
    return names;
  }

  static std::string bias_of(const std::string& weight) {
    return weight.substr(0, weight.size() - std::string_view("weight").size()) + "bias";
  }
  static std::string module_of(const std::string& weight) {
    return weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight;
  }

  /// The matrix that the caller names, or the only one that there is; empty: none.
  std::string choose(const char* key, const std::vector<std::string>& fitting,
                     std::string_view reason) {
    if (const std::optional<std::string> asked = options_.find(key)) {
      if (*asked == "none") return {};
      for (const std::string& name : {*asked, *asked + std::string(kWeight)}) {
        if (arrays_.find(name) != nullptr) return name;
      }
      SLUICE_CHECK(false, "'{}' has no tensor '{}' (--set {})", path(), *asked, key);
    }
    SLUICE_CHECK(fitting.size() <= 1,
                 "'{}' has several matrices that may be the {}: {}; say which by --set {}=NAME, or "
                 "{}=none",
                 path(), key, fmt::join(fitting, ", "), key, key);
    if (fitting.empty()) return {};
    model_.account.assume(fmt::format("{}: '{}', {} (say otherwise by --set {}=NAME or {}=none)",
                                      key, fitting.front(), reason, key, key));
    return fitting.front();
  }

  void add_embedding() {
    const std::int64_t width = layers_.front().input();
    std::vector<std::string> fitting = matrices(width, false, false);
    if (fitting.size() > 1) {
      std::vector<std::string> named = fitting;
      std::erase_if(named, [](const std::string& name) { return name.find("emb") == name.npos; });
      if (named.size() == 1) fitting = named;
    }
    const std::string name =
        choose("embedding", fitting, "the matrix that is as wide as the first layer's input");
    if (name.empty()) return;
    EmbeddingLayer layer{.name = module_of(name), .table = arrays_.read(name)};
    require_matrix(layer.table, name, width);
    model_.layers.emplace_back(std::move(layer));
    used_.insert(name);
  }

  void add_layers() {
    for (RecurrentLayer& layer : layers_) {
      width_ = layer.output();
      model_.layers.emplace_back(std::move(layer));
    }
  }

  void add_pooling() {
    const std::string kind = options_.find("pooling").value_or("none");
    SLUICE_CHECK(kind == "none" || kind == "last" || kind == "mean" || kind == "max",
                 "pooling is '{}'; use none, last, mean or max", kind);
    if (kind == "last") {
      model_.account.assume(
          "pooling=last is the last state of each direction (h_n of PyTorch); in both directions "
          "that is not out[:, -1], whose backward half has read one step");
    }
    if (kind != "none") model_.layers.emplace_back(PoolingLayer{.name = "pooling", .kind = kind});
    pooled_ = kind != "none";
  }

  void add_output() {
    std::vector<std::string> fitting = matrices(width_, true, true);
    if (fitting.empty()) fitting = matrices(width_, false, true);
    const std::string name =
        choose("output", fitting, "the matrix that is as wide as the last layer's output");
    if (name.empty()) return;
    LinearLayer layer{.name = module_of(name), .weight = arrays_.read(name)};
    require_matrix(layer.weight, name, width_);
    used_.insert(name);
    if (arrays_.find(bias_of(name)) != nullptr && bias_of(name) != name) {
      layer.bias = arrays_.read(bias_of(name));
      used_.insert(bias_of(name));
      if (layer.bias->shape != base::Shape{layer.weight.shape[0]}) {
        base::fail(ErrorCode::kFormat, "'{}': '{}' has the shape {}, which does not fit {}", path(),
                   bias_of(name), layer.bias->shape.to_string(), layer.weight.shape.to_string());
      }
    }
    set_target(layer);
    model_.layers.emplace_back(std::move(layer));
    if (!pooled_) {
      model_.account.assume(
          fmt::format("'{}' reads every step (say otherwise by --set pooling=last, mean or max)",
                      module_of(name)));
    }
  }

  void set_target(LinearLayer& layer) {
    const std::string target = options_.find("target").value_or("");
    SLUICE_CHECK(target.empty() || target == "classes" || target == "values",
                 "target is '{}'; use classes or values", target);
    if (target == "classes") layer.activation = {"softmax"};
    const bool reads_ids = std::holds_alternative<EmbeddingLayer>(model_.layers.front());
    if (!target.empty() || reads_ids) return;
    model_.account.assume(
        fmt::format("'{}' puts out values (say otherwise by --set target=classes)", layer.name));
  }

  /// The scores of pytorch-crf: transitions, start_transitions and end_transitions.
  void add_crf() {
    constexpr std::string_view kTransitions = "start_transitions";
    for (const NamedArrays::Entry& entry : arrays_.entries()) {
      if (!entry.name.ends_with(kTransitions) || is_state(entry.name)) continue;
      const std::string prefix = entry.name.substr(0, entry.name.size() - kTransitions.size());
      const auto take = [&](const char* part, const base::Shape& shape) {
        const std::string name = prefix + part;
        io::HostTensor tensor = arrays_.read(name);
        if (tensor.shape != shape) {
          base::fail(ErrorCode::kFormat, "'{}': '{}' has the shape {} instead of {}", path(), name,
                     tensor.shape.to_string(), shape.to_string());
        }
        used_.insert(name);
        return tensor;
      };
      const std::int64_t labels = entry.sizes.empty() ? 0 : entry.sizes[0];
      model_.layers.emplace_back(CrfLayer{.name = prefix + "transitions",
                                          .transitions = take("transitions", {labels, labels}),
                                          .start = take("start_transitions", {labels}),
                                          .end = take("end_transitions", {labels})});
      model_.account.find(fmt::format("a CRF of {} labels, '{}', by its names", labels, prefix));
      return;
    }
  }

  void require_matrix(const io::HostTensor& tensor, const std::string& name,
                      std::int64_t columns) const {
    if (tensor.shape.rank() == 2 && tensor.shape[1] == columns) return;
    base::fail(ErrorCode::kFormat, "'{}': '{}' has the shape {}; it must have {} columns", path(),
               name, tensor.shape.to_string(), columns);
  }

  /// Optimisers and schedulers keep their own copies.
  static bool is_state(std::string_view name) {
    const std::string_view first = name.substr(0, name.find('.'));
    return first.find("optimizer") != std::string_view::npos || first == "scheduler" ||
           first == "lr_scheduler" || first == "lr_schedulers";
  }
  bool is_ignored(std::string_view name) const {
    const std::vector<std::string> ignored = comma_list(options_.find("ignore").value_or(""));
    return std::ranges::any_of(ignored,
                               [&](const std::string& one) { return name.starts_with(one); });
  }

  void account_for_the_rest() {
    std::vector<std::string> left;
    std::int64_t states = 0;
    for (const NamedArrays::Entry& entry : arrays_.entries()) {
      if (used_.contains(entry.name)) continue;
      if (is_state(entry.name)) {
        ++states;
      } else if (is_ignored(entry.name)) {
        model_.account.leave_out("'" + entry.name +
                                 "', by --set ignore; if the source computes with it, the model "
                                 "computes something else than the source");
      } else {
        left.push_back(entry.name);
      }
    }
    if (states > 0) model_.account.leave_out(fmt::format("{} tensors of an optimiser", states));
    if (left.empty()) return;
    constexpr std::size_t kMostNames = 20;
    const std::size_t count = left.size();
    if (count > kMostNames) {
      left.resize(kMostNames);
      left.push_back(fmt::format("and {} more", count - kMostNames));
    }
    base::fail(ErrorCode::kUnsupported,
               "'{}' has tensors whose place is not known: {}; take the recurrent part alone by "
               "--subgraph {}, or leave them out by --set ignore=NAME,NAME: the model "
               "then computes something else than the source",
               path(), fmt::join(left, ", "), modules_.front().name());
  }

  const NamedArrays& arrays_;
  const ReadOptions& options_;
  SourceModel model_;
  std::vector<TorchModule> modules_;
  std::vector<RecurrentLayer> layers_;
  std::set<std::string, std::less<>> used_, recurrent_;
  std::int64_t width_ = 0;
  bool pooled_ = false;
};

}  // namespace

SourceModel read_torch(const NamedArrays& arrays, const ReadOptions& options) {
  return Reader(arrays, options).read();
}

}  // namespace sluice::interchange
