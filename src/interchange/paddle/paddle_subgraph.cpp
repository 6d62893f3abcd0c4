#include "interchange/paddle/paddle_subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "interchange/paddle/paddle_chain.h"
#include "interchange/paddle/paddle_op.h"
#include "interchange/paddle/paddle_walk.h"

namespace sluice::interchange::paddle {
namespace {

using io::formats::PaddleArguments;
using io::formats::PaddleBlock;
using io::formats::PaddleOp;

bool is_recurrent(const PaddleOp& op) { return op.type == "gru" || op.type == "lstm"; }

std::string name_of(const PaddleOp& op) {
  return has_input(op, "Weight") ? layer_name(only_input(op, "Weight")) : describe(op);
}

bool has(const PaddleArguments& arguments, std::string_view name) {
  return std::ranges::any_of(arguments, [&](const auto& entry) {
    return std::ranges::find(entry.second, name) != entry.second.end();
  });
}

class Finder {
 public:
  Finder(const PaddleBlock& block, std::string_view name, const Parameters& parameters,
         Account& account)
      : block_(block), name_(name), walk_(block, parameters, account) {}

  const Walk& walk() const { return walk_; }

  /// The layer, then those that directly follow it.
  std::vector<Features> find() {
    for (const PaddleOp& op : block_.ops) {
      try {
        walk_.visit(op);
      } catch (const Error&) {
        if (is_wanted(op)) throw;
        walk_.pass(op);
      }
    }
    std::vector<Features> layers{find_first()};
    while (const std::optional<Features> next = after(layers.back())) layers.push_back(*next);
    return layers;
  }

 private:
  /// By a parameter of its own, an output, or the name of its layer, alone or with the other
  /// direction's.
  bool is_wanted(const PaddleOp& op) const {
    if (!is_recurrent(op)) return false;
    const std::string own = name_of(op);
    return own == name_ || name_.starts_with(own + "+") || has(op.outputs, name_) ||
           (has_input(op, "Weight") && only_input(op, "Weight") == name_) ||
           (has_input(op, "Bias") && only_input(op, "Bias") == name_);
  }

  const Node::Recurrence* recurrence(const Features& features) const {
    if (features.size() != 1 || !features[0].pooling.empty()) return nullptr;
    return std::get_if<Node::Recurrence>(&walk_.nodes()[features[0].node].what);
  }

  Features find_first() const {
    for (std::size_t i = 0; i < walk_.nodes().size(); ++i) {
      const auto* found = std::get_if<Node::Recurrence>(&walk_.nodes()[i].what);
      if (found != nullptr && is_wanted(*found->op)) return with_other_direction({Part{i}});
    }
    // The variable of both directions.
    const Value* value = walk_.find(name_);
    const auto* features = value == nullptr ? nullptr : std::get_if<Features>(value);
    if (features != nullptr) {
      if (recurrence(*features) != nullptr) return with_other_direction(*features);
      if (is_pair(*features)) return in_order(*features);
    }
    base::fail(ErrorCode::kNotFound, "the program has no gru or lstm '{}'; it has: {}", name_,
               quoted(recurrent_layers(block_)));
  }

  bool is_pair(const Features& features) const {
    return pair_of(walk_.nodes(), features) != Pair::kNone && features[0].pooling.empty() &&
           features[1].pooling.empty();
  }
  Features in_order(Features pair) const {
    if (pair_of(walk_.nodes(), pair) == Pair::kBackwardFirst) std::swap(pair[0], pair[1]);
    return pair;
  }

  /// Both directions, if their outputs are put next to each other.
  Features with_other_direction(const Features& one) const {
    for (const Features& joined : walk_.joined()) {
      if (is_pair(joined) && std::ranges::find(joined, one[0]) != joined.end()) {
        return in_order(joined);
      }
    }
    return one;
  }

  /// The recurrent layer that reads nothing but the outputs of `layer`.
  std::optional<Features> after(const Features& layer) const {
    for (std::size_t i = layer.back().node + 1; i < walk_.nodes().size(); ++i) {
      const auto* found = std::get_if<Node::Recurrence>(&walk_.nodes()[i].what);
      if (found == nullptr || in_order(input_of(found->input)) != layer) continue;
      return with_other_direction({Part{i}});
    }
    return std::nullopt;
  }

  const PaddleBlock& block_;
  std::string_view name_;
  Walk walk_;
};

}  // namespace

std::vector<std::string> recurrent_layers(const PaddleBlock& block) {
  std::vector<std::string> names;
  for (const PaddleOp& op : block.ops) {
    if (is_recurrent(op)) names.push_back(name_of(op));
  }
  return names;
}

void read_subgraph(const PaddleBlock& block, std::string_view name, Parameters& parameters,
                   SourceModel& model) {
  Account ignored;  // of operations that are not taken
  Finder finder(block, name, parameters, ignored);
  const std::vector<Features> layers = finder.find();
  Chain chain(finder.walk().nodes(), parameters, model, "");
  for (const Features& features : layers) model.layers.emplace_back(chain.recurrent(features));
  model.account.leave_out("all but the recurrent layers");
}

}  // namespace sluice::interchange::paddle
