#include "interchange/paddle/paddle_values.h"

#include <fmt/format.h>

namespace sluice::interchange::paddle {

Features input_of(const Linear& linear) {
  Features all;
  for (const Linear::Term& term : linear.terms) {
    all.insert(all.end(), term.input.begin(), term.input.end());
  }
  return all;
}

Pair pair_of(const Nodes& nodes, const Features& features) {
  if (features.size() != 2) return Pair::kNone;
  const auto* first = std::get_if<Node::Recurrence>(&nodes[features[0].node].what);
  const auto* second = std::get_if<Node::Recurrence>(&nodes[features[1].node].what);
  if (first == nullptr || second == nullptr || first->is_reverse == second->is_reverse ||
      first->op->type != second->op->type || input_of(first->input) != input_of(second->input)) {
    return Pair::kNone;
  }
  return first->is_reverse ? Pair::kBackwardFirst : Pair::kForwardFirst;
}

std::string layer_name(const std::string& parameter) {
  return parameter.substr(0, parameter.find(".w_"));
}

std::string quoted(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kMostNamed ? text + ", ..." : text;
}

}  // namespace sluice::interchange::paddle
