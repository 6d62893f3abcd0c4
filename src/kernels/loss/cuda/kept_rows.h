#pragma once

#include <climits>
#include <cmath>
#include <cstring>

#include "kernels/loss/cuda/row_problem.h"

/// Rows of 16-bit logits so short that a thread keeps its share in registers, from the copy in
/// shared memory until the gradient is written: the place in shared memory is free at once, and a
/// row three turns later is on its way there while this one is worked on.
namespace sluice::kernels::loss::cuda {

inline constexpr int kKeptSlots = 8;  ///< of a row, at most
inline constexpr int kKeptRows = 3;   ///< that have a place in shared memory

/// Two neighbours in a word.
template <typename L>
struct Pairs;

template <>
struct Pairs<base::BFloat16> {
  static constexpr unsigned short kMinusInfinity = 0xff80;
  static __device__ float2 widened(unsigned pair) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
  static __device__ unsigned narrowed(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    unsigned bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
  }
  /// Passes over NaN.
  static __device__ unsigned larger(unsigned a, unsigned b) {
    asm("max.bf16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};

template <>
struct Pairs<base::Float16> {
  static constexpr unsigned short kMinusInfinity = 0xfc00;
  static __device__ float2 widened(unsigned pair) {
    __half2 halves;
    memcpy(&halves, &pair, sizeof(pair));
    return __half22float2(halves);
  }
  static __device__ unsigned narrowed(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    unsigned bits;
    memcpy(&bits, &pair, sizeof(bits));
    return bits;
  }
  static __device__ unsigned larger(unsigned a, unsigned b) {
    asm("max.f16x2 %0, %0, %1;" : "+r"(a) : "r"(b));
    return a;
  }
};

/// A thread's share of a row: a piece of eight columns in each slot.
template <typename L>
struct KeptRow {
  using S = Share<L>;
  static_assert(S::kPieces == 1 && S::kColumns == 8);
  uint4 pieces[kKeptSlots];

  /// Calls use(slot, numbers) for each slot of a row.
  template <typename Use>
  __device__ void for_each_slot(int slots, const Use& use) const {
#pragma unroll
    for (int slot = 0; slot < kKeptSlots; ++slot) {
      if (slot >= slots) continue;
      const unsigned pairs[] = {pieces[slot].x, pieces[slot].y, pieces[slot].z, pieces[slot].w};
      float x[S::kColumns];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = Pairs<L>::widened(pairs[i]);
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
      }
      use(slot, x);
    }
  }
  __device__ float largest(int slots) const {
    using P = Pairs<L>;
    unsigned most = pieces[0].x;
#pragma unroll
    for (int slot = 0; slot < kKeptSlots; ++slot) {
      if (slot >= slots) continue;
      const uint4& piece = pieces[slot];
      most = P::larger(most, P::larger(P::larger(piece.x, piece.y), P::larger(piece.z, piece.w)));
    }
    const float2 pair = P::widened(most);
    return ::fmaxf(pair.x, pair.y);
  }
};

/// A thread's places of kKeptRows rows in shared memory, and the copies on their way there.
template <typename L>
class KeptCopies {
 public:
  using S = Share<L>;

  __device__ KeptCopies(const RingRows<L>& rows, const Tokens& tokens, unsigned char* shared)
      : rows_(rows),
        tokens_(tokens),
        own_(shared + threadIdx.x * 16),
        step_(tokens),
        ahead_(tokens),
        length_(length()) {
    const int last = S::column(rows.row_slots - 1, 0);
    for (int place = 0; place < kKeptRows; ++place) {
      // What lies behind the row's end in its last slot is never copied.
      if (last >= rows.columns) end_row(place, rows.columns - last);
      copy(place);
    }
  }

  /// Waits for the row whose turn it is; false if it doesn't count.
  __device__ bool wait(int place) const {
    __pipeline_wait_prior(kKeptRows - 1);
    const int last = S::column(rows_.row_slots - 1, 0);
    const bool counts = (counting_ & 1) != 0;
    if (counts && last < rows_.columns && last + S::kColumns > rows_.columns) {
      end_row(place, rows_.columns - last);
    }
    return counts;
  }
  /// What lies beyond the row's end is minus infinity.
  __device__ void read(int place, KeptRow<L>& row) const {
#pragma unroll
    for (int slot = 0; slot < kKeptSlots; ++slot) {
      if (slot >= rows_.row_slots) continue;
      row.pieces[slot] = *reinterpret_cast<const uint4*>(at(place, slot));
    }
  }
  /// Whether the row has the number in this thread's columns before that one.
  __device__ bool has_before(int place, float number, int column) const {
    bool has = false;
#pragma unroll 1
    for (int slot = 0; slot < rows_.row_slots; ++slot) {
      for (int i = 0; i < S::kColumns && S::column(slot, 0) + i < column; ++i) {
        const L value = reinterpret_cast<const L*>(at(place, slot))[i];
        has = has || runtime::cuda::widened(value) == number;
      }
    }
    return has;
  }
  /// The place is free: copies the next row there, if it counts.
  __device__ void copy(int place) {
    const bool counts = tokens_.first_time + ahead_.time < length_;
    counting_ = counting_ >> 1 | (counts ? 1 << (kKeptRows - 1) : 0);
    if (counts) {
      const L* from = rows_.data + ahead_.n * rows_.stride + S::column(0, 0);
#pragma unroll
      for (int slot = 0; slot < kKeptSlots; ++slot) {
        if (S::column(slot, 0) >= rows_.columns) break;
        __pipeline_memcpy_async(at(place, slot), from + slot * S::kSlotColumns, 16);
      }
    }
    __pipeline_commit();
    ahead_.advance(tokens_, step_);
    length_ = length();
  }

 private:
  __device__ unsigned char* at(int place, int slot) const {
    return own_ + place * rows_.row_slots * S::kSlotBytes + slot * S::kSlotBytes;
  }
  /// Of the row to be copied next; asked for a turn before that.
  __device__ int length() const {
    if (ahead_.ended(tokens_)) return 0;
    return tokens_.lengths == nullptr ? INT_MAX : tokens_.lengths[ahead_.row];
  }
  /// In the last slot.
  __device__ void end_row(int place, int from) const {
    auto* piece = reinterpret_cast<unsigned short*>(at(place, rows_.row_slots - 1));
    for (int i = max(from, 0); i < S::kColumns; ++i) piece[i] = Pairs<L>::kMinusInfinity;
  }

  const RingRows<L>& rows_;
  const Tokens& tokens_;
  unsigned char* own_;  ///< this thread's piece of the first slot
  TokenWalk::Step step_;
  TokenWalk ahead_;  ///< the row to be copied next
  int length_;
  unsigned counting_ = 0;  ///< a bit for each row that was copied, the first of them lowest
};

template <typename L>
__device__ RowSums<float> sums_of(const KeptRow<L>& row, float largest, const RingRows<L>& rows,
                                  bool smooths) {
  using S = Share<L>;
  using P = Powers<float>;
  RowSums<float> sums = no_sums<float>();
  sums.reference = ::fmaxf(sums.reference, largest * P::kScale);
  float parts[2] = {};
  row.for_each_slot(rows.row_slots, [&](int slot, float(&x)[S::kColumns]) {
    float powers[S::kColumns];
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) powers[i] = P::of(x[i], sums.reference);
    parts[slot % 2] += sum_of(powers);
  });
  sums.exponentials = parts[0] + parts[1];
  if (!smooths) return sums;
  row.for_each_slot(rows.row_slots, [&](int slot, float(&x)[S::kColumns]) {
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) {
      if (S::column(slot, 0) + i < rows.columns) sums.values += x[i];
    }
  });
  return sums;
}

/// Writes the gradient and adds it to `column_sums`, to those beyond the row's end what means
/// nothing.
template <typename L>
__device__ void write_gradient(const RowProblem<L, L>& p, int n, const KeptRow<L>& row,
                               std::int32_t target, float reference,
                               const GradientFactors<float>& factors,
                               float (&column_sums)[kKeptSlots][8]) {
  using S = Share<L>;
  L* own = p.gradient + n * p.gradient_stride + S::column(0, 0);
  asm("" : "+l"(own));  // or it is reckoned anew for each slot
  const int columns = p.logits.columns - S::column(0, 0), own_target = target - S::column(0, 0);
  row.for_each_slot(p.logits.row_slots, [&](int slot, float(&x)[S::kColumns]) {
    const int first = slot * S::kSlotColumns;
    float y[S::kColumns];
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) {
      y[i] = Powers<float>::of(x[i], reference) * factors.factor - factors.shift;
    }
    if (static_cast<unsigned>(own_target - first) < S::kColumns) {
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) {
        if (first + i == own_target) y[i] -= factors.at_target;
      }
    }
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) column_sums[slot][i] += y[i];
    if (p.gradient_whole && first + S::kColumns <= columns) {
      __stwb(reinterpret_cast<uint4*>(own + first),
             uint4{Pairs<L>::narrowed(y[0], y[1]), Pairs<L>::narrowed(y[2], y[3]),
                   Pairs<L>::narrowed(y[4], y[5]), Pairs<L>::narrowed(y[6], y[7])});
      return;
    }
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) {
      if (first + i < columns) own[first + i] = runtime::cuda::narrowed<L>(y[i]);
    }
  });
}

template <typename L>
__device__ void store_sums(const RowProblem<L, L>& p, const float (&column_sums)[kKeptSlots][8]) {
  using S = Share<L>;
  float* out = p.column_sums + std::int64_t{blockIdx.x} * p.logits.columns;
#pragma unroll
  for (int slot = 0; slot < kKeptSlots; ++slot) {
#pragma unroll
    for (int i = 0; i < S::kColumns; ++i) {
      const int column = S::column(slot, 0) + i;
      if (column < p.logits.columns) out[column] = column_sums[slot][i];
    }
  }
}

/// The targets of a block's tokens, each asked for two turns ahead, and its logit one turn.
template <typename L>
class Targets {
 public:
  __device__ Targets(const RingRows<L>& rows, const Tokens& tokens) : rows_(rows), tokens_(tokens) {
    const int first = static_cast<int>(blockIdx.x);
    next_ = column_of(first);
    ask(first);
  }
  /// The next token's, which is the so manieth.
  __device__ Target<float> take(int n) {
    // Converted no earlier than here, so that nothing waits for the logit a turn ahead.
    const Target<float> target{column_, valid_ ? runtime::cuda::widened(logit_) : NAN};
    ask(n + static_cast<int>(gridDim.x));
    return target;
  }

 private:
  __device__ std::int32_t column_of(int n) const {
    return n < tokens_.count() ? tokens_.targets[n] : -1;
  }
  __device__ void ask(int n) {
    column_ = next_;
    valid_ = column_ >= 0 && column_ < rows_.columns;
    if (valid_) logit_ = rows_.data[n * rows_.stride + column_];
    next_ = column_of(n + static_cast<int>(gridDim.x));
  }

  const RingRows<L>& rows_;
  const Tokens& tokens_;
  std::int32_t column_, next_;
  bool valid_;
  L logit_;
};

template <typename L>
__global__ void __launch_bounds__(kRingThreads, 1) kept_rows_kernel(RowProblem<L, L> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ RowSums<float> parts[2][kWarps];
  const bool smooths = p.smoothing != 0;
  const GradientFactors<float> factors(p);
  Targets<L> targets(p.logits, p.tokens);
  KeptCopies<L> copies(p.logits, p.tokens, shared);
  float column_sums[kKeptSlots][8] = {};
  const bool reports = threadIdx.x == kRingThreads - 1;  // of the warp with the least to do
  int place = 0, turn = 0;
  for (int n = static_cast<int>(blockIdx.x); n < p.tokens.count();
       n += static_cast<int>(gridDim.x)) {
    const Target<float> target = targets.take(n);
    if (!copies.wait(place)) {
      copies.copy(place);
      if (p.gradient != nullptr) {
        write_zeros(p.gradient + n * p.gradient_stride, 0, p.gradient_columns);
      }
      if (reports) p.results[n] = {};
    } else {
      KeptRow<L> row;
      copies.read(place, row);
      const float largest = row.largest(p.logits.row_slots);
      const bool ahead =
          largest > target.logit ||
          (largest == target.logit && copies.has_before(place, largest, target.column));
      copies.copy(place);
      RowSums<float> own = sums_of(row, largest, p.logits, smooths);
      own.ahead = ahead;
      const RowSums<float> all = of_block(own, parts[turn], smooths);
      turn ^= 1;  // for rows that count alone, as there is no barrier between the others
      const float weight = p.weight_of(target);
      if (p.gradient != nullptr) {
        write_gradient(p, n, row, target.column, all.reference, factors.of(weight, all),
                       column_sums);
        write_zeros(p.gradient + n * p.gradient_stride, p.logits.columns, p.gradient_columns);
      }
      if (reports) p.results[n] = result_of(target, weight, all, p.smoothing, p.logits.columns);
    }
    if (++place == kKeptRows) place = 0;
  }
  if (p.column_sums != nullptr) store_sums(p, column_sums);
}

}  // namespace sluice::kernels::loss::cuda
