#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/buffer.h"

namespace sluice::runtime {

/// Weights in the layout that one implementation reads, in memory of their own. It knows which
/// version of the weights it holds, so that they are packed again only after they have changed.
class PackedMemory {
 public:
  struct Totals {
    std::size_t bytes = 0;
    std::int64_t packs = 0;
  };

  PackedMemory(std::size_t bytes, std::shared_ptr<Totals> totals);
  ~PackedMemory() { totals_->bytes -= bytes_; }
  PackedMemory(const PackedMemory&) = delete;
  PackedMemory& operator=(const PackedMemory&) = delete;

  /// Takes the memory unless it has it already.
  void take(Device& device);
  std::size_t bytes() const { return bytes_; }
  void* data() const { return memory_.data(); }

  bool holds(std::uint64_t version) const { return version_ == version; }
  /// To be called when packing has been queued.
  void note_packed(std::uint64_t version);

 private:
  std::size_t bytes_;
  std::shared_ptr<Totals> totals_;
  Buffer memory_;
  bool taken_ = false;
  std::uint64_t version_ = 0;  ///< 0: none
};

/// The packed weights of one model. Plans whose layouts have the same name share one memory; it
/// goes with the last of them.
class PackedWeights {
 public:
  /// The memory of this layout. One without a name is not shared.
  std::shared_ptr<PackedMemory> book(const std::string& layout, std::size_t bytes);

  /// Of all layouts that plans hold.
  std::size_t bytes() const { return totals_->bytes; }
  /// How often one was packed.
  std::int64_t packs() const { return totals_->packs; }

 private:
  std::shared_ptr<PackedMemory::Totals> totals_ = std::make_shared<PackedMemory::Totals>();
  std::map<std::string, std::weak_ptr<PackedMemory>> layouts_;
};

}  // namespace sluice::runtime
