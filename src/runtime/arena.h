#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/packed_weights.h"

namespace sluice::runtime {

/// A piece of an Arena, booked when a plan is made.
struct Slot {
  enum class Region { kSaved, kScratch };
  Region region = Region::kSaved;
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::shared_ptr<PackedMemory> packed = {};  ///< where the slot lies if not in the arena

  /// Whether it holds weights of this version, packed.
  bool holds(std::uint64_t version) const { return packed && packed->holds(version); }
  void note_packed(std::uint64_t version) const {
    if (packed) packed->note_packed(version);
  }
};

/// Books memory while plans are made; allocates none. Saved slots keep their content from forward
/// to backward (or from step to step); scratch slots share memory with those of other scopes.
class ArenaPlanner {
 public:
  ArenaPlanner() = default;
  /// Packed weights are to lie there, not in the arena; it must outlive the planner.
  explicit ArenaPlanner(PackedWeights& packed) : packed_weights_(&packed) {}

  Slot saved(DType dtype, const Shape& capacity);
  Slot saved_bytes(std::size_t bytes);
  /// Valid content only within the operation that the enclosing ScratchScope stands for.
  Slot scratch(DType dtype, const Shape& capacity);
  Slot scratch_bytes(std::size_t bytes);
  /// For weights in a layout of this name (PackedWeights::book), or of none that others know. A
  /// saved slot if there are no PackedWeights: then they are packed for every run.
  Slot packed(const std::string& layout, DType dtype, const Shape& shape);
  Slot packed_bytes(const std::string& layout, std::size_t bytes);

  std::size_t saved_total() const { return saved_; }
  std::size_t scratch_total() const { return scratch_peak_; }
  std::size_t total() const { return base::checked_add(saved_, scratch_peak_); }
  /// Bytes of the packed weights that were booked.
  std::size_t packed_total() const;
  /// Takes the memory of those that have none yet.
  void take_packed(Device& device) const;

 private:
  friend class ScratchScope;
  PackedWeights* packed_weights_ = nullptr;
  std::vector<std::shared_ptr<PackedMemory>> packed_;
  std::size_t saved_ = 0;
  std::size_t scratch_ = 0;
  std::size_t scratch_peak_ = 0;
};

/// Scratch booked while one of these lives is free for reuse when it ends. Scopes nest like calls.
class ScratchScope {
 public:
  explicit ScratchScope(ArenaPlanner& planner) : planner_(planner), mark_(planner.scratch_) {}
  ~ScratchScope() { planner_.scratch_ = mark_; }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  ArenaPlanner& planner_;
  std::size_t mark_;
};

/// The memory that a planner booked. One arena serves every extent up to the planned capacity.
class Arena {
 public:
  Arena() = default;
  Arena(Device& device, const ArenaPlanner& planner)
      : Arena(device, planner.saved_total(), planner.scratch_total()) {
    planner.take_packed(device);
  }
  /// For several planners that take turns: the largest of their totals.
  Arena(Device& device, std::size_t saved_bytes, std::size_t scratch_bytes)
      : saved_(device, saved_bytes), scratch_(device, scratch_bytes) {}

  std::size_t saved_bytes() const { return saved_.bytes(); }
  std::size_t scratch_bytes() const { return scratch_.bytes(); }

  /// The start of a slot viewed with the actual shape, which must fit in the booked bytes.
  Tensor tensor(const Slot& slot, DType dtype, const Shape& shape) const;
  void* data(const Slot& slot) const;

  /// Where its two parts begin: what work that was captured on this arena holds on to.
  const void* saved_data() const { return saved_.data(); }
  const void* scratch_data() const { return scratch_.data(); }

 private:
  Buffer saved_;
  Buffer scratch_;
};

}  // namespace sluice::runtime
