#include "interchange/tensorflow/layer_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "interchange/comma_list.h"
#include "interchange/tensorflow/cell_stacks.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

using Stacks = std::vector<Stack>;

// So many stacks are tried in every order.
constexpr std::size_t kMostTried = 7;

std::vector<std::string> answers(const ReadOptions& options, std::string_view key) {
  std::vector<std::string> list = comma_list(options.find(key).value_or(""));
  std::erase(list, "");
  return list;
}

std::vector<std::string> names_of(const Stacks& stacks) {
  std::vector<std::string> names;
  for (const Stack& stack : stacks) names.push_back(stack.name);
  return names;
}

/// Takes a stack out that a scope names.
Stack take(Stacks& stacks, const std::string& scope, std::string_view key, std::string_view file) {
  const auto place =
      std::ranges::find_if(stacks, [&](const Stack& one) { return lies_in(one.name, scope); });
  SLUICE_CHECK(place != stacks.end(), "{}: --set {}={}: there is no recurrent scope '{}' left; {}",
               file, key, scope, scope, listed(names_of(stacks)));
  Stack stack = std::move(*place);
  stacks.erase(place);
  return stack;
}

/// Makes `backward` the other direction of a stack.
void join(Stack& forward, Stack backward) {
  forward.backward = std::move(backward.backward);
  forward.is_apart = true;
}

/// Takes the stack, or the two directions "FORWARD+BACKWARD", that a part of the answer `order`
/// names.
Stack take_in_order(Stacks& stacks, const std::string& part, std::string_view file) {
  const std::size_t plus = part.find('+');
  Stack stack = take(stacks, part.substr(0, plus), "order", file);
  if (plus == std::string::npos) return stack;
  Stack other = take(stacks, part.substr(plus + 1), "order", file);
  if (other.backward.empty()) other.backward.swap(other.forward);
  SLUICE_CHECK(stack.backward.empty() && other.forward.empty() && stack.input() == other.input() &&
                   stack.forward.size() == other.backward.size(),
               "{}: --set order: '{}' are not two directions of one layer", file, part);
  join(stack, std::move(other));
  return stack;
}

/// Makes stacks that run backward, among them those of the answer `backward`, the backward
/// directions of others.
void pair_backward(Stacks& stacks, const ReadOptions& options, std::string_view file,
                   Account& account) {
  for (const std::string& scope : answers(options, "backward")) {
    Stack stack = take(stacks, scope, "backward", file);
    SLUICE_CHECK(stack.backward.empty(), "{}: --set backward={}: the scope has a direction 'bw'",
                 file, scope);
    stack.backward.swap(stack.forward);
    account.assume(fmt::format("'{}' runs backward, as --set backward says", stack.name));
    stacks.push_back(std::move(stack));
  }
  // A stack that runs backward alone stands beside one that runs forward alone.
  const auto is_backward = [](const Stack& stack) { return stack.forward.empty(); };
  Stacks backward;
  std::ranges::copy_if(stacks, std::back_inserter(backward), is_backward);
  std::erase_if(stacks, is_backward);
  for (Stack& one : backward) {
    const auto fits = [&](const Stack& other) {
      return other.backward.empty() && other.input() == one.input() &&
             other.forward.size() == one.backward.size();
    };
    const auto could_follow = [&](const Stack& other) {
      return other.output() == one.input() || one.output() == other.input();
    };
    const auto count = std::ranges::count_if(stacks, fits);
    if (count == 0 || options.find("order")) {
      stacks.push_back(std::move(one));
      continue;
    }
    const auto other = std::ranges::find_if(stacks, fits);
    SLUICE_CHECK(count == 1 && !could_follow(*other),
                 "{}: '{}' runs backward, and it is not known beside which scope; say --set "
                 "order=FORWARD+BACKWARD for two directions of a layer, or order=SCOPE,SCOPE for "
                 "one layer behind the other",
                 file, one.name);
    account.find(
        fmt::format("'{}' and '{}' are the two directions of a layer, for they read the "
                    "same width and do not fit behind each other",
                    other->name, one.name));
    join(*other, std::move(one));
  }
}

bool fit(const Stacks& stacks) {
  for (std::size_t i = 1; i < stacks.size(); ++i) {
    if (stacks[i].input() != stacks[i - 1].output()) return false;
  }
  return true;
}

/// Sorts stacks by the first part in which their names differ, if it is a name with a number in
/// each of them: "layer_0/rnn", "layer_1/rnn". Returns whether it is.
bool sort_by_number(Stacks& stacks) {
  std::vector<std::vector<std::string>> names;
  for (const Stack& stack : stacks) names.push_back(split(stack.name, '/'));
  std::size_t column = 0;
  const auto agree = [&] {
    return std::ranges::all_of(names, [&](const std::vector<std::string>& parts) {
      return column < parts.size() && column < names[0].size() && parts[column] == names[0][column];
    });
  };
  while (agree()) ++column;
  std::vector<std::pair<int, std::size_t>> numbers;
  std::string stem;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (column >= names[i].size()) return false;
    const NumberedName name = numbered(names[i][column]);
    if (i == 0) stem = name.stem;
    if (name.stem != stem || !name.number) return false;
    if (std::ranges::find(numbers, *name.number, [](const auto& one) { return one.first; }) !=
        numbers.end()) {
      return false;
    }
    numbers.emplace_back(*name.number, i);
  }
  std::ranges::sort(numbers);
  Stacks sorted;
  for (const auto& [number, place] : numbers) sorted.push_back(std::move(stacks[place]));
  stacks = std::move(sorted);
  return true;
}

/// All orders in which each stack reads what the one before it puts out.
std::vector<std::vector<std::size_t>> fitting_orders(const Stacks& stacks) {
  std::vector<std::vector<std::size_t>> result;
  if (stacks.size() > kMostTried) return result;
  std::vector<std::size_t> order(stacks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    bool fits = true;
    for (std::size_t i = 1; i < order.size(); ++i) {
      fits = fits && stacks[order[i]].input() == stacks[order[i - 1]].output();
    }
    if (fits) result.push_back(order);
  } while (std::ranges::next_permutation(order).found);
  return result;
}

void sort_stacks(Stacks& stacks, const ReadOptions& options, std::string_view file,
                 Account& account) {
  const std::vector<std::string> order = answers(options, "order");
  if (!order.empty()) {
    Stacks sorted;
    for (const std::string& part : order) sorted.push_back(take_in_order(stacks, part, file));
    SLUICE_CHECK(stacks.empty(), "{}: --set order does not list {}", file,
                 listed(names_of(stacks)));
    stacks = std::move(sorted);
    account.assume("the order of layers: " + listed(names_of(stacks)) + ", as --set order says");
    return;
  }
  if (stacks.size() == 1) return;
  if (sort_by_number(stacks) && fit(stacks)) {
    account.assume("the order of layers by the numbers of their scopes: " +
                   listed(names_of(stacks)) + "; say --set order=SCOPE,SCOPE for another");
    return;
  }
  const auto orders = fitting_orders(stacks);
  SLUICE_CHECK(orders.size() == 1,
               "{}: the order of the recurrent scopes {} is not known by their widths. "
               "Say --set order=SCOPE,SCOPE from the first to the last; if one runs "
               "backward (TimeReversedFusedRNN), say --set backward=SCOPE; or take one alone with "
               "--subgraph SCOPE",
               file, listed(names_of(stacks)));
  Stacks sorted;
  for (const std::size_t place : orders[0]) sorted.push_back(std::move(stacks[place]));
  stacks = std::move(sorted);
  account.find("the order of layers, the only one that their widths allow: " +
               listed(names_of(stacks)));
}

}  // namespace

std::vector<RecurrentLayer> order_layers(std::vector<FoundCell> cells, const ReadOptions& options,
                                         std::string_view file, Account& account) {
  Stacks stacks = stacks_of(std::move(cells), file);
  pair_backward(stacks, options, file, account);
  sort_stacks(stacks, options, file, account);
  std::vector<RecurrentLayer> layers;
  for (Stack& stack : stacks) {
    for (RecurrentLayer& layer : layers_of(std::move(stack), file)) {
      if (!layers.empty() && layers.back().output() != layer.input()) {
        base::fail(ErrorCode::kFormat, "{}: '{}' reads {} features, but '{}' puts out {}", file,
                   layer.name, layer.input(), layers.back().name, layers.back().output());
      }
      layers.push_back(std::move(layer));
    }
  }
  return layers;
}

}  // namespace sluice::interchange::tensorflow
