#include "output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "sluice/error.h"
#include "sluice/text.h"

namespace sluice::app {

CLI::Option* add_output_option(CLI::App& command, std::string& file, const std::string& name,
                               const std::string& description) {
  CLI::Option* position = command.add_option(name, file, "The same as --output");
  return command.add_option("-o,--output", file, description)->excludes(position);
}

void require_outputs(std::initializer_list<std::string> files) {
  for (const std::string& file : files) {
    if (!file.empty()) require_writable(file);
  }
}

void require_other_than(const std::string& input, std::initializer_list<std::string> outputs) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_regular_file(input, none) && !fs::is_directory(input, none)) return;
  for (const std::string& output : outputs) {
    if (output.empty() || !fs::equivalent(input, output, none)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "'" + output + "' is the input, which would be replaced; name another output");
  }
}

void write_output(const std::string& file, std::string_view text) {
  if (!file.empty()) return write_text(file, text);
  // What stdio holds back could still be refused.
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(ErrorCode::kIo,
                std::string("cannot write to standard output: ") + std::strerror(errno));
  }
}

}  // namespace sluice::app
