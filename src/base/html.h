#pragma once

#include <string>
#include <string_view>

namespace sluice::base {

/// Text for HTML and SVG: what would be markup is spelled out.
std::string escape_html(std::string_view text);

/// A page that needs no other file, in the look of all reports: `style` is CSS beside the common
/// one, `body` the HTML that follows the heading `title` (which is text).
std::string html_page(std::string_view title, std::string_view style, std::string_view body);

}  // namespace sluice::base
