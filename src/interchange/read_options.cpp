#include "interchange/read_options.h"

#include <fmt/ranges.h>

#include <charconv>

#include "base/check.h"
#include "base/suggest.h"

namespace sluice::interchange {

void ReadOptions::answer(std::string_view text) {
  const std::size_t equals = text.find('=');
  SLUICE_CHECK(equals != std::string_view::npos && equals > 0 && equals + 1 < text.size(),
               "'{}' is no answer; write KEY=VALUE, such as forget_bias=1", text);
  const bool is_new = answers_.emplace(text.substr(0, equals), text.substr(equals + 1)).second;
  SLUICE_CHECK(is_new, "'{}' is answered twice; leave one out", text.substr(0, equals));
}

void ReadOptions::limit(std::string_view format, std::span<const std::string_view> keys) {
  keys_.emplace(keys.begin(), keys.end());
  for (const auto& [key, value] : answers_) {
    SLUICE_CHECK(keys_->contains(key), "{} does not ask for '{}'; it may ask for: {}{}", format,
                 key, keys.empty() ? "nothing" : fmt::format("{}", fmt::join(*keys_, ", ")),
                 base::did_you_mean(key, keys));
  }
}

std::optional<std::string> ReadOptions::find(std::string_view key) const {
  SLUICE_ASSERT(!keys_ || keys_->contains(key));
  asked_.emplace(key);
  const auto found = answers_.find(key);
  if (found == answers_.end()) return std::nullopt;
  return found->second;
}

std::optional<double> ReadOptions::find_number(std::string_view key) const {
  const std::optional<std::string> text = find(key);
  if (!text) return std::nullopt;
  double number = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  SLUICE_CHECK(error == std::errc() && stop == end, "{}={} is not a number", key, *text);
  return number;
}

void ReadOptions::require_all_used() const {
  for (const auto& [key, value] : answers_) {
    SLUICE_CHECK(asked_.contains(key), "this source does not ask for '{}'; it asks for: {}", key,
                 asked_.empty() ? "nothing" : fmt::format("{}", fmt::join(asked_, ", ")));
  }
}

}  // namespace sluice::interchange
