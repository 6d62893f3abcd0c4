#include "kernels/recurrent/recurrent.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "kernels/device_kernels.h"
#include "kernels/recurrent/cpu/candidates.h"
#include "kernels/recurrent/layer_chain.h"
#include "kernels/recurrent/measured_choice.h"
#include "kernels/recurrent/named_choice.h"

namespace sluice::kernels::recurrent {

std::string_view name_of(CellType cell) {
  switch (cell) {
    case CellType::kLstm:
      return "lstm";
    case CellType::kGru:
      return "gru";
    case CellType::kGruResetBefore:
      return "gru_reset_before";
    case CellType::kRnnTanh:
      return "rnn_tanh";
    case CellType::kRnnRelu:
      return "rnn_relu";
  }
  base::fail(ErrorCode::kInvalidArgument, "cell {} has no name", static_cast<int>(cell));
}

CellType parse_cell(std::string_view name) {
  std::string known;
  for (const CellType cell : kCellTypes) {
    if (name == name_of(cell)) return cell;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(cell));
  }
  base::fail(ErrorCode::kInvalidArgument, "unknown cell \"{}\"; known are {}", name, known);
}

namespace {

bool differ(const std::vector<std::int64_t>& values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) != values.end();
}

}  // namespace

bool Descriptor::is_uneven() const { return differ(projects() ? projections : widths); }

std::int64_t Descriptor::output_of(std::int64_t layer) const {
  if (!projects()) return hidden_of(layer);
  return projections[projections.size() == 1 ? 0 : static_cast<std::size_t>(layer)];
}

std::int64_t Descriptor::widest_output() const {
  std::int64_t widest = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    widest = std::max(widest, output_of(layer));
  }
  return widest;
}

base::Shape Descriptor::h_shape(std::int64_t batch) const {
  const std::int64_t count = layers * directions;
  if (is_uneven()) return {h_offset(count, batch)};
  return {count, batch, output_of(0)};
}

std::int64_t Descriptor::h_offset(std::int64_t layer_and_direction, std::int64_t batch) const {
  std::int64_t width = 0;
  for (std::int64_t i = 0; i < layer_and_direction; ++i) width += output_of(i / directions);
  return width * batch;
}

base::Shape Descriptor::c_shape(std::int64_t batch) const {
  const std::int64_t count = layers * directions;
  if (differ(widths)) return {c_offset(count, batch)};
  return {count, batch, hidden_of(0)};
}

std::int64_t Descriptor::c_offset(std::int64_t layer_and_direction, std::int64_t batch) const {
  std::int64_t width = 0;
  for (std::int64_t i = 0; i < layer_and_direction; ++i) width += hidden_of(i / directions);
  return width * batch;
}

base::Shape Descriptor::c_sequence_shape(std::int64_t run_time, std::int64_t batch) const {
  const std::int64_t count = layers * directions;
  if (differ(widths)) return {run_time * c_offset(count, batch)};
  return {count, run_time, batch, hidden_of(0)};
}

namespace {

void check_size(const Descriptor& descriptor) {
  // Nobody has as much memory, and products of sizes below it don't overflow. Lengths are int32.
  constexpr double kMostNumbers = 0x1p48;
  constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();
  std::int64_t widest = std::max(descriptor.input, descriptor.widest_output());
  for (std::int64_t layer = 0; layer < descriptor.layers; ++layer) {
    widest = std::max(widest, descriptor.hidden_of(layer));
  }
  const double each =
      static_cast<double>(descriptor.layers * descriptor.directions * descriptor.gates()) *
      static_cast<double>(widest);
  const double steps = static_cast<double>(descriptor.time) * static_cast<double>(descriptor.rows);
  SLUICE_CHECK(descriptor.time <= kMostSteps && descriptor.rows <= kMostSteps &&
                   std::max(static_cast<double>(widest), steps) * each <= kMostNumbers,
               "a recurrent stack of {} time steps, {} rows and up to {} units takes more memory "
               "than any machine has",
               descriptor.time, descriptor.rows, widest);
}

}  // namespace

void Descriptor::validate() const {
  const auto positive = [](std::string_view what, std::int64_t value) {
    SLUICE_CHECK(value >= 1, "a recurrent stack needs {} of at least 1, not {}", what, value);
  };
  positive("layers", layers);
  positive("an input width", input);
  SLUICE_CHECK(widths.empty() || static_cast<std::int64_t>(widths.size()) == layers,
               "{} hidden widths given for {} layers; give one a layer", widths.size(), layers);
  if (widths.empty()) positive("a hidden width", hidden);
  for (const std::int64_t width : widths) positive("hidden widths", width);
  positive("a time capacity", time);
  positive("a capacity of rows", rows);
  SLUICE_CHECK(directions == 1 || directions == 2,
               "a recurrent stack has 1 or 2 directions, not {}", directions);
  for (const std::int64_t projection : projections) {
    SLUICE_CHECK(projection >= 1, "a projection has at least 1 feature, not {}", projection);
  }
  SLUICE_CHECK(projections.size() <= 1 || static_cast<std::int64_t>(projections.size()) == layers,
               "{} projections given for {} layers; give one for all, or one a layer",
               projections.size(), layers);
  SLUICE_CHECK(!projects() || cell == CellType::kLstm,
               "only the LSTM has a projection; the cell is {}", name_of(cell));
  check_size(*this);
  const auto rate = [](std::string_view what, double value) {
    SLUICE_CHECK(value >= 0 && value < 1, "{} must lie in [0, 1), not {}", what, value);
  };
  rate("dropout", dropout);
  rate("zoneout of h", zoneout_h);
  rate("zoneout of c", zoneout_c);
  rate("recurrent dropout", recurrent_dropout);
  SLUICE_CHECK(cell == CellType::kLstm || !(peepholes || zoneout_c > 0),
               "only the LSTM has {}; the cell is {}",
               peepholes ? "peepholes" : "a cell state to keep by zoneout", name_of(cell));
  SLUICE_CHECK(!hard_sigmoid || gates() > 1, "a plain RNN has no gates for a hard sigmoid");
  SLUICE_CHECK(!layer_norm || (cell == CellType::kLstm && !projects() && !peepholes),
               "layer norm is that of an LSTM without projection and peepholes");
  SLUICE_CHECK(dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kBFloat16 ||
                   dtype == DType::kFloat16,
               "a recurrent stack is stored in float64, float32, bfloat16 or float16, not {}",
               base::name_of(dtype));
  SLUICE_CHECK(!int8 || (dtype == DType::kFloat32 && !training),
               "8-bit products are those of float32 inference, not of {}",
               training ? std::string("training") : std::string(base::name_of(dtype)));
}

void require_int8_device(bool int8, const runtime::Device& device) {
  if (!int8 || device.runs_host_kernels()) return;
  base::fail(ErrorCode::kUnsupported,
             "8-bit products run on the CPU, not on {}; there a model with 8-bit weights runs in "
             "bfloat16",
             device.name());
}

std::span<const Candidate> candidates(const runtime::Device& device) {
  return leaves_of(device, cpu::candidates(), &DeviceKernels::recurrent, "recurrent").list;
}

std::optional<std::string> refusal(const Candidate& candidate, const Descriptor& descriptor,
                                   const runtime::Device& device) {
  if (descriptor.hard_sigmoid && !candidate.hard_sigmoid) return "it has no hard sigmoid";
  return candidate.refuse(descriptor, device);
}

Choice make_plan(const Context& context, const Descriptor& wanted,
                 std::string_view implementation) {
  wanted.validate();
  Descriptor descriptor = wanted;
  descriptor.tf32 = wanted.dtype == DType::kFloat32 && context.tf32();
  const bool inference = wanted.dtype == DType::kFloat32 && !wanted.training;
  descriptor.int8 = wanted.int8 || (inference && context.precision().int8);
  require_int8_device(descriptor.int8, context.device());
  if (!descriptor.widths.empty() && !differ(descriptor.widths)) {
    descriptor.hidden = descriptor.widths.front();
    descriptor.widths.clear();
  }
  if (!descriptor.widths.empty()) return chain_layers(context, descriptor, implementation);
  const runtime::Tuning* tuning = context.tuning();
  const std::string* named = tuning == nullptr ? nullptr : tuning->find(kEveryStack);
  if (implementation == "auto" && named != nullptr) implementation = *named;
  if (implementation == "auto" && tuning != nullptr) {
    if (auto choice = measured_choice(context, descriptor)) return std::move(*choice);
  }
  const bool automatic = implementation == "auto";
  Choice choice;
  for (const Candidate& candidate : candidates(context.device())) {
    if (automatic ? candidate.peer : candidate.name != implementation) continue;
    auto reason = refusal(candidate, descriptor, context.device());
    if (!reason && automatic && candidate.slower != nullptr) reason = candidate.slower(descriptor);
    if (reason) {
      choice.declined.push_back({candidate.name, std::move(*reason)});
      continue;
    }
    choice.plan = candidate.create(descriptor, context.device());
    return choice;
  }
  std::string reasons;
  for (const Declined& declined : choice.declined) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", declined.name, declined.reason);
  }
  if (reasons.empty()) {
    for (const Candidate& candidate : candidates(context.device())) {
      reasons += fmt::format("{}{}", reasons.empty() ? "known are " : ", ", candidate.name);
    }
  }
  base::fail(
      ErrorCode::kUnsupported, "{} of a recurrent stack can run here ({})",
      automatic ? "no implementation" : fmt::format("no implementation \"{}\"", implementation),
      reasons);
}

}  // namespace sluice::kernels::recurrent
