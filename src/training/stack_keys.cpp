#include "training/stack_keys.h"

#include <charconv>

#include "base/check.h"

namespace sluice::training {
namespace {

/// Numbers between spaces or commas.
std::vector<std::int64_t> read_widths(std::string_view key, std::string_view text) {
  constexpr std::string_view kSeparators = " ,";
  std::vector<std::int64_t> widths;
  for (std::size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    std::int64_t width = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), width);
    SLUICE_CHECK(error == std::errc() && rest == word.data() + word.size(),
                 "model.{} is '{}'; write widths such as '320 320 448'", key, text);
    widths.push_back(width);
    begin = text.find_first_not_of(kSeparators, end);
  }
  return widths;
}

}  // namespace

models::StackConfig stack_config_of(const ModelConfig& model) {
  models::StackConfig stack;
  stack.cell = model.cell;
  stack.hidden = model.hidden;
  stack.widths = read_widths("widths", model.widths);
  stack.layers = model.layers;
  stack.bidirectional = model.bidirectional;
  stack.projections = read_widths("projections", model.projections);
  stack.dropout = model.dropout;
  stack.peepholes = model.peepholes;
  stack.layer_norm = model.layer_norm;
  stack.zoneout_h = model.zoneout_h;
  stack.zoneout_c = model.zoneout_c;
  stack.recurrent_dropout = model.recurrent_dropout;
  stack.hard_sigmoid = model.hard_sigmoid;
  return stack;
}

}  // namespace sluice::training
