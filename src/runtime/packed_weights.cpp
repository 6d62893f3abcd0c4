#include "runtime/packed_weights.h"

#include <utility>

#include "base/check.h"

namespace sluice::runtime {

PackedMemory::PackedMemory(std::size_t bytes, std::shared_ptr<Totals> totals)
    : bytes_(bytes), totals_(std::move(totals)) {
  totals_->bytes += bytes_;
}

void PackedMemory::take(Device& device) {
  if (taken_) return;
  memory_ = Buffer(device, bytes_);
  taken_ = true;
}

void PackedMemory::note_packed(std::uint64_t version) {
  version_ = version;
  ++totals_->packs;
}

std::shared_ptr<PackedMemory> PackedWeights::book(const std::string& layout, std::size_t bytes) {
  const auto made = [&] { return std::make_shared<PackedMemory>(bytes, totals_); };
  if (layout.empty()) return made();
  std::weak_ptr<PackedMemory>& known = layouts_[layout];
  std::shared_ptr<PackedMemory> memory = known.lock();
  if (!memory) known = memory = made();
  SLUICE_ASSERT(memory->bytes() == bytes);
  return memory;
}

}  // namespace sluice::runtime
