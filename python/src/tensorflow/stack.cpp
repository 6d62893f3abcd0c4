#include "stack.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <tensorflow/core/util/overflow.h>

#include <algorithm>
#include <array>

namespace sluice::tensorflow {
namespace {

/// A width with four gates stays below 2^31 rows of a weight, so that products of two widths of a
/// damaged graph do not overflow.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 29;

struct Cell {
  const char* name;
  sluice_cell cell;
  std::int64_t gates;
};

constexpr std::array<Cell, 5> kCells{{{"lstm", SLUICE_LSTM, 4},
                                      {"gru", SLUICE_GRU, 3},
                                      {"gru_reset_before", SLUICE_GRU_RESET_BEFORE, 3},
                                      {"rnn_tanh", SLUICE_RNN_TANH, 1},
                                      {"rnn_relu", SLUICE_RNN_RELU, 1}}};

const Cell* find_cell(const std::string& name) {
  const auto* found = std::find_if(kCells.begin(), kCells.end(),
                                   [&](const Cell& cell) { return name == cell.name; });
  return found == kCells.end() ? nullptr : found;
}

/// The widths that shapes of weights are made of.
struct Widths {
  std::int64_t input, hidden, output, sums;
};

struct Kind {
  const char* name;
  void* sluice_recurrent_weights::*member;
  std::vector<std::int64_t> (*shape)(const Widths&);
};

using W = sluice_recurrent_weights;
using Shape = std::vector<std::int64_t>;

const std::array<Kind, 10> kKinds{{
    {"weight_ih", &W::weight_ih,
     [](const Widths& w) {
       return Shape{w.sums, w.input};
     }},
    {"weight_hh", &W::weight_hh,
     [](const Widths& w) {
       return Shape{w.sums, w.output};
     }},
    {"bias_ih", &W::bias_ih, [](const Widths& w) { return Shape{w.sums}; }},
    {"bias_hh", &W::bias_hh, [](const Widths& w) { return Shape{w.sums}; }},
    {"weight_hr", &W::weight_hr,
     [](const Widths& w) {
       return Shape{w.output, w.hidden};
     }},
    {"weight_peephole", &W::weight_peephole,
     [](const Widths& w) {
       return Shape{3, w.hidden};
     }},
    {"gain_ih", &W::gain_ih, [](const Widths& w) { return Shape{w.sums}; }},
    {"gain_hh", &W::gain_hh, [](const Widths& w) { return Shape{w.sums}; }},
    {"gain_c", &W::gain_c, [](const Widths& w) { return Shape{w.hidden}; }},
    {"shift_c", &W::shift_c, [](const Widths& w) { return Shape{w.hidden}; }},
}};

absl::Status place_weights(Stack* stack) {
  const Cell* cell = find_cell(stack->cell);
  if (cell == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("unknown cell ", stack->cell));
  std::int64_t index = -1;
  for (const std::string& name : stack->weight_kinds) {
    const auto* kind =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return name == k.name; });
    if (kind == kKinds.end()) {
      return absl::InvalidArgumentError(absl::StrCat("weight_kinds has '", name, "'"));
    }
    if (kind == kKinds.begin()) ++index;
    if (index < 0 || index >= stack->states()) break;
    const auto layer = static_cast<std::size_t>(index / stack->directions);
    const std::int64_t hidden = stack->hidden[layer], output = stack->outputs()[layer];
    const std::int64_t input =
        layer == 0 ? kInputWidth : stack->directions * stack->outputs()[layer - 1];
    stack->weights.push_back({static_cast<std::size_t>(index), kind->member,
                              kind->shape({input, hidden, output, cell->gates * hidden})});
  }
  if (index + 1 != stack->states() || stack->weights.size() != stack->weight_kinds.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight_kinds must have one 'weight_ih', its first, for each of the ",
                     stack->states(), " layers and directions"));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename Attributes>
absl::Status read_stack(Attributes& attributes, Stack* stack) {
  TF_RETURN_IF_ERROR(attributes.GetAttr("cell", &stack->cell));
  TF_RETURN_IF_ERROR(attributes.GetAttr("hidden", &stack->hidden));
  TF_RETURN_IF_ERROR(attributes.GetAttr("projection", &stack->projection));
  TF_RETURN_IF_ERROR(attributes.GetAttr("directions", &stack->directions));
  TF_RETURN_IF_ERROR(attributes.GetAttr("weight_kinds", &stack->weight_kinds));
  TF_RETURN_IF_ERROR(attributes.GetAttr("batch_first", &stack->batch_first));
  TF_RETURN_IF_ERROR(attributes.GetAttr("training", &stack->training));
  TF_RETURN_IF_ERROR(attributes.GetAttr("dropout", &stack->dropout));
  TF_RETURN_IF_ERROR(attributes.GetAttr("zoneout_h", &stack->zoneout_h));
  TF_RETURN_IF_ERROR(attributes.GetAttr("zoneout_c", &stack->zoneout_c));
  TF_RETURN_IF_ERROR(attributes.GetAttr("recurrent_dropout", &stack->recurrent_dropout));
  TF_RETURN_IF_ERROR(attributes.GetAttr("hard_sigmoid", &stack->hard_sigmoid));
  TF_RETURN_IF_ERROR(attributes.GetAttr("implementation", &stack->implementation));
  for (const auto& [name, widths] :
       {std::pair{"hidden", &stack->hidden}, {"projection", &stack->projection}}) {
    for (const std::int64_t width : *widths) {
      if (width > 0 && width <= kMostWidth) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, " has ", width, "; a width is 1 to ", kMostWidth));
    }
  }
  if (!stack->projection.empty() && stack->projection.size() != stack->hidden.size()) {
    return absl::InvalidArgumentError(
        "projection must have as many numbers as hidden: one a layer");
  }
  if (stack->directions != 1 && stack->directions != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("directions is ", stack->directions, ", not 1 or 2"));
  }
  return place_weights(stack);
}

template absl::Status read_stack(tf::OpKernelConstruction&, Stack*);
template absl::Status read_stack(tf::shape_inference::InferenceContext&, Stack*);

bool Stack::has(const char* kind) const {
  return std::find(weight_kinds.begin(), weight_kinds.end(), kind) != weight_kinds.end();
}

absl::Status Stack::state_shape(const std::vector<std::int64_t>& widths, std::int64_t rows,
                                tf::TensorShape* shape) const {
  if (std::adjacent_find(widths.begin(), widths.end(), std::not_equal_to<>()) == widths.end()) {
    return tf::TensorShape::BuildTensorShape({states(), rows, widths[0]}, shape);
  }
  std::int64_t total = 0;
  for (const std::int64_t width : widths) total += width;
  // A product that overflows is -1, which no shape takes.
  return tf::TensorShape::BuildTensorShape({tf::MultiplyWithoutOverflow(rows, directions * total)},
                                           shape);
}

absl::Status Stack::c_shape(std::int64_t rows, tf::TensorShape* shape) const {
  return is_lstm() ? state_shape(hidden, rows, shape)
                   : tf::TensorShape::BuildTensorShape({0}, shape);
}

sluice_recurrent_options Stack::options() const {
  auto options = SLUICE_INIT(sluice_recurrent_options);
  options.cell = find_cell(cell)->cell;
  options.layers = layers();
  options.directions = directions;
  options.hidden = hidden.data();
  options.projection = projection.empty() ? nullptr : projection.data();
  options.training = training ? 1 : 0;
  options.strided = batch_first ? 1 : 0;
  options.dropout = dropout;
  options.zoneout_h = zoneout_h;
  options.zoneout_c = zoneout_c;
  options.recurrent_dropout = recurrent_dropout;
  options.peepholes = has("weight_peephole") ? 1 : 0;
  options.layer_norm = has("gain_ih") ? 1 : 0;
  options.hard_sigmoid = hard_sigmoid ? 1 : 0;
  options.implementation = implementation.c_str();
  return options;
}

}  // namespace sluice::tensorflow
