#pragma once

#include "kernels/recurrent/cuda/wide/cell_place.h"
#include "kernels/recurrent/cuda/wide/roles.h"

/// The inputs of cells, read ahead from global memory by two warps or by TMA, because a read takes
/// as long as several steps of tiles.
namespace sluice::kernels::recurrent::cuda::wide {

/// The layout of the inputs: for each kind of values, the threads' pieces next to each other.
class InputMemory {
 public:
  __device__ InputMemory(std::byte* memory, int thread, int bytes)
      : memory_(memory), thread_(thread), bytes_(bytes) {}
  /// Two of V, which lie behind `before` bytes of each thread.
  template <typename V>
  __device__ V* pair(int slot, int before) const {
    return reinterpret_cast<V*>(memory_ + (slot * bytes_ + before) * kCellThreads) + 2 * thread_;
  }

 private:
  std::byte* memory_;
  int thread_, bytes_;
};

template <typename T>
struct ForwardInputs {
  InputMemory memory;

  __device__ ForwardInputs(std::byte* inputs, int thread)
      : memory(inputs, thread, forward_bytes(sizeof(T)).inputs) {}
  __device__ float* products(int slot, int gate) const {
    return memory.pair<float>(slot, 8 * gate);
  }
};

/// Where a byte of a row lies in a box with lines of kLine bytes (make_tensor_map).
template <int kLine>
__device__ int place_in_box(int row, int byte) {
  const int swapped = row * kLine / 128 % (kLine / 16);
  return row * kLine + (byte / 16 ^ swapped) * 16 + byte % 16;
}

/// A slot has a piece for each array: of the threads' values next to each other, or boxes.
template <typename T>
class BackwardInputs {
 public:
  using Saved = typename persistent::Four<T>::Bits;
  /// In float32 the gates were saved as they were, and make the cell's new state once more.
  static constexpr bool kReadsAfter = sizeof(T) < 4;
  static constexpr int kSlotBytes = backward_bytes(sizeof(T)).inputs * kCellThreads;
  /// Where the pieces begin, behind what was saved.
  static constexpr int kBefore = 2 * sizeof(Saved) * kCellThreads,
                       kAfter = kBefore + 8 * kCellThreads,
                       kDy = kReadsAfter ? kAfter + 8 * kCellThreads : kAfter;
  /// A line of a box of what was saved, the units that it has, and a box.
  static constexpr int kSavedLine = 128, kSavedUnits = kSavedLine / sizeof(Saved),
                       kSavedBytes = kTileRows * kSavedLine;

  template <bool kEven>
  __device__ BackwardInputs(std::byte* inputs, const CellPlace<kEven>& place, bool boxes)
      : memory_(inputs) {
    const int thread = place.thread(), row = place.row_place(), unit = place.unit_place();
    constexpr int kSaved = sizeof(Saved), kFloat = sizeof(float), kValue = sizeof(T);
    saved_ = boxes ? unit / kSavedUnits * kSavedBytes +
                         place_in_box<kSavedLine>(row, unit % kSavedUnits * kSaved)
                   : 2 * thread * kSaved;
    floats_ = boxes ? place_in_box<kUnits * kFloat>(row, unit * kFloat) : 2 * thread * kFloat;
    values_ = boxes ? place_in_box<kUnits * kValue>(row, unit * kValue) : 2 * thread * kValue;
  }
  __device__ Saved* saved(int slot, int unit = 0) const {
    // Of a swizzled pair the second may come first.
    return at<Saved>(slot, saved_ ^ unit * static_cast<int>(sizeof(Saved)));
  }
  __device__ float* c_before(int slot) const { return at<float>(slot, kBefore + floats_); }
  __device__ float* c_after(int slot) const { return at<float>(slot, kAfter + floats_); }
  __device__ T* h_before(int slot) const { return at<T>(slot, kBefore + values_); }
  __device__ T* dy(int slot) const { return at<T>(slot, kDy + values_); }

 private:
  template <typename V>
  __device__ V* at(int slot, int place) const {
    return reinterpret_cast<V*>(memory_ + slot * kSlotBytes + place);
  }

  std::byte* memory_;
  int saved_, floats_, values_;
};

/// One of the threads that read, of so many warps: for four of those that evaluate cells, whose
/// rows are eight apart, or for eight, of the rows below those as well.
template <bool kEven, int kWarps>
class Reader {
 public:
  __device__ static int thread() {
    const int thread = static_cast<int>(threadIdx.x) - (kThreads - 32 * kWarps);
    return thread / 32 * 128 + thread % 32;
  }
  __device__ explicit Reader(const CellPlace<kEven>& place) : place_(place) {}

  /// Which rows have that step.
  __device__ void choose(int tile, int time) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) chosen_[i] = time < place_.length(tile, i % 4 * 8 + i / 4);
  }
  /// Begins to copy the values of two units from `from` on, whose rows are `stride` elements apart.
  template <typename V>
  __device__ void copy(V* to, const V* from, int stride) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      if (chosen_[i]) copy_units(to + i % 4 * 64 + i / 4 * 256, from);
      from += (i == 3 ? 1 - 3 * 8 : 8) * stride;
    }
  }

 private:
  static constexpr int kRows = 8 / kWarps;

  /// What isn't there is left alone.
  template <typename V>
  __device__ void copy_units(V* to, const V* from) const {
    if constexpr (kEven) {
      if (!place_.has_unit(0)) return;
      if constexpr (sizeof(V) < 16) {
        copy_ahead<2 * sizeof(V)>(to, from);
      } else {
        copy_ahead<sizeof(V)>(to, from);
        copy_ahead<sizeof(V)>(to + 1, from + 1);
      }
    } else {
#pragma unroll
      for (int u = 0; u < kCells; ++u) {
        if (!place_.has_unit(u)) continue;
        if constexpr (sizeof(V) < 4) {
          to[u] = from[u];
        } else {
          copy_ahead<sizeof(V)>(to + u, from + u);
        }
      }
    }
  }
  template <int kBytes>
  __device__ static void copy_ahead(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)), "l"(from),
                 "n"(kBytes)
                 : "memory");
  }

  const CellPlace<kEven>& place_;
  bool chosen_[kRows];
};

/// The inputs of a tile's forward step.
template <typename Cell, typename T, bool kEven, int kWarps>
__device__ void read_inputs(const LayerForward& args, const CellPlace<kEven>& place,
                            const ForwardInputs<T>& inputs, Reader<kEven, kWarps>& reader, int tile,
                            int time, int slot) {
  const int hidden = args.extent.hidden;
  const float* from = args.input + place.template gate_at<Cell::kGates>(time, tile);
  reader.choose(tile, time);
#pragma unroll
  for (int g = 0; g < Cell::kGates; ++g) {
    reader.copy(inputs.products(slot, g), from + g * hidden,
                args.extent.directions * Cell::kGates * hidden);
  }
}

/// The inputs of a tile's backward step: what forward saved, and the gradients of its outputs.
template <typename Cell, typename T, bool kEven, int kWarps>
__device__ void read_inputs(const LayerBackward& args, const CellPlace<kEven>& place,
                            const BackwardInputs<T>& inputs, Reader<kEven, kWarps>& reader,
                            int tile, int time, int slot) {
  const int hidden = args.extent.hidden;
  const int direction = place.direction();
  const std::int64_t before = place.at(place.reversed() ? time + 1 : time, tile);
  reader.choose(tile, time);
  using Saved = typename BackwardInputs<T>::Saved;
  reader.copy(inputs.saved(slot),
              static_cast<const Saved*>(args.saved[direction]) + place.at(time, tile), hidden);
  if constexpr (Cell::kHasCellState) {
    const float* c = args.c_states[direction];
    reader.copy(inputs.c_before(slot), c + before, hidden);
    if constexpr (BackwardInputs<T>::kReadsAfter) {
      const std::int64_t after = place.at(place.reversed() ? time : time + 1, tile);
      reader.copy(inputs.c_after(slot), c + after, hidden);
    }
  } else {
    reader.copy(inputs.h_before(slot), static_cast<const T*>(args.h_states[direction]) + before,
                hidden);
  }
  if (args.dy) {
    reader.copy(inputs.dy(slot),
                static_cast<const T*>(args.dy) + place.template gate_at<1>(time, tile),
                args.extent.directions * hidden);
  }
}

/// The reading warps, up to `ahead` steps ahead: `steps` in the order in which cells take them,
/// each at time_of(item).
template <typename Cell, typename T, bool kEven, int kWarps, typename Args, typename Inputs,
          typename TimeOf>
__device__ void read_ahead(const Args& args, const CellPlace<kEven>& place, const Inputs& inputs,
                           const Items& steps, int ahead, const Barriers& barriers,
                           const TimeOf& time_of) {
  Reader<kEven, kWarps> reader(place);
  RingPlace slot;
  for (Item item = steps.first(); steps.has(item); item = steps.after(item)) {
    wait_for_phase(barriers.inputs_empty(slot.stage), slot.parity ^ 1);
    read_inputs<Cell, T, kEven, kWarps>(args, place, inputs, reader, item.tile, time_of(item),
                                        slot.stage);
    asm volatile(
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barriers.inputs_full(slot.stage))
        : "memory");
    // That speaks for copies alone, not for values which were stored (see copy_units).
    if constexpr (!kEven) arrive(barriers.inputs_full(slot.stage));
    slot.next(ahead);
  }
}

/// Reads the inputs of a backward step by TMA, to `to`; called by one thread.
template <typename Cell, typename T, typename TimeOf>
__device__ void read_boxes_ahead(const LayerBackward& args, const BackwardBoxes& boxes,
                                 const Part& part, const Items& steps, int ahead, std::uint32_t to,
                                 const Barriers& barriers, const TimeOf& time_of) {
  using Inputs = BackwardInputs<T>;
  constexpr bool kReadsAfter = Cell::kHasCellState && Inputs::kReadsAfter;
  constexpr int kTileCells = kTileRows * kUnits, kSavedBoxes = kUnits / Inputs::kSavedUnits,
                kStateBytes = kTileCells * (Cell::kHasCellState ? sizeof(float) : sizeof(T)),
                kBytes = kSavedBoxes * Inputs::kSavedBytes + kStateBytes * (kReadsAfter ? 2 : 1);
  const int unit = part.chunk * kChunkUnits + part.quarter * kUnits;
  const int bytes = kBytes + (args.dy ? kTileCells * static_cast<int>(sizeof(T)) : 0);
  const CUtensorMap &saved = boxes.saved[part.direction], &states = boxes.before[part.direction];
  RingPlace slot;
  for (Item item = steps.first(); steps.has(item); item = steps.after(item)) {
    wait_for_phase(barriers.inputs_empty(slot.stage), slot.parity ^ 1);
    const std::uint32_t full = barriers.inputs_full(slot.stage);
    const std::uint32_t at = to + slot.stage * Inputs::kSlotBytes;
    const int row = (part.first_tile + item.tile) * kTileRows, time = time_of(item);
    arrive_and_expect(full, bytes);
#pragma unroll
    for (int i = 0; i < kSavedBoxes; ++i) {
      copy_box(at + i * Inputs::kSavedBytes, saved, (unit + i * Inputs::kSavedUnits) * 4, row, time,
               full);
    }
    copy_box(at + Inputs::kBefore, states, unit, row, time + part.direction, full);
    if constexpr (kReadsAfter) {
      copy_box(at + Inputs::kAfter, states, unit, row, time + 1 - part.direction, full);
    }
    if (args.dy) {
      const int column = part.direction * args.extent.hidden + unit;
      copy_box(at + Inputs::kDy, boxes.dy, column, row, time, full);
    }
    slot.next(ahead);
  }
}

}  // namespace sluice::kernels::recurrent::cuda::wide
