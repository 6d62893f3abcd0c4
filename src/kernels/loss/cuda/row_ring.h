#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>
#include <cstring>

#include "kernels/loss/cuda/tokens.h"
#include "runtime/cuda/numbers.h"

/// Long rows of logits on their way through a block's shared memory. Each thread copies pieces of
/// 16 bytes there and reads none but its own, so that it waits for no other.
namespace sluice::kernels::loss::cuda {

inline constexpr int kRingThreads = 512;

/// What a thread has of each slot: pieces of neighbouring columns.
template <typename L>
struct Share {
  static constexpr int kColumns = 16 / static_cast<int>(sizeof(L));  ///< of a piece
  static constexpr int kPieces = sizeof(L) == 2 ? 1 : 2;
  static constexpr int kNumbers = kColumns * kPieces;
  static constexpr int kSlotColumns = kNumbers * kRingThreads;
  static constexpr std::size_t kSlotBytes = kPieces * 16 * kRingThreads;

  /// The first column of a thread's piece in the so manieth slot of a row.
  __device__ static int column(int slot, int piece) {
    return (slot * kPieces + piece) * kColumns * kRingThreads +
           static_cast<int>(threadIdx.x) * kColumns;
  }
  static int slots_for(std::int64_t columns) {
    return static_cast<int>((columns + kSlotColumns - 1) / kSlotColumns);
  }
};

/// A matrix of logits, and how its rows lie in the ring.
template <typename L>
struct RingRows {
  const L* data;
  std::int64_t stride;  ///< from a row to the next
  int columns;
  bool whole;  ///< pieces can be copied as they are: rows are aligned, and memory has all of them
  int row_slots;  ///< of a row
  int slots;      ///< of the ring, row_slots or more if a row is to stay while it is read twice
  bool twice;     ///< each row is copied twice, as it doesn't stay
};

/// The tokens of a block, every gridDim.x-th, without a division for each.
struct TokenWalk {
  int n, time, row;

  __device__ explicit TokenWalk(const Tokens& tokens)
      : n(static_cast<int>(blockIdx.x)),
        time(n / static_cast<int>(tokens.rows)),
        row(n % static_cast<int>(tokens.rows)) {}
  struct Step {
    int time, row;
    __device__ explicit Step(const Tokens& tokens)
        : time(static_cast<int>(gridDim.x) / static_cast<int>(tokens.rows)),
          row(static_cast<int>(gridDim.x) % static_cast<int>(tokens.rows)) {}
  };
  __device__ void advance(const Tokens& tokens, const Step& by) {
    n += static_cast<int>(gridDim.x);
    time += by.time;
    row += by.row;
    if (row >= tokens.rows) {
      row -= static_cast<int>(tokens.rows);
      ++time;
    }
  }
  __device__ bool ended(const Tokens& tokens) const { return n >= tokens.count(); }
  __device__ bool counts(const Tokens& tokens) const {
    return tokens.lengths == nullptr || tokens.first_time + time < tokens.lengths[row];
  }
};

/// Waits until all but the last `count` groups of this thread's copies are there, or all but eight,
/// which are the most that the processor can leave.
template <int kFrom = 0, int kEnd = 9>
__device__ void wait_for_all_but(int count) {
  if constexpr (kEnd - kFrom == 1) {
    __pipeline_wait_prior(kFrom);
  } else {
    constexpr int kMiddle = (kFrom + kEnd) / 2;
    count < kMiddle ? wait_for_all_but<kFrom, kMiddle>(count)
                    : wait_for_all_but<kMiddle, kEnd>(count);
  }
}

/// A thread's view of the ring. Slots are copied, and then read, in the order of the rows that
/// count.
template <typename L>
class RowRing {
 public:
  using S = Share<L>;
  using Number = runtime::cuda::Wide<L>;

  __device__ RowRing(const RingRows<L>& rows, const Tokens& tokens, unsigned char* shared)
      : rows_(rows),
        tokens_(tokens),
        own_(shared + threadIdx.x * 16),
        step_(tokens),
        walk_(tokens) {
    find_row();
    for (int i = 0; i < rows.slots; ++i) fetch();
  }

  /// Waits for the slots that will be read up to the so manieth from now.
  __device__ void wait(int ahead) const { wait_for_all_but(pending_ - ahead - 1); }

  /// The numbers of the slot to be read next, as float32 or float64, and goes on to the one after
  /// it. What lies beyond the row's end means nothing.
  __device__ void read(Number (&x)[S::kNumbers]) {
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      widen(*reinterpret_cast<const uint4*>(place(read_at_, piece)), x + piece * S::kColumns);
    }
    pass(1);
  }
  /// Goes on by so many slots, or back by a row's.
  __device__ void pass(int count) {
    pending_ -= count;
    read_at_ += count;
    if (read_at_ >= rows_.slots) {
      read_at_ -= rows_.slots;
    } else if (read_at_ < 0) {
      read_at_ += rows_.slots;
    }
  }
  /// The oldest slot is free: the next copy goes there. To be called once for each that was
  /// fetched.
  __device__ void fetch() {
    if (from_ != nullptr) {
#pragma unroll
      for (int piece = 0; piece < S::kPieces; ++piece) copy(S::column(slot_, piece), piece);
      if (++slot_ == rows_.row_slots) next_pass();
    }
    __pipeline_commit();
    ++pending_;
    if (++fetch_at_ == rows_.slots) fetch_at_ = 0;
  }

 private:
  __device__ unsigned char* place(int slot, int piece) const {
    return own_ + (slot * S::kPieces + piece) * 16 * kRingThreads;
  }
  static __device__ void widen(const uint4& word, Number* numbers) {
    if constexpr (std::is_same_v<L, base::BFloat16>) {
      // One instruction a number, where the compiler takes three.
      const unsigned pairs[] = {word.x, word.y, word.z, word.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        numbers[2 * i] = __uint_as_float(pairs[i] << 16);
        numbers[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
      }
    } else {
      L values[S::kColumns];
      memcpy(values, &word, sizeof(word));
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) numbers[i] = runtime::cuda::widened(values[i]);
    }
  }

  __device__ void find_row() {
    while (!walk_.ended(tokens_) && !walk_.counts(tokens_)) walk_.advance(tokens_, step_);
    from_ = walk_.ended(tokens_) ? nullptr : rows_.data + walk_.n * rows_.stride;
  }
  __device__ void copy(int column, int piece) const {
    unsigned char* to = place(fetch_at_, piece);
    if (column >= rows_.columns) return;
    if (rows_.whole) {
      __pipeline_memcpy_async(to, from_ + column, 16);
      return;
    }
#pragma unroll 1
    for (int i = 0; i < S::kColumns && column + i < rows_.columns; ++i) {
      if constexpr (sizeof(L) >= 4) {
        __pipeline_memcpy_async(to + i * sizeof(L), from_ + column + i, sizeof(L));
      }
    }
  }
  __device__ void next_pass() {
    slot_ = 0;
    again_ = rows_.twice && !again_;
    if (again_) return;
    walk_.advance(tokens_, step_);
    find_row();
  }

  const RingRows<L>& rows_;
  const Tokens& tokens_;
  unsigned char* own_;  ///< this thread's place in the first slot
  TokenWalk::Step step_;
  // What is fetched next: of which row, and which slot of it.
  TokenWalk walk_;
  const L* from_;
  bool again_ = false;
  int slot_ = 0;
  int fetch_at_ = 0, read_at_ = 0;  ///< slots of the ring
  int pending_ = 0;                 ///< fetched and not yet read
};

}  // namespace sluice::kernels::loss::cuda
