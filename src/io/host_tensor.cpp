#include "io/host_tensor.h"

#include <new>
#include <stdexcept>

namespace sluice::io {

HostTensor HostTensor::make(DType dtype, const Shape& shape) {
  const std::size_t bytes =
      base::checked_mul(static_cast<std::size_t>(shape.element_count()), base::size_of(dtype));
  try {
    return {dtype, shape, std::vector<std::byte>(bytes)};
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  base::fail(ErrorCode::kOutOfMemory, "no memory for a {} tensor of shape {} ({} bytes)",
             base::name_of(dtype), shape.to_string(), bytes);
}

void HostTensor::check_access(DType wanted) const {
  SLUICE_CHECK(wanted == dtype, "a {} tensor cannot be read as {}", base::name_of(dtype),
               base::name_of(wanted));
}

HostTensor& TensorTable::add(std::string name, HostTensor tensor) {
  const bool is_new = index_.emplace(name, entries_.size()).second;
  SLUICE_CHECK(is_new, "tensor '{}' is added twice", name);
  return entries_.emplace_back(std::move(name), std::move(tensor)).second;
}

const HostTensor* TensorTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

}  // namespace sluice::io
