#include "training/gate_bias.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"

namespace sluice::training {
namespace {

/// The letters of a cell's gates in their order; a plain RNN has one sum and no letter for it.
std::string_view gates_of(std::string_view cell) {
  if (cell == "lstm") return "ifgo";
  return cell.starts_with("gru") ? "rzn" : "";
}

/// "f=1" as the place of its gate and its number.
std::pair<std::size_t, double> parse(std::string_view entry, std::string_view cell) {
  const std::size_t sign = entry.find('=');
  double value = NAN;
  if (sign != std::string_view::npos) {
    const char* end = entry.data() + entry.size();
    const auto read = std::from_chars(entry.data() + sign + 1, end, value);
    if (read.ec != std::errc() || read.ptr != end) value = NAN;
  }
  SLUICE_CHECK(sign == 1 && std::isfinite(value),
               "model.gate_bias has '{}'; write GATE=NUMBER with commas between, such as f=1",
               entry);
  SLUICE_CHECK(std::abs(value) <= kMostGateBias,
               "model.gate_bias has '{}'; its numbers must be at least {} and at most {}, which "
               "opens or closes a gate for good",
               entry, -kMostGateBias, kMostGateBias);
  const std::string_view gates = gates_of(cell);
  const std::size_t gate = gates.find(entry.front());
  SLUICE_CHECK(gate != std::string_view::npos, "model.gate_bias has '{}', but {}", entry,
               gates.empty() ? fmt::format("{} has no gates", cell)
                             : fmt::format("the gates of {} are {}", cell, fmt::join(gates, ", ")));
  return {gate, value};
}

}  // namespace

std::vector<double> gate_bias_of(const InitialConfig& config, std::string_view cell) {
  SLUICE_CHECK(config.forget_bias == 0 || cell == "lstm",
               "model.forget_bias is {}, but only an lstm has a forget gate; model.cell is {}",
               config.forget_bias, cell);
  std::string text = config.gate_bias;
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t'; });
  if (text.empty() && config.forget_bias == 0) return {};
  std::vector<double> biases(gates_of(cell).size());
  std::vector<bool> seen(biases.size());
  std::size_t begin = 0;
  while (!text.empty() && begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto [gate, value] = parse(std::string_view(text).substr(begin, end - begin), cell);
    SLUICE_CHECK(!seen[gate], "model.gate_bias has the gate {} twice", gates_of(cell)[gate]);
    seen[gate] = true;
    biases[gate] = value;
    begin = end + 1;
  }
  constexpr std::size_t kForget = 1;
  if (config.forget_bias != 0) {
    SLUICE_CHECK(!seen[kForget], "model.forget_bias is {}, and model.gate_bias has f, too: set one",
                 config.forget_bias);
    biases[kForget] = config.forget_bias;
  }
  return biases;
}

}  // namespace sluice::training
