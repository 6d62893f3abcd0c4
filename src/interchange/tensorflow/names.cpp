#include "interchange/tensorflow/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace sluice::interchange::tensorflow {
namespace {

constexpr std::size_t kMostDigits = 6;

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string scope_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string() : std::string(name.substr(0, slash));
}

std::string last_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return std::string(slash == std::string_view::npos ? name : name.substr(slash + 1));
}

bool lies_in(std::string_view name, std::string_view scope) {
  return name.starts_with(scope) && (name.size() == scope.size() || name[scope.size()] == '/');
}

NumberedName numbered(std::string_view component) {
  std::size_t end = component.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(component[end - 1])) != 0) --end;
  const std::string_view digits = component.substr(end);
  if (digits.empty() || digits.size() > kMostDigits) return {std::string(component), {}};
  if (end > 0 && component[end - 1] == '_') --end;
  return {std::string(component.substr(0, end)), std::stoi(std::string(digits))};
}

std::optional<int> layer_number(std::string_view component) {
  const NumberedName name = numbered(component);
  return lower(name.stem) == "cell" ? name.number : std::nullopt;
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace sluice::interchange::tensorflow
