#include "command_page.h"

#include <sstream>
#include <vector>

#include "help.h"

namespace sluice::app {
namespace {

constexpr const char* kHead = R"(# Commands

`sluice reference commands` writes this page from the help of the program; `sluice COMMAND --help` prints the same of one command.

)";

/// What would be markup in a cell of a table.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

/// "#sluice-bench-lstm"
std::string anchor(const CLI::App& command) {
  std::string name = full_name(command);
  for (char& c : name) c = c == ' ' ? '-' : c;
  return "#" + name;
}

std::string options_of(const CLI::App& command) {
  std::string rows;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_positional() != positional) continue;
      std::string names = spelled(*option);
      for (std::size_t at = 0; (at = names.find('|', at)) != names.npos; at += 2) {
        names.insert(at, "\\");
      }
      rows += "| `" + names + "` | " + escaped(described(*option)) + " |\n";
    }
  }
  return rows.empty() ? rows : "| | |\n|---|---|\n" + rows + "\n";
}

/// A footer's examples, which are indented, as code, and all else as text.
std::string footer_of(const CLI::App& command) {
  std::string page;
  bool in_code = false;
  std::istringstream lines(command.get_footer());
  for (std::string line; std::getline(lines, line);) {
    const bool code = line.starts_with("  ");
    if (code != in_code) page += code ? "```\n" : "```\n\n";
    in_code = code;
    page += (code ? line.substr(2) : line) + "\n";
  }
  return page + (in_code ? "```\n\n" : "\n");
}

void add(const CLI::App& command, std::string& page) {
  const std::string usage = usage_of(command);
  page += "## " + full_name(command) + "\n\n" + command.get_description() + ".\n\n" + "```\n" +
          usage.substr(usage.find(' ') + 1) + "\n```\n\n";
  page += options_of(command) + footer_of(command);
  for (const CLI::App* sub : commands_of(command)) add(*sub, page);
}

void list(const CLI::App& command, std::string& page) {
  for (const CLI::App* sub : commands_of(command)) {
    page += "| [`" + full_name(*sub) + "`](" + anchor(*sub) + ") | " +
            escaped(sub->get_description()) + " |\n";
    list(*sub, page);
  }
}

}  // namespace

std::string command_page(const CLI::App& program) {
  std::string page = std::string(kHead) + "| | |\n|---|---|\n";
  list(program, page);
  page += "\n";
  for (const CLI::App* command : commands_of(program)) add(*command, page);
  page.pop_back();
  return page;
}

}  // namespace sluice::app
