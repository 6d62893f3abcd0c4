#pragma once

#include <string>

namespace sluice {

/// Files by which one sequence is continued later, or on another device; empty names: none.
struct StateFiles {
  std::string from;  ///< where it goes on: what `to` was when the part before was done
  std::string to;    ///< where this part is left; may be `from`

  bool any() const { return !from.empty() || !to.empty(); }
};

}  // namespace sluice
