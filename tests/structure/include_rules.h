#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sluice::structure {

/// Reads every source below include/, src/, apps/, bench/, python/ and tests/oracle/ of `root` and
/// returns one sentence "file:line: what is wrong" for each include against the arrows of
/// docs/architecture.md, for each folder that is no room, and for each cycle between kernel
/// families. An empty result means that the tree is in order.
std::vector<std::string> check_includes(const std::filesystem::path& root);

/// One sentence for each .cpp below src/ whose own header (same folder and stem) isn't its first
/// include: compiling the .cpp is what proves that the header stands alone.
std::vector<std::string> check_own_header_first(const std::filesystem::path& root);

/// One sentence for each .cpp below src/, apps/ and bench/ that `compile_commands` (the text of
/// compile_commands.json) does not mention: a file that nobody compiles.
std::vector<std::string> check_all_compiled(const std::filesystem::path& root,
                                            const std::string& compile_commands);

}  // namespace sluice::structure
