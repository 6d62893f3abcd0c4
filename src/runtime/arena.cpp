#include "runtime/arena.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

constexpr std::size_t kSlotAlignment = 64;

std::size_t bytes_of(DType dtype, const Shape& shape) {
  return base::checked_mul(base::size_of(dtype), static_cast<std::size_t>(shape.element_count()));
}

}  // namespace

Slot ArenaPlanner::saved(DType dtype, const Shape& capacity) {
  return saved_bytes(bytes_of(dtype, capacity));
}

Slot ArenaPlanner::saved_bytes(std::size_t bytes) {
  const Slot slot{Slot::Region::kSaved, saved_, bytes};
  saved_ = base::checked_add(saved_, base::align_up(bytes, kSlotAlignment));
  return slot;
}

Slot ArenaPlanner::scratch(DType dtype, const Shape& capacity) {
  return scratch_bytes(bytes_of(dtype, capacity));
}

Slot ArenaPlanner::scratch_bytes(std::size_t bytes) {
  const Slot slot{Slot::Region::kScratch, scratch_, bytes};
  scratch_ = base::checked_add(scratch_, base::align_up(bytes, kSlotAlignment));
  scratch_peak_ = std::max(scratch_peak_, scratch_);
  return slot;
}

Slot ArenaPlanner::packed(const std::string& layout, DType dtype, const Shape& shape) {
  return packed_bytes(layout, bytes_of(dtype, shape));
}

Slot ArenaPlanner::packed_bytes(const std::string& layout, std::size_t bytes) {
  if (packed_weights_ == nullptr) return saved_bytes(bytes);
  packed_.push_back(packed_weights_->book(layout, bytes));
  return {.offset = 0, .bytes = bytes, .packed = packed_.back()};
}

std::size_t ArenaPlanner::packed_total() const {
  std::size_t total = 0;
  for (const auto& memory : packed_) total += memory->bytes();
  return total;
}

void ArenaPlanner::take_packed(Device& device) const {
  for (const auto& memory : packed_) memory->take(device);
}

Tensor Arena::tensor(const Slot& slot, DType dtype, const Shape& shape) const {
  const Tensor view(data(slot), dtype, shape);
  SLUICE_ASSERT(view.byte_size() <= slot.bytes);
  return view;
}

void* Arena::data(const Slot& slot) const {
  if (slot.packed) return slot.packed->data();
  const Buffer& buffer = slot.region == Slot::Region::kSaved ? saved_ : scratch_;
  return static_cast<std::byte*>(buffer.data()) + slot.offset;
}

}  // namespace sluice::runtime
