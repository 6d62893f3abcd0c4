#pragma once

#include <cstdint>
#include <functional>

#include "sluice/error.h"

namespace sluice::data {

/// Told of a line that a reader can't take: its number in the file, from 1, and why. A reader that
/// is given one goes on behind the line, where it else throws.
using OnBadLine = std::function<void(std::int64_t line, const Error& error)>;

/// The line that a reader refused last: the one that it has come to, unless it says which.
template <typename Reader>
std::int64_t refused_line_of(const Reader& reader) {
  if constexpr (requires { reader.refused_line(); }) {
    return reader.refused_line();
  } else {
    return reader.line_number();
  }
}

/// Calls step() until it returns false. `reader` tells which line it has come to: an error that
/// took no line is the file's, would come again, and is thrown.
template <typename Reader, typename Step>
void read_lines_of(const Reader& reader, const OnBadLine& on_bad, const Step& step) {
  for (bool more = true; more;) {
    const std::int64_t before = reader.line_number();
    try {
      more = step();
    } catch (const Error& error) {
      const bool of_a_line = error.code() == ErrorCode::kFormat && reader.line_number() > before;
      if (!on_bad || !of_a_line) throw;
      on_bad(refused_line_of(reader), error);
    }
  }
}

}  // namespace sluice::data
