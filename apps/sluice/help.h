#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sluice::app {

/// Help as this program prints it: what to type, then each argument with its default, in lines of
/// at most 100 columns.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_positionals(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

/// "--beam N" of an option, "INPUT" of what stands without a name.
std::string spelled(const CLI::Option& option);
/// What it is for, with its default.
std::string described(const CLI::Option& option);
/// "Usage: sluice decode MODEL [INPUT] [options]", with what options are required.
std::string usage_of(const CLI::App& command);
std::vector<const CLI::App*> commands_of(const CLI::App& app);
/// "sluice bench lstm"
std::string full_name(const CLI::App& app);

/// What the words of a command line come to before any option is looked at.
struct CommandWords {
  const CLI::App* command = nullptr;     ///< the last that they name
  std::optional<std::string> unknown{};  ///< the word after it, where a command was expected
  /// Whether they end where a command was expected.
  bool ends_early = false;
};
CommandWords command_words(const CLI::App& program, int argc, const char* const* argv);

/// "there is no command 'trian'; did you mean 'train'? see sluice --help"
std::string unknown_command_message(const CommandWords& words);

/// What is wrong with a command line that names a command: "sluice decode has no option '--beem';
/// did you mean '--beam'? see sluice decode --help". To be asked after the parser threw.
std::string usage_error_message(const CommandWords& words, const CLI::ParseError& error);

}  // namespace sluice::app
