#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sluice::interchange {

/// The lines that a conversion prints for people.
struct Account {
  std::vector<std::string> found;     ///< a convention, and where it stands
  std::vector<std::string> assumed;   ///< what the source does not say; how to say otherwise
  std::vector<std::string> left_out;  ///< of the source

  void find(std::string line) { found.push_back(std::move(line)); }
  void assume(std::string line) { assumed.push_back(std::move(line)); }
  void leave_out(std::string line) { left_out.push_back(std::move(line)); }
};

}  // namespace sluice::interchange
