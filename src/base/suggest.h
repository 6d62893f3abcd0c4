#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice::base {

/// The entry of `known` that `unknown` was most likely meant to be: the fewest insertions,
/// deletions, replacements and swaps of neighbouring characters (in bytes; the first of equals).
/// Empty if none is near: more than a third of the longer name, but at least 2, would change.
std::string nearest(std::string_view unknown, std::span<const std::string_view> known);

/// "; did you mean 'hidden'?" to end a message with, or "" if nothing is near.
std::string did_you_mean(std::string_view unknown, std::span<const std::string_view> known);

}  // namespace sluice::base
