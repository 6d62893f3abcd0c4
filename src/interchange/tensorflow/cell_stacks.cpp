#include "interchange/tensorflow/cell_stacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "interchange/tensorflow/names.h"

namespace sluice::interchange::tensorflow {
namespace {

/// The place of a cell, as its scope says.
struct Place {
  std::string stack;
  int layer = 0;
  bool is_backward = false;
  bool is_apart = false;
};

Place place_of(const std::string& scope) {
  const std::vector<std::string> parts = split(scope, '/');
  const auto is_direction = [](const std::string& part) {
    return lower(part) == "fw" || lower(part) == "bw";
  };
  const auto is_layer = [](const std::string& part) { return layer_number(part).has_value(); };
  const auto direction = std::ranges::find_if(parts, is_direction);
  const auto layer = std::ranges::find_if(parts, is_layer);
  Place place;
  place.is_backward = direction != parts.end() && lower(*direction) == "bw";
  place.is_apart = direction < layer && layer != parts.end();
  if (layer != parts.end()) place.layer = *layer_number(*layer);
  std::vector<std::string> shared(parts.begin(), std::min(direction, layer));
  if (direction == parts.end() && layer == parts.end()) shared = parts;
  place.stack = joined(shared, "/");
  return place;
}

void require_width(const Stack& stack, int layer, std::int64_t input, std::int64_t given,
                   std::string_view file) {
  if (input == given) return;
  base::fail(ErrorCode::kFormat,
             "{}: layer {} of '{}' reads {} features, but the layer before it puts out {}", file,
             layer, stack.name, input, given);
}

/// The layer of both directions at a place after the first.
void join_apart(const Stack& stack, int number, const RecurrentLayer& before, RecurrentLayer& layer,
                std::string_view file) {
  const std::int64_t forward = before.forward->output, backward = before.backward->output;
  require_width(stack, number, layer.forward->input, forward, file);
  require_width(stack, number, layer.backward->input, backward, file);
  layer.forward = widened(*layer.forward, 0, backward);
  layer.backward = widened(*layer.backward, forward, 0);
}

}  // namespace

std::int64_t Stack::output() const {
  return (forward.empty() ? 0 : forward.rbegin()->second.output) +
         (backward.empty() ? 0 : backward.rbegin()->second.output);
}

std::vector<Stack> stacks_of(std::vector<FoundCell> cells, std::string_view file) {
  std::vector<Stack> stacks;
  for (FoundCell& found : cells) {
    Place place = place_of(found.scope);
    place.is_backward = place.is_backward || found.is_backward;
    auto stack = std::ranges::find(stacks, place.stack, &Stack::name);
    if (stack == stacks.end()) {
      stacks.push_back({.name = place.stack});
      stack = stacks.end() - 1;
    }
    stack->is_apart = stack->is_apart || place.is_apart;
    auto& direction = place.is_backward ? stack->backward : stack->forward;
    if (!direction.emplace(place.layer, std::move(found.cell)).second) {
      base::fail(ErrorCode::kUnsupported,
                 "{}: '{}' is a second cell at its place in the stack of layers; --subgraph SCOPE "
                 "takes one recurrent part alone",
                 file, found.scope);
    }
  }
  return stacks;
}

std::vector<RecurrentLayer> layers_of(Stack stack, std::string_view file) {
  std::vector<RecurrentLayer> layers;
  // --subgraph may take a part of a stack, whose first layer then has another number than 0.
  const int first = (stack.forward.empty() ? stack.backward : stack.forward).begin()->first;
  const std::size_t count = std::max(stack.forward.size(), stack.backward.size());
  const auto take = [&](std::map<int, SourceCell>& cells, int number) {
    std::optional<SourceCell> cell;
    if (cells.empty()) return cell;
    if (!cells.contains(number)) {
      base::fail(ErrorCode::kFormat, "{}: '{}' lacks the layer {}", file, stack.name, number);
    }
    return std::optional(std::move(cells.at(number)));
  };
  for (int number = first; static_cast<std::size_t>(number - first) < count; ++number) {
    RecurrentLayer layer{
        .name = fmt::format("{}{}", stack.name, count == 1 ? "" : fmt::format("/{}", number))};
    layer.forward = take(stack.forward, number);
    layer.backward = take(stack.backward, number);
    if (number > first) {
      const RecurrentLayer& before = layers.back();
      const bool both = layer.forward && layer.backward;
      if (both && stack.is_apart) {
        join_apart(stack, number, before, layer, file);
      } else {
        require_width(stack, number, layer.input(), before.output(), file);
        if (both) require_width(stack, number, layer.backward->input, before.output(), file);
      }
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

SourceCell widened(const SourceCell& cell, std::int64_t before, std::int64_t after) {
  SourceCell wide = cell;
  wide.input += before + after;
  for (const char* name : {"kernel", "gate_kernel", "candidate_kernel", "input_kernel"}) {
    const io::HostTensor* narrow = cell.find(name);
    if (narrow == nullptr) continue;
    const std::int64_t columns = narrow->shape[1];
    io::HostTensor tensor =
        io::HostTensor::make(base::DType::kFloat32, {narrow->shape[0] + before + after, columns});
    const auto from = narrow->values<float>();
    const auto to = tensor.values<float>().begin();
    const std::int64_t own = cell.input * columns;
    std::copy(from.begin(), from.begin() + own, to + before * columns);
    std::copy(from.begin() + own, from.end(), to + (before + cell.input + after) * columns);
    wide.tensors[name] = std::move(tensor);
  }
  return wide;
}

}  // namespace sluice::interchange::tensorflow
