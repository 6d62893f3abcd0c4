#include <fstream>
#include <sstream>

#include "end_to_end/workplace.h"

/// Commands that documents show run as they stand.
namespace sluice::end_to_end {
namespace {

std::string document(const std::string& name) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/docs/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The lines of a document's indented blocks that run the program.
std::vector<std::string> commands_of(const std::string& name) {
  std::vector<std::string> commands;
  for (const std::string& line : split(document(name), '\n')) {
    if (line.starts_with("    ") && line.find("sluice ") != std::string::npos) {
      commands.push_back(line.substr(4));
    }
  }
  return commands;
}

TEST(DocumentedCommands, OfDecodingRun) {
  const Workplace place;
  place.train();
  place.train_texts();
  place.write("in.txt", "a b c\nd\n");
  place.write("prefixes.txt", "\na b\n");
  const std::vector<std::string> commands = commands_of("decoding.md");
  EXPECT_GE(commands.size(), 10U);
  for (const std::string& command : commands) {
    const Outcome outcome = run_in_shell(place.path(), command);
    EXPECT_EQ(outcome.code, 0) << command << '\n' << outcome.err;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_NE(outcome.out, "") << command;
  }
}

}  // namespace
}  // namespace sluice::end_to_end
