#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

namespace sluice::app {

/// `-o,--output` of a command that always writes files, which took them by position before and
/// still does, under `name`; returns the option. The command refuses an empty one.
CLI::Option* add_output_option(CLI::App& command, std::string& file, const std::string& name,
                               const std::string& description);

/// Before the work: throws what writing these files would throw after it (require_writable). An
/// empty name is none.
void require_outputs(std::initializer_list<std::string> files);

/// Throws ErrorCode::kInvalidArgument if one of the outputs, which may be empty names, is the file
/// or folder of the input, which it would replace.
void require_other_than(const std::string& input, std::initializer_list<std::string> outputs);

/// Writes a command's answers to a file (write_text) or, if `file` is empty, to standard output.
/// Once it returns, all of them have been taken. Throws ErrorCode::kIo.
void write_output(const std::string& file, std::string_view text);

}  // namespace sluice::app
