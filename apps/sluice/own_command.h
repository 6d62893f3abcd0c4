#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace sluice::app {

/// The program and its arguments, as it was started.
inline std::vector<std::string> own_command() {
  std::ifstream arguments("/proc/self/cmdline");
  std::vector<std::string> command;
  for (std::string one; std::getline(arguments, one, '\0');) command.push_back(one);
  return command;
}

}  // namespace sluice::app
