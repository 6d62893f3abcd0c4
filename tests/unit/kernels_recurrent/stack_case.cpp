#include "unit/kernels_recurrent/stack_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/dtype.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using Vector = std::vector<double>;

std::int64_t integer(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

bool chance(std::mt19937_64& random, double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random) < probability;
}

double rounded(double value, DType dtype) {
  if (dtype == DType::kFloat64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::kBFloat16) return static_cast<float>(base::BFloat16(single));
  if (dtype == DType::kFloat16) return static_cast<float>(base::Float16(single));
  return single;
}

Vector values(std::mt19937_64& random, std::int64_t count, double scale, DType dtype) {
  std::uniform_real_distribution<double> uniform(-scale, scale);
  Vector result(static_cast<std::size_t>(count));
  for (double& value : result) value = rounded(uniform(random), dtype);
  return result;
}

oracle::StackShape shape_of(const StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  std::vector<std::int64_t> projection;
  for (std::int64_t l = 0; d.projects() && l < d.layers; ++l) projection.push_back(d.output_of(l));
  return {oracle::cell_named(name_of(d.cell)),
          stack.time,
          stack.rows,
          d.input,
          d.hidden,
          d.layers,
          d.directions,
          projection,
          d.peepholes,
          d.layer_norm,
          d.int8,
          d.widths,
          d.hard_sigmoid};
}

void fill_weights(std::mt19937_64& random, const StackCase& stack,
                  std::vector<oracle::Weights>& weights, double scale, DType dtype) {
  weights = oracle::zero_weights(shape_of(stack));
  for (oracle::Weights& layer : weights) {
    for (Vector* matrix :
         {&layer.weight_ih, &layer.weight_hh, &layer.bias_ih, &layer.bias_hh, &layer.weight_hr,
          &layer.peephole, &layer.gain_ih, &layer.gain_hh, &layer.gain_c, &layer.shift_c}) {
      *matrix = values(random, static_cast<std::int64_t>(matrix->size()), scale, dtype);
    }
  }
}

/// Multipliers as the contract documents them: unit d*output_of(l)+feature, stream of the layer.
void fill_dropout(StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  if (!d.training || d.dropout == 0) return;
  for (std::int64_t layer = 0; layer + 1 < d.layers; ++layer) {
    const std::int64_t width = d.input_of(layer + 1);
    runtime::DropoutKey key = stack.dropout;
    key.stream += static_cast<std::uint32_t>(layer);
    Vector mask;
    for (std::int64_t t = 0; t < stack.time; ++t) {
      for (std::int64_t row = 0; row < stack.rows; ++row) {
        const auto id = static_cast<std::uint32_t>(
            stack.row_ids.empty() ? row : stack.row_ids[static_cast<std::size_t>(row)]);
        for (std::int64_t unit = 0; unit < width; ++unit) {
          const bool keep =
              key.word(id, static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(unit)) >=
              runtime::dropout_threshold(d.dropout);
          mask.push_back(keep ? 1 / (1 - d.dropout) : 0);
        }
      }
    }
    stack.input.dropout.push_back(std::move(mask));
  }
}

/// Calls body(row, whether the word of a unit is below the threshold) for units [0, width) of all
/// rows at time t, as the contract documents them: the masks inside cells start at unit 2^28 times
/// their number, those of the backward direction 2^27 later.
template <typename Body>
void for_mask(const StackCase& stack, std::uint32_t mask, std::int64_t k, std::int64_t t,
              std::int64_t width, double rate, const Body& body) {
  runtime::DropoutKey key = stack.dropout;
  key.stream += static_cast<std::uint32_t>(k / stack.descriptor.directions);
  const auto direction = static_cast<std::uint32_t>(k % stack.descriptor.directions);
  for (std::int64_t row = 0; row < stack.rows; ++row) {
    const auto id = static_cast<std::uint32_t>(
        stack.row_ids.empty() ? row : stack.row_ids[static_cast<std::size_t>(row)]);
    for (std::int64_t unit = 0; unit < width; ++unit) {
      const std::uint32_t number =
          (mask << 28) + (direction << 27) + static_cast<std::uint32_t>(unit);
      body(key.word(id, static_cast<std::uint32_t>(t), number) < runtime::dropout_threshold(rate));
    }
  }
}

/// Masks of zoneout and recurrent dropout, or what stands for them in inference.
void fill_cell_masks(StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  const auto zoneout = [&](std::uint32_t mask, double rate, std::int64_t k, std::int64_t width) {
    Vector kept;
    for (std::int64_t t = 0; t < stack.time; ++t) {
      for_mask(stack, mask, k, t, width, rate, [&](bool below) {
        kept.push_back(!d.training ? rate : below ? 1 : 0);
      });
    }
    return kept;
  };
  for (std::int64_t k = 0; k < d.layers * d.directions; ++k) {
    const std::int64_t output = d.output_of(k / d.directions);
    if (d.zoneout_h > 0) {
      stack.input.zoneout_h.push_back(zoneout(1, d.zoneout_h, k, output));
    }
    if (d.zoneout_c > 0) {
      const std::int64_t hidden = d.hidden_of(k / d.directions);
      stack.input.zoneout_c.push_back(zoneout(2, d.zoneout_c, k, hidden));
    }
    if (!d.training || d.recurrent_dropout == 0) continue;
    Vector multipliers;
    for_mask(stack, 3, k, 0, output, d.recurrent_dropout,
             [&](bool below) { multipliers.push_back(below ? 0 : 1 / (1 - d.recurrent_dropout)); });
    stack.input.recurrent_dropout.push_back(std::move(multipliers));
  }
}

void add(Tensors& tensors, const std::string& name, const Vector& gradient, const Vector& before,
         oracle::Rounding* rounding) {
  Vector sum = gradient;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += before[i];
  if (rounding != nullptr) rounding->keep(sum);
  tensors[name] = std::move(sum);
}

}  // namespace

void draw_extras(std::mt19937_64& random, Descriptor& d) {
  const bool lstm = d.cell == CellType::kLstm;
  d.resets = chance(random, 0.5);
  d.peepholes = lstm && chance(random, 0.5);
  if (chance(random, 0.5)) d.zoneout_h = 0.15;
  if (lstm && chance(random, 0.5)) d.zoneout_c = 0.4;
  if (chance(random, 0.5)) d.recurrent_dropout = 0.25;
}

namespace {

bool is_plain_rnn(CellType cell) {
  return cell == CellType::kRnnTanh || cell == CellType::kRnnRelu;
}

/// relu has a kink, where a rounding decides whether a gradient passes: the least distance of a sum
/// from it.
double distance_from_kink(const StackCase& stack) {
  const oracle::StackOutput out = oracle::forward(shape_of(stack), stack.weights, stack.input);
  double least = 1;
  for (const oracle::LayerTrace& trace : out.traces) {
    // Past a row's end there is no sum, but an exact zero.
    for (const double sum : trace.candidate) {
      if (sum != 0) least = std::min(least, std::abs(sum));
    }
  }
  return least;
}

}  // namespace

void draw_hard_sigmoid(std::mt19937_64& random, Descriptor& d) {
  if (is_plain_rnn(d.cell) || !chance(random, 0.25)) return;
  d.hard_sigmoid = true;
  // Normalised sums may lie anywhere, so also where a rounding decides on a gradient.
  if (d.layer_norm && base::size_of(d.dtype) == 2) d.training = false;
}

/// A hard sigmoid has kinks at 2.5 and -2.5, where a rounding decides whether a gradient passes.
/// Weights become so small that sums stay between them, but for a few units that stay far outside.
void keep_from_kinks(std::mt19937_64& random, StackCase& stack) {
  constexpr double kMost = 2, kOutside = 6;
  const Descriptor& d = stack.descriptor;
  const DType storage = d.dtype;
  for (std::int64_t k = 0; k < d.layers * d.directions; ++k) {
    const std::int64_t layer = k / d.directions, hidden = d.hidden_of(layer);
    oracle::Weights& w = stack.weights[static_cast<std::size_t>(k)];
    // Both biases and a peephole count as a state each. Dropout magnifies what it leaves.
    const double factors = 2 * static_cast<double>(d.input_of(layer) + d.output_of(layer) + 3);
    const double scale = kMost / factors;
    for (Vector* matrix : {&w.weight_ih, &w.weight_hh, &w.bias_ih, &w.bias_hh, &w.peephole}) {
      *matrix = values(random, static_cast<std::int64_t>(matrix->size()), scale, storage);
    }
    const std::int64_t gates = d.cell == CellType::kLstm ? 4 : 2;
    for (std::int64_t i = 0; i < gates * hidden; ++i) {
      const bool is_gate = d.cell != CellType::kLstm || i / hidden != 2;
      if (!is_gate || !chance(random, 0.15)) continue;
      w.bias_ih[static_cast<std::size_t>(i)] = chance(random, 0.5) ? kOutside : -kOutside;
    }
  }
}

StackCase unfilled_case(std::mt19937_64& random, const CaseLimits& limits) {
  StackCase stack;
  Descriptor& d = stack.descriptor;
  constexpr std::array kDrawn{
      CellType::kLstm,   CellType::kLstm,           CellType::kLstm,           CellType::kGru,
      CellType::kGru,    CellType::kGruResetBefore, CellType::kGruResetBefore, CellType::kRnnTanh,
      CellType::kRnnRelu};
  d.cell = kDrawn[static_cast<std::size_t>(integer(random, 0, kDrawn.size() - 1))];
  d.layers = integer(random, 1, 3);
  d.directions = integer(random, 1, 2);
  // A gradient through one or two units may nearly cancel, which no bound on a 16-bit type's error
  // takes.
  const std::int64_t narrowest = base::size_of(limits.dtype) == 2 ? 6 : 1;
  d.input = integer(random, narrowest, limits.width);
  d.hidden = integer(random, narrowest, limits.width);
  // A few units may be nearly equal, of which layer norm would magnify the rounding.
  constexpr std::int64_t kNarrowestNormalized = 12;
  if (limits.unequal_widths) {
    d.layers = integer(random, 2, 4);
    do {
      d.widths.clear();
      for (std::int64_t layer = 0; layer < d.layers; ++layer) {
        // Neighbours are often alike.
        const bool same = layer > 0 && chance(random, 0.3);
        d.widths.push_back(same ? d.widths.back() : integer(random, narrowest + 1, limits.width));
      }
    } while (std::ranges::count(d.widths, d.widths.front()) == d.layers);
    d.hidden = 0;  // nothing may read it
  }
  const auto least_hidden = [&d] {
    return d.widths.empty() ? d.hidden : std::ranges::min(d.widths);
  };
  if (d.cell == CellType::kLstm && least_hidden() > narrowest && chance(random, 0.4)) {
    const bool uneven = !limits.plain && chance(random, 0.5);
    do {
      d.projections.push_back(integer(random, narrowest, least_hidden() - 1));
    } while (uneven && static_cast<std::int64_t>(d.projections.size()) < d.layers);
  }
  d.dtype = limits.dtype;
  d.training = chance(random, 0.75);
  // Sums of rounded values end on either side of relu's kink.
  if (d.cell == CellType::kRnnRelu && base::size_of(limits.dtype) == 2) d.training = false;
  if (limits.extras) {
    draw_extras(random, d);
    d.layer_norm = d.cell == CellType::kLstm && chance(random, 0.5);
    if (d.layer_norm) {
      d.projections.clear();
      d.peepholes = false;
      if (d.widths.empty()) d.hidden = std::max(d.hidden, kNarrowestNormalized);
      for (std::int64_t& width : d.widths) width += kNarrowestNormalized;
    }
    if (limits.hard_sigmoid) draw_hard_sigmoid(random, d);
  }
  if (chance(random, 0.5)) d.dropout = 0.3;
  stack.time = chance(random, 0.2) ? 1 : integer(random, 1, limits.time);
  stack.rows = chance(random, 0.2) ? 1 : integer(random, 1, limits.rows);
  d.time = stack.time + integer(random, 0, 3);
  d.rows = stack.rows + integer(random, 0, 3);
  if (limits.plain) {
    d.projections.clear();
    d.dropout = 0;
    d.time = stack.time;
    d.rows = stack.rows;
    // A library may take layers of one width in one call.
    if (chance(random, 0.3)) d.input = d.directions * d.hidden;
  }
  return stack;
}

StackCase random_case(std::mt19937_64& random, const CaseLimits& limits) {
  StackCase stack = unfilled_case(random, limits);
  fill_case(random, stack);
  if (limits.plain) {
    stack.input.lengths.clear();
    stack.want_c_sequence = false;
  }
  return stack;
}

void fill_case(std::mt19937_64& random, StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  const DType storage = d.dtype, wide = base::policy_of(d.dtype).accumulate;
  const bool lstm = d.cell == CellType::kLstm;
  const std::int64_t places = stack.time * stack.rows;
  const std::int64_t outputs = d.h_shape(stack.rows).element_count();
  const std::int64_t cells = d.c_shape(stack.rows).element_count();
  stack.input.x = values(random, places * d.input, 1, storage);
  if (chance(random, 0.8)) {
    for (std::int64_t row = 0; row < stack.rows; ++row) {
      stack.input.lengths.push_back(static_cast<int>(integer(random, 0, stack.time)));
    }
  }
  for (std::int64_t i = 0; d.resets && i < places; ++i) {
    stack.input.resets.push_back(chance(random, 0.3) ? 1 : 0);
  }
  if (chance(random, 0.7)) stack.input.h0 = values(random, outputs, 1, storage);
  if (lstm && chance(random, 0.7)) stack.input.c0 = values(random, cells, 1, wide);
  // Large enough for the gates to leave their linear range, small enough not to saturate them; of a
  // plain RNN, whose state no gate holds back, small enough for it not to grow.
  const double scale = is_plain_rnn(d.cell) ? 0.7 : 1.5;
  const std::int64_t hidden = d.widths.empty() ? d.hidden : std::ranges::max(d.widths);
  fill_weights(random, stack, stack.weights, scale / std::sqrt(static_cast<double>(hidden)),
               storage);
  if (d.hard_sigmoid && d.training && !d.layer_norm) keep_from_kinks(random, stack);
  if (stack.want_gradients) fill_weights(random, stack, stack.gradients_before, 1, wide);
  if (chance(random, 0.8)) {
    stack.flow.dy = values(random, places * d.y_width(), 1, storage);
  }
  if (chance(random, 0.6)) stack.flow.dhn = values(random, outputs, 1, storage);
  if (lstm && chance(random, 0.6)) stack.flow.dcn = values(random, cells, 1, wide);
  if (chance(random, 0.5)) {
    for (std::int64_t row = 0; row < stack.rows; ++row) {
      stack.row_ids.push_back(static_cast<std::int32_t>(integer(random, 0, 1000)));
    }
  }
  stack.dropout = {random(), static_cast<std::uint32_t>(integer(random, 0, 99)), 5};
  fill_dropout(stack);
  fill_cell_masks(stack);
  // Ten times what sums of float32 err by.
  constexpr double kMargin = 2e-5;
  while (d.cell == CellType::kRnnRelu && d.training && distance_from_kink(stack) < kMargin) {
    stack.input.x = values(random, places * d.input, 1, storage);
  }
  stack.want_states = chance(random, 0.7);
  stack.want_c_sequence = lstm && chance(random, 0.5);
  stack.want_dx = chance(random, 0.8);
  stack.want_gradients = stack.want_gradients && chance(random, 0.8);
}

void fill_case_in_place(std::mt19937_64& random, StackCase& stack) {
  const StackCase unfilled = stack;
  const bool lstm = stack.descriptor.cell == CellType::kLstm;
  do {
    stack = unfilled;
    fill_case(random, stack);
  } while (stack.input.h0.empty() || (lstm && stack.input.c0.empty()));
  stack.want_states = stack.in_place = true;
}

Tensors expected(const StackCase& stack, oracle::Rounding* rounding) {
  const oracle::StackShape shape = shape_of(stack);
  const bool lstm = shape.cell == oracle::Cell::kLstm;
  const oracle::StackOutput out = oracle::forward(shape, stack.weights, stack.input, rounding);
  Tensors tensors{{"y", out.y}};
  if (stack.want_states) tensors["hn"] = out.hn;
  if (stack.want_states && lstm) tensors["cn"] = out.cn;
  for (std::size_t i = 0; stack.want_c_sequence && i < out.traces.size(); ++i) {
    Vector& all = tensors["c_sequence"];
    all.insert(all.end(), out.traces[i].cells.begin(), out.traces[i].cells.end());
  }
  if (!stack.descriptor.training) return tensors;
  const oracle::StackGradients d =
      oracle::backward(shape, stack.weights, stack.input, out, stack.flow, rounding);
  if (stack.want_dx) tensors["dx"] = d.dx;
  if (stack.want_states) tensors["dh0"] = d.dh0;
  if (stack.want_states && lstm) tensors["dc0"] = d.dc0;
  for (std::size_t i = 0; stack.want_gradients && i < d.weights.size(); ++i) {
    const std::string suffix = fmt::format(".{}", i);
    const oracle::Weights& before = stack.gradients_before[i];
    add(tensors, "weight_ih" + suffix, d.weights[i].weight_ih, before.weight_ih, rounding);
    add(tensors, "weight_hh" + suffix, d.weights[i].weight_hh, before.weight_hh, rounding);
    add(tensors, "bias_ih" + suffix, d.weights[i].bias_ih, before.bias_ih, rounding);
    add(tensors, "bias_hh" + suffix, d.weights[i].bias_hh, before.bias_hh, rounding);
    if (!shape.projection.empty()) {
      add(tensors, "weight_hr" + suffix, d.weights[i].weight_hr, before.weight_hr, rounding);
    }
    if (shape.peepholes) {
      add(tensors, "weight_peephole" + suffix, d.weights[i].peephole, before.peephole, rounding);
    }
    if (shape.layer_norm) {
      add(tensors, "gain_ih" + suffix, d.weights[i].gain_ih, before.gain_ih, rounding);
      add(tensors, "gain_hh" + suffix, d.weights[i].gain_hh, before.gain_hh, rounding);
      add(tensors, "gain_c" + suffix, d.weights[i].gain_c, before.gain_c, rounding);
      add(tensors, "shift_c" + suffix, d.weights[i].shift_c, before.shift_c, rounding);
    }
  }
  return tensors;
}

namespace {

/// The same of c0, cn or one of their gradients.
Vector cells_of_row(const Descriptor& d, const Vector& cells, std::int64_t rows, std::int64_t row) {
  Vector picked;
  for (std::int64_t k = 0; k < d.layers * d.directions; ++k) {
    const std::int64_t hidden = d.hidden_of(k / d.directions);
    const auto first = cells.begin() + d.c_offset(k, rows) + row * hidden;
    picked.insert(picked.end(), first, first + hidden);
  }
  return picked;
}

}  // namespace

Vector state_of_row(const Descriptor& d, const Vector& states, std::int64_t rows,
                    std::int64_t row) {
  Vector picked;
  for (std::int64_t k = 0; k < d.layers * d.directions; ++k) {
    const std::int64_t output = d.output_of(k / d.directions);
    const auto first = states.begin() + d.h_offset(k, rows) + row * output;
    picked.insert(picked.end(), first, first + output);
  }
  return picked;
}

StackCase single_row(const StackCase& stack, std::int64_t row) {
  StackCase one = stack;
  one.rows = 1;
  const Descriptor& d = stack.descriptor;
  const auto rows_of = [&](const Vector& all, std::int64_t width) {
    Vector picked;
    const auto outer = static_cast<std::int64_t>(all.size()) / (stack.rows * width);
    for (std::int64_t i = 0; i < outer; ++i) {
      const auto first = all.begin() + (i * stack.rows + row) * width;
      picked.insert(picked.end(), first, first + width);
    }
    return picked;
  };
  const auto of_states = [&](const Vector& all) {
    return all.empty() ? all : state_of_row(d, all, stack.rows, row);
  };
  const auto of_cells = [&](const Vector& all) {
    return all.empty() ? all : cells_of_row(d, all, stack.rows, row);
  };
  one.input.x = rows_of(stack.input.x, d.input);
  if (!stack.input.lengths.empty()) {
    one.input.lengths = {stack.input.lengths[static_cast<std::size_t>(row)]};
  }
  one.input.h0 = of_states(stack.input.h0);
  one.input.c0 = of_cells(stack.input.c0);
  const auto resets = rows_of({stack.input.resets.begin(), stack.input.resets.end()}, 1);
  one.input.resets.assign(resets.begin(), resets.end());
  const auto output = [&](std::size_t k) {
    return d.output_of(static_cast<std::int64_t>(k) / d.directions);
  };
  for (std::size_t k = 0; k < one.input.zoneout_h.size(); ++k) {
    one.input.zoneout_h[k] = rows_of(one.input.zoneout_h[k], output(k));
  }
  for (std::size_t k = 0; k < one.input.zoneout_c.size(); ++k) {
    const std::int64_t hidden = d.hidden_of(static_cast<std::int64_t>(k) / d.directions);
    one.input.zoneout_c[k] = rows_of(one.input.zoneout_c[k], hidden);
  }
  for (std::size_t k = 0; k < one.input.recurrent_dropout.size(); ++k) {
    one.input.recurrent_dropout[k] = rows_of(one.input.recurrent_dropout[k], output(k));
  }
  for (std::size_t l = 0; l < one.input.dropout.size(); ++l) {
    const std::int64_t width = d.input_of(static_cast<std::int64_t>(l) + 1);
    one.input.dropout[l] = rows_of(one.input.dropout[l], width);
  }
  one.flow.dy = rows_of(stack.flow.dy, d.y_width());
  one.flow.dhn = of_states(stack.flow.dhn);
  one.flow.dcn = of_cells(stack.flow.dcn);
  one.row_ids = {stack.row_ids.empty() ? static_cast<std::int32_t>(row)
                                       : stack.row_ids[static_cast<std::size_t>(row)]};
  return one;
}

}  // namespace sluice::kernels::recurrent::testing
