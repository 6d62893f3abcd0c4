#pragma once

#include <string>
#include <string_view>

namespace sluice::app {

/// Writes a command's answers to a file (write_text) or, if `file` is empty, to standard output.
/// Once it returns, all of them have been taken. Throws ErrorCode::kIo.
void write_output(const std::string& file, std::string_view text);

}  // namespace sluice::app
