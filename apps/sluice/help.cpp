#include "help.h"

#include <algorithm>
#include <cctype>

#include "sluice/text.h"

namespace sluice::app {
namespace {

constexpr std::size_t kColumn = 30, kWidth = 100;

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// `text` in lines of kWidth columns that begin at column kColumn; the first follows `left`.
std::string in_columns(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  if (out.size() + 2 > kColumn) out += "\n" + std::string(kColumn, ' ');
  std::size_t line = out.rfind('\n') == std::string::npos ? 0 : out.rfind('\n') + 1;
  if (out.size() - line < kColumn) out.resize(line + kColumn, ' ');
  bool begins = true;
  std::istringstream words(text);
  for (std::string word; words >> word; begins = false) {
    if (!begins && out.size() - line + 1 + word.size() > kWidth) {
      line = out.size() + 1;
      out += "\n" + std::string(kColumn, ' ') + word;
    } else {
      out += (begins ? "" : " ") + word;
    }
  }
  return out + "\n";
}

/// "N" of an integer, "text|json" of a choice, "" of a flag.
std::string placeholder(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (option.get_type_size() == 0 || type.empty()) return "";
  if (const std::size_t choices = type.find(":{"); choices != std::string::npos) {
    std::string names = type.substr(choices + 2);
    names.erase(std::remove(names.begin(), names.end(), '}'), names.end());
    std::replace(names.begin(), names.end(), ',', '|');
    return names;
  }
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  return type.starts_with("FLOAT") ? "X" : "TEXT";
}

/// "-o, --output"; of a flag that sets false, which the parser names with the value, no more.
std::string spaced_names(const CLI::Option& option) {
  std::string names = option.get_name(false, true);
  names.resize(std::min(names.find('{'), names.size()));
  if (const std::size_t comma = names.find(','); comma != std::string::npos) {
    names.insert(comma + 1, " ");
  }
  return names;
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

std::string described(const CLI::Option& option) {
  const std::string& text = option.get_description();
  const std::string value = option.get_default_str();
  if (value.empty() || text.find("(default") != std::string::npos) return text;
  return text + " (default: " + value + ")";
}

std::string spelled(const CLI::Option& option) {
  if (option.get_positional()) return upper(option.get_name(true, false));
  const std::string value = placeholder(option);
  return spaced_names(option) + (value.empty() ? "" : " " + value);
}

std::string usage_of(const CLI::App& command) {
  std::string usage = "Usage: " + full_name(command);
  if (!commands_of(command).empty()) return usage + " COMMAND";
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    const std::string name = spelled(*option);
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  for (const CLI::Option* option :
       command.get_options([](const CLI::Option* o) { return !o->get_positional(); })) {
    if (!option->get_required()) continue;
    usage += " --" + option->get_lnames().front() + " " + placeholder(*option);
  }
  return usage + " [options]";
}

std::string HelpFormatter::make_usage(const CLI::App* app, std::string) const {
  return usage_of(*app) + "\n";
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return app->get_description() + "\n\n";
}

std::string HelpFormatter::make_positionals(const CLI::App* app) const {
  std::string text;
  for (const CLI::Option* option :
       app->get_options([](const CLI::Option* o) { return o->get_positional(); })) {
    text += make_option(option, true);
  }
  return text.empty() ? text : "\n" + text;
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  return in_columns(sub->get_name(), sub->get_description());
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool) const {
  return in_columns(spelled(*option), described(*option));
}

CommandWords command_words(const CLI::App& program, int argc, const char* const* argv) {
  CommandWords words{&program};
  for (int i = 1;; ++i) {
    const auto commands = commands_of(*words.command);
    if (commands.empty()) return words;
    if (i == argc) {
      words.ends_early = true;
      return words;
    }
    const std::string word = argv[i];
    if (word.starts_with("-")) return words;
    const auto named = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* sub) { return sub->get_name() == word; });
    if (named == commands.end()) {
      words.unknown = word;
      return words;
    }
    words.command = *named;
  }
}

std::string unknown_command_message(const CommandWords& words) {
  std::vector<std::string> names;
  for (const CLI::App* sub : commands_of(*words.command)) names.push_back(sub->get_name());
  const std::string name = full_name(*words.command);
  const std::string nearest = did_you_mean(*words.unknown, names);
  return name + " has no command '" + *words.unknown + "'" + (nearest.empty() ? ";" : nearest) +
         " see " + name + " --help";
}

namespace {

/// What the parser made nothing of.
std::string unexpected_message(const CLI::App& command, const std::string& word) {
  if (!word.starts_with("-"))
    return full_name(command) + " does not take the argument '" + word + "';";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string nearest = did_you_mean(word.substr(0, word.find('=')), names);
  return full_name(command) + " has no option '" + word + "'" + (nearest.empty() ? ";" : nearest);
}

/// `text` with an argument's name as the help writes it: "model is required" becomes "MODEL is
/// required".
std::string with_argument_name(const CLI::App& command, const std::string& text) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true, false);
    if (text.starts_with(name + " ")) return upper(name) + text.substr(name.size());
  }
  return text;
}

}  // namespace

std::string usage_error_message(const CommandWords& words, const CLI::ParseError& error) {
  const std::string see = " see " + full_name(*words.command) + " --help";
  const std::vector<std::string> unexpected = words.command->remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unexpected.empty()) {
    return unexpected_message(*words.command, unexpected.front()) + see;
  }
  std::string text = error.what();
  // Of numbers alone: texts need no conversion.
  constexpr std::string_view kConversion = "Could not convert: ";
  if (text.starts_with(kConversion)) text = text.substr(kConversion.size()) + " is not a number";
  return with_argument_name(*words.command, text) + ";" + see;
}

}  // namespace sluice::app
