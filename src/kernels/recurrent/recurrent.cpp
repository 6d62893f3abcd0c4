#include "kernels/recurrent/recurrent.h"

#include "base/check.h"
#include "kernels/device_kernels.h"
#include "kernels/recurrent/cpu/candidates.h"
#include "kernels/recurrent/measured_choice.h"

namespace sluice::kernels::recurrent {

std::string_view name_of(CellType cell) { return cell == CellType::kLstm ? "lstm" : "gru"; }

CellType parse_cell(std::string_view name) {
  if (name == "lstm") return CellType::kLstm;
  SLUICE_CHECK(name == "gru", "unknown cell \"{}\"; known are lstm and gru", name);
  return CellType::kGru;
}

void Descriptor::validate() const {
  const auto positive = [](std::string_view what, std::int64_t value) {
    SLUICE_CHECK(value >= 1, "a recurrent stack needs {} of at least 1, not {}", what, value);
  };
  positive("layers", layers);
  positive("an input width", input);
  positive("a hidden width", hidden);
  positive("a time capacity", time);
  positive("a capacity of rows", rows);
  SLUICE_CHECK(directions == 1 || directions == 2,
               "a recurrent stack has 1 or 2 directions, not {}", directions);
  SLUICE_CHECK(projection >= 0, "a projection has at least 0 features, not {}", projection);
  SLUICE_CHECK(projection == 0 || cell == CellType::kLstm,
               "only the LSTM has a projection; the cell is {}", name_of(cell));
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
  SLUICE_CHECK(!layer_norm || (cell == CellType::kLstm && projection == 0 && !peepholes),
               "layer norm is that of an LSTM without projection and peepholes");
  SLUICE_CHECK(dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kBFloat16 ||
                   dtype == DType::kFloat16,
               "a recurrent stack is stored in float64, float32, bfloat16 or float16, not {}",
               base::name_of(dtype));
}

std::span<const Candidate> candidates(const runtime::Device& device) {
  return leaves_of(device, cpu::candidates(), &DeviceKernels::recurrent, "recurrent").list;
}

Choice make_plan(const Context& context, const Descriptor& descriptor,
                 std::string_view implementation) {
  descriptor.validate();
  if (implementation == "auto" && context.tuning() != nullptr) {
    if (auto choice = measured_choice(context, descriptor)) return std::move(*choice);
  }
  const bool automatic = implementation == "auto";
  Choice choice;
  for (const Candidate& candidate : candidates(context.device())) {
    if (automatic ? candidate.peer : candidate.name != implementation) continue;
    if (auto reason = candidate.refuse(descriptor, context.device())) {
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
