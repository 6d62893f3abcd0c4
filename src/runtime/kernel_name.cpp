#include "runtime/kernel_name.h"

namespace sluice::runtime {
namespace {

constexpr std::size_t kMostBytes = 80;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

/// Cuts the list of parameters: what follows the first parenthesis outside of < >.
void cut_parameters(std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0) return text.resize(i);
  }
}

}  // namespace

std::string readable_kernel_name(std::string_view demangled) {
  std::string text(demangled);
  erase_all(text, "(anonymous namespace)::");
  cut_parameters(text);
  if (text.starts_with("void ")) text.erase(0, 5);
  // Qualifiers: the word before each "::".
  for (std::size_t at = text.find("::"); at != std::string::npos; at = text.find("::")) {
    std::size_t begin = at;
    while (begin > 0 && is_word(text[begin - 1])) --begin;
    text.erase(begin, at + 2 - begin);
  }
  if (text.size() > kMostBytes) text.resize(kMostBytes);
  return text;
}

}  // namespace sluice::runtime
