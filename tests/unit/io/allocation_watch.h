#pragma once

#include <cstddef>

namespace sluice::io {

/// Measures the most heap memory held at once since its making (this program's operator new).
class AllocationWatch {
 public:
  AllocationWatch();
  std::size_t peak() const;

 private:
  std::size_t at_start_;
};

}  // namespace sluice::io
