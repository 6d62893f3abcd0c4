#include "interchange/canonical_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace sluice::interchange {
namespace {

const CanonicalCell& cell_of(const CanonicalLayer& layer) {
  return layer.forward ? *layer.forward : *layer.backward;
}

std::string describe(const CanonicalCell& cell) {
  std::string text(kernels::recurrent::name_of(cell.type));
  if (cell.hard_sigmoid) text += " with hard_sigmoid";
  if (!cell.weight_hr.empty()) text += " with a projection";
  return text;
}

void require_one_cell(const std::vector<CanonicalLayer>& layers) {
  const CanonicalLayer& first = layers.front();
  const std::string wanted = describe(cell_of(first));
  for (const CanonicalLayer& layer : layers) {
    for (const std::optional<CanonicalCell>* cell : {&layer.forward, &layer.backward}) {
      if (!*cell || describe(**cell) == wanted) continue;
      base::fail(ErrorCode::kUnsupported,
                 "layer '{}' is {} and layer '{}' is {}; a stack of Sluice has one cell",
                 first.name, wanted, layer.name, describe(**cell));
    }
    if (!layer.forward || !layer.backward) continue;
    const bool alike = layer.forward->hidden == layer.backward->hidden &&
                       layer.forward->output == layer.backward->output;
    if (alike) continue;
    base::fail(ErrorCode::kUnsupported,
               "layer '{}' has {} units forward and {} backward; Sluice has as many in both",
               layer.name, layer.forward->hidden, layer.backward->hidden);
  }
}

/// Adds peepholes of zeros where some cells have peepholes and others have none.
void even_out_peepholes(std::vector<CanonicalLayer>& layers) {
  std::vector<CanonicalCell*> cells;
  for (CanonicalLayer& layer : layers) {
    for (std::optional<CanonicalCell>* cell : {&layer.forward, &layer.backward}) {
      if (*cell) cells.push_back(&**cell);
    }
  }
  const auto has = [](const CanonicalCell* cell) { return !cell->weight_peephole.empty(); };
  if (std::ranges::none_of(cells, has)) return;
  for (CanonicalCell* cell : cells) {
    cell->weight_peephole.resize(static_cast<std::size_t>(3 * cell->hidden));
  }
}

void set_widths(models::StackConfig& config, const std::vector<CanonicalLayer>& layers) {
  const std::int64_t directions = config.bidirectional ? 2 : 1;
  std::vector<std::int64_t> widths, projections;
  for (const CanonicalLayer& layer : layers) {
    widths.push_back(cell_of(layer).hidden * directions);
    projections.push_back(cell_of(layer).output * directions);
  }
  config.hidden = widths.front();
  const auto differs = [&](std::int64_t width) { return width != config.hidden; };
  if (std::ranges::any_of(widths, differs)) config.widths = widths;
  if (!cell_of(layers.front()).weight_hr.empty()) config.projections = projections;
}

/// values [blocks, rows, columns] with zeros behind the rows and columns of each block.
void grow(std::vector<float>& values, std::int64_t blocks, std::int64_t rows, std::int64_t new_rows,
          std::int64_t new_columns) {
  if (values.empty()) return;
  const std::int64_t columns = std::ssize(values) / (blocks * rows);
  std::vector<float> grown(static_cast<std::size_t>(blocks * new_rows * new_columns));
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(values.begin() + (block * rows + row) * columns, columns,
                  grown.begin() + (block * new_rows + row) * new_columns);
    }
  }
  values = std::move(grown);
}

void grow(CanonicalCell& cell, std::int64_t input, std::int64_t hidden, std::int64_t output) {
  const std::int64_t gates = cell.gates();
  grow(cell.weight_ih, gates, cell.hidden, hidden, input);
  grow(cell.weight_hh, gates, cell.hidden, hidden, output);
  grow(cell.bias_ih, gates, cell.hidden, hidden, 1);
  grow(cell.bias_hh, gates, cell.hidden, hidden, 1);
  grow(cell.weight_peephole, 3, cell.hidden, hidden, 1);
  grow(cell.weight_hr, 1, cell.output, output, hidden);
  cell.input = input;
  cell.hidden = hidden;
  cell.output = output;
}

/// A small file must not ask for much memory: one wide layer before many narrow ones.
void require_bounded_growth(const CanonicalStack& stack, std::int64_t hidden, std::int64_t output) {
  constexpr double kMostGrowth = 64, kAlways = 1 << 20;
  constexpr std::size_t kMostLayers = 64;
  double numbers = 0, grown = 0;
  for (const CanonicalLayer& layer : stack.layers) {
    const CanonicalCell& cell = *layer.forward;
    const auto gates = static_cast<double>(cell.gates());
    numbers += gates * static_cast<double>(cell.hidden * (cell.input + cell.output));
    grown += gates * static_cast<double>(hidden) * 2 * static_cast<double>(output);
  }
  if (stack.layers.size() <= kMostLayers && grown <= kMostGrowth * numbers + kAlways) return;
  base::fail(
      ErrorCode::kUnsupported,
      "{} layers from layer '{}' on would take {:.3g} numbers in place of {:.3g} if all were "
      "as wide as the widest, with {} units; use --kind tagger or features, which have "
      "layers of different widths",
      stack.layers.size(), stack.layers.front().name, grown, numbers, hidden);
}

}  // namespace

void even_out_widths(CanonicalStack& stack, Account& account) {
  models::StackConfig& config = stack.config;
  SLUICE_ASSERT(!config.bidirectional);
  std::int64_t hidden = 0, output = 0;
  bool differ = false;
  for (const CanonicalLayer& layer : stack.layers) {
    const CanonicalCell& cell = cell_of(layer);
    differ |= hidden != 0 && (cell.hidden != hidden || cell.output != output);
    hidden = std::max(hidden, cell.hidden);
    output = std::max(output, cell.output);
  }
  if (!differ) return;
  require_bounded_growth(stack, hidden, output);
  account.assume(fmt::format(
      "all layers get the {} units{} of the widest, by numbers that are zero, which costs time and "
      "changes no result: those of this kind of model have one width",
      hidden, config.projections.empty() ? "" : fmt::format(" and projections to {}", output)));
  std::int64_t input = cell_of(stack.layers.front()).input;
  for (CanonicalLayer& layer : stack.layers) {
    grow(*layer.forward, input, hidden, output);
    input = output;
  }
  config.hidden = hidden;
  config.widths.clear();
  if (!config.projections.empty()) config.projections.assign(stack.layers.size(), output);
}

CanonicalStack stack_of(std::vector<CanonicalLayer> layers, Account& account) {
  require_one_cell(layers);
  even_out_peepholes(layers);
  CanonicalStack stack;
  const CanonicalCell& cell = cell_of(layers.front());
  stack.config.cell = kernels::recurrent::name_of(cell.type);
  stack.config.layers = static_cast<std::int64_t>(layers.size());
  stack.config.dropout = 0;
  stack.config.hard_sigmoid = cell.hard_sigmoid;
  stack.config.peepholes = !cell.weight_peephole.empty();
  const auto runs_backward = [](const CanonicalLayer& layer) { return layer.backward.has_value(); };
  stack.config.bidirectional = std::ranges::any_of(layers, runs_backward);
  set_widths(stack.config, layers);

  std::int64_t width = 0;  // of the layer before, in the stack
  for (CanonicalLayer& layer : layers) {
    for (std::optional<CanonicalCell>* direction : {&layer.forward, &layer.backward}) {
      if (!*direction || width == 0) continue;
      (**direction).weight_ih = spread_columns((**direction).weight_ih, stack.places.back(), width);
      (**direction).input = width;
    }
    const std::int64_t output = cell_of(layer).output;
    const std::int64_t first = layer.forward ? 0 : output;
    const std::int64_t count = layer.output();
    if (stack.config.bidirectional) {
      const auto fill = [&](std::optional<CanonicalCell>& missing, const CanonicalCell& other,
                            std::string_view direction) {
        if (missing) return;
        missing = zero_cell(other, other.input);
        account.assume(
            fmt::format("layer '{}' gets a {} direction of zeros, which costs time and "
                        "changes no result: other layers run backward",
                        layer.name, direction));
      };
      if (layer.forward) fill(layer.backward, *layer.forward, "backward");
      fill(layer.forward, *layer.backward, "forward");
    }
    std::vector<std::int64_t>& places = stack.places.emplace_back(static_cast<std::size_t>(count));
    std::iota(places.begin(), places.end(), first);
    width = output * (stack.config.bidirectional ? 2 : 1);
  }
  stack.layers = std::move(layers);
  return stack;
}

}  // namespace sluice::interchange
