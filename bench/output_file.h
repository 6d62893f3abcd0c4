#pragma once

#include <string>
#include <string_view>

namespace sluice::bench {

/// Before the work: a file that can't be written should not cost an hour. What it holds stays until
/// there are results. Throws Error.
void require_writable(const std::string& path);

/// Replaces what the file holds. Throws Error.
void write_file(const std::string& path, std::string_view text);

}  // namespace sluice::bench
