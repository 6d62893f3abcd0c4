#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace sluice::oracle {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::invalid_argument("oracle: " + what);
}

inline void check_size(const char* name, size_t size, int64_t expected) {
  if (size == static_cast<size_t>(expected)) return;
  fail(std::string(name) + " has " + std::to_string(size) + " elements, the shape says " +
       std::to_string(expected));
}

inline void check_size_or_empty(const char* name, size_t size, int64_t expected) {
  if (size != 0) check_size(name, size, expected);
}

}  // namespace sluice::oracle
