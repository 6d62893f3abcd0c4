#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace sluice::models {

/// "<part> runs on <implementation>" and a line for each that declined, with its reason. `plan` is
/// that of a recurrent stack or an attention decoder.
template <typename Plan>
std::string explain_choice(std::string_view part, const Plan& plan) {
  std::string text = fmt::format("{} runs on {}\n", part, plan.implementation());
  for (const auto& declined : plan.declined()) {
    text += fmt::format("  {} declined: {}\n", declined.name, declined.reason);
  }
  return text;
}

}  // namespace sluice::models
