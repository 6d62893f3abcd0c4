#include "base/html.h"

#include <fmt/format.h>

namespace sluice::base {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --text: #1b1f24; --back: #fff; --line: #d8dee4; --box: #f6f8fa;
        --faint: #57606a; --bad: #b42318; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --back: #0d1117; --line: #30363d; --box: #161b22; --faint: #9198a1;
          --bad: #ff8a80; }
}
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em auto; max-width: 1100px; padding: 0 1em;
       color: var(--text); background: var(--back); }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2.2em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2em .7em; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
svg { max-width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: var(--text); }
svg .grid { stroke: var(--line); } svg .tick, svg .value { font-size: 11px; }
)";

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string html_page(std::string_view title, std::string_view style, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{3}"
      "</body>\n</html>\n",
      escape_html(title), kStyle, style, body);
}

}  // namespace sluice::base
