#include <algorithm>

#include "base/dtype.h"
#include "kernels/loss/cuda/long_rows.h"
#include "kernels/loss/cuda/row_ring.h"
#include "kernels/loss/cuda/row_sums.h"
#include "kernels/loss/cuda/sums.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"

namespace sluice::kernels::loss::cuda {
namespace {

/// L: of the logits; G: of their gradient.
template <typename L, typename G>
struct Problem {
  Tokens tokens;
  RingRows<L> logits;
  G* gradient;  ///< may be the logits, or null
  std::int64_t gradient_stride;
  int gradient_columns;  ///< as many as of the logits, or more
  bool gradient_whole;   ///< its pieces are aligned
  TokenResult* results;
  double smoothing;
  const float* class_weights;  ///< or null
  Scale scale;
  double gradient_factor;
  Wide<L>* column_sums;  ///< [blocks, columns], of what each block writes of the gradient, or null
};

/// Of 16-bit logits a thread has so few columns that it can add up their gradient in registers.
template <typename L>
inline constexpr int kSummedSlots = sizeof(L) == 2 ? 8 : 0;

/// gradient = factor * exp(x - largest) - shift, and less at the target.
template <typename L, typename G>
struct Gradient {
  using N = Wide<L>;
  using S = Share<L>;
  G* data;  ///< the row's
  int columns;
  bool whole;
  std::int32_t target;
  N reference, factor, shift, at_target;

  /// Adds to `sums` what it writes, and to those beyond the row's end what means nothing.
  __device__ void write(int slot, const N (&x)[S::kNumbers], N (&sums)[S::kNumbers]) const {
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      const int column = S::column(slot, piece);
      N y[S::kColumns];
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) {
        y[i] = Powers<N>::of(x[piece * S::kColumns + i], reference) * factor - shift;
      }
      if (static_cast<unsigned>(target - column) < S::kColumns) {
#pragma unroll
        for (int i = 0; i < S::kColumns; ++i) {
          if (column + i == target) y[i] -= at_target;
        }
      }
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) sums[piece * S::kColumns + i] += y[i];
      runtime::cuda::Neighbours<G, S::kColumns> values;
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) values.at[i] = runtime::cuda::narrowed<G>(y[i]);
      if (whole && column + S::kColumns <= columns) {
        runtime::cuda::store_neighbours(data + column, values);
        continue;
      }
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) {
        if (column + i < columns) data[column + i] = values.at[i];
      }
    }
  }
};

template <typename L, typename G>
struct RowKernel {
  using N = Wide<L>;
  using S = Share<L>;
  using ColumnSums = N[std::max(kSummedSlots<L>, 1)][S::kNumbers];
  const Problem<L, G>& p;
  RowRing<L>& ring;
  N scale, shift, at_target;  ///< of a gradient, for a target that weighs 1

  __device__ RowKernel(const Problem<L, G>& problem, RowRing<L>& rows) : p(problem), ring(rows) {
    const double all = p.scale.value() * p.gradient_factor;
    scale = static_cast<N>(all);
    shift = static_cast<N>(all * p.smoothing / static_cast<double>(p.logits.columns));
    at_target = static_cast<N>(all * (1 - p.smoothing));
  }

  /// 1 for a target outside the vocabulary, whose loss is NaN anyway.
  __device__ N weight_of(const Target<N>& target) const {
    const bool has_weight =
        p.class_weights != nullptr && target.column >= 0 && target.column < p.logits.columns;
    return has_weight ? static_cast<N>(p.class_weights[target.column]) : 1;
  }

  __device__ RowSums<N> sums(const Target<N>& target) const {
    constexpr int kBatch = 4;
    const bool smooths = p.smoothing != 0, frees = p.gradient == nullptr || p.logits.twice;
    RowSums<N> own = no_sums<N>();
    for (int first = 0; first < p.logits.row_slots; first += kBatch) {
      const int end = min(first + kBatch, p.logits.row_slots);
      ring.wait(end - first - 1);
#pragma unroll 1
      for (int slot = first; slot < end; ++slot) {
        N x[S::kNumbers];
        ring.read(x);
        if (frees) ring.fetch();
        add_slot<L>(own, x, slot, p.logits.columns, target, smooths);
      }
    }
    return own;
  }

  __device__ void write(int n, const Target<N>& target, N weight, const RowSums<N>& row,
                        ColumnSums& column_sums) const {
    const Gradient<L, G> gradient{p.gradient + n * p.gradient_stride,
                                  p.logits.columns,
                                  p.gradient_whole,
                                  target.column,
                                  row.reference,
                                  scale * weight / row.exponentials,
                                  shift * weight,
                                  at_target * weight};
    if (!p.logits.twice) ring.pass(-p.logits.row_slots);
    if (kSummedSlots < L >> 0 && p.column_sums != nullptr) {
#pragma unroll
      for (int slot = 0; slot < kSummedSlots<L>; ++slot) {
        if (slot < p.logits.row_slots) write_slot(gradient, slot, column_sums[slot]);
      }
      return;
    }
#pragma unroll 1
    for (int slot = 0; slot < p.logits.row_slots; ++slot) {
      if (p.logits.twice) ring.wait(0);
      N unused[S::kNumbers] = {};
      write_slot(gradient, slot, unused);
    }
  }

  __device__ void store(const ColumnSums& column_sums) const {
    N* out = p.column_sums + std::int64_t{blockIdx.x} * p.logits.columns;
#pragma unroll
    for (int slot = 0; slot < kSummedSlots<L>; ++slot) {
#pragma unroll
      for (int i = 0; i < S::kNumbers; ++i) {
        const int column = S::column(slot, i / S::kColumns) + i % S::kColumns;
        if (column < p.logits.columns) out[column] = column_sums[slot][i];
      }
    }
  }

 private:
  __device__ void write_slot(const Gradient<L, G>& gradient, int slot,
                             N (&sums)[S::kNumbers]) const {
    N x[S::kNumbers];
    ring.read(x);
    ring.fetch();
    gradient.write(slot, x, sums);
  }
};

template <typename L, typename G>
__global__ void __launch_bounds__(kRingThreads, 1) long_rows_kernel(Problem<L, G> p) {
  using N = Wide<L>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ RowSums<N> parts[2][kWarps];
  const Tokens& tokens = p.tokens;
  RowRing<L> ring(p.logits, tokens, shared);
  const RowKernel<L, G> kernel(p, ring);
  const TokenWalk::Step step(tokens);
  const int blocks = static_cast<int>(gridDim.x);
  const auto column_of = [&](int n) { return n < tokens.count() ? tokens.targets[n] : -1; };
  TokenWalk walk(tokens);
  Target<N> target{column_of(walk.n), static_cast<N>(NAN)};
  target.logit = logit_of(p.logits, walk.n, target.column);
  std::int32_t next_column = column_of(walk.n + blocks);
  typename RowKernel<L, G>::ColumnSums column_sums = {};
  const bool reports = threadIdx.x == kRingThreads - 1;  // of the warp with the least to do
  int turn = 0;
  while (!walk.ended(tokens)) {
    // Asked for long before they are needed: the next target's logit, and the target after it.
    const int n = walk.n;
    const Target<N> next_target{next_column, logit_of(p.logits, n + blocks, next_column)};
    next_column = column_of(n + 2 * blocks);
    int zeros_from = 0;
    if (walk.counts(tokens)) {
      const RowSums<N> row = of_block(kernel.sums(target), parts[turn], p.smoothing != 0);
      turn ^= 1;  // for rows that count alone: the others have no barrier between them
      const N weight = kernel.weight_of(target);
      if (p.gradient != nullptr) kernel.write(n, target, weight, row, column_sums);
      zeros_from = p.logits.columns;
      if (reports) {
        p.results[n] = result_of(target, weight, row, p.smoothing, p.logits.columns);
      }
    } else if (reports) {
      p.results[n] = {};
    }
    if (p.gradient != nullptr) {
      G* gradient = p.gradient + n * p.gradient_stride;
#pragma unroll 1
      for (int j = zeros_from + static_cast<int>(threadIdx.x); j < p.gradient_columns;
           j += kRingThreads) {
        gradient[j] = runtime::cuda::narrowed<G>(0);
      }
    }
    target = next_target;
    walk.advance(tokens, step);
  }
  if (kSummedSlots < L >> 0 && p.column_sums != nullptr) kernel.store(column_sums);
}

/// Whether rows, so many elements apart, begin at multiples of so many bytes.
template <typename T>
bool rows_begin_at(const T* data, std::int64_t stride, std::int64_t bytes) {
  return stride * static_cast<std::int64_t>(sizeof(T)) % bytes == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) == 0;
}

template <typename L>
RingRows<L> ring_rows(const runtime::cuda::GpuProperties& gpu, const Tensor& logits,
                      bool has_gradient) {
  using S = Share<L>;
  constexpr std::size_t kOwnShared = 2 << 10;  // of the kernel, beside the ring
  RingRows<L> rows{};
  rows.data = logits.data_as<const L>();
  rows.stride = logits.stride(0);
  rows.columns = static_cast<int>(logits.size(1));
  rows.whole = rows_begin_at(rows.data, rows.stride, 16) &&
               (sizeof(L) == 2 || rows.columns % S::kColumns == 0);
  rows.row_slots = S::slots_for(rows.columns);
  rows.slots = static_cast<int>((gpu.shared_bytes - kOwnShared) / S::kSlotBytes);
  rows.twice = has_gradient && rows.row_slots > rows.slots;
  return rows;
}

template <typename L, typename G>
Tensor launch_rows(Stream& stream, const CrossEntropyArgs& args, TokenResult* results) {
  using S = Share<L>;
  const auto& gpu = runtime::cuda::gpu_of(stream);
  auto* gradient = args.d_logits.data_as<G>();
  Problem<L, G> p{.tokens = Tokens(args),
                  .logits = ring_rows<L>(gpu, args.logits, gradient != nullptr),
                  .gradient = gradient,
                  .gradient_stride = 0,
                  .gradient_columns = 0,
                  .gradient_whole = false,
                  .results = results,
                  .smoothing = args.label_smoothing,
                  .class_weights = args.class_weights.data_as<const float>(),
                  .scale = Scale(args),
                  .gradient_factor = args.gradient_factor,
                  .column_sums = nullptr};
  if (gradient != nullptr) {
    constexpr std::int64_t kPieceBytes = S::kColumns * static_cast<std::int64_t>(sizeof(G));
    p.gradient_stride = args.d_logits.stride(0);
    p.gradient_columns = static_cast<int>(args.d_logits.size(1));
    p.gradient_whole =
        rows_begin_at(gradient, p.gradient_stride, std::min<std::int64_t>(16, kPieceBytes));
  }
  const std::int64_t blocks = std::min<std::int64_t>(gpu.processors, p.tokens.count());
  Tensor added;
  if (args.d_bias) {
    added = args.d_logits.slice(1, 0, p.logits.columns);
    const Tensor sums(static_cast<runtime::cuda::CudaStream&>(stream).workspace(),
                      base::dtype_of<Wide<L>>(), {blocks, p.logits.columns});
    if (p.logits.row_slots <= kSummedSlots<L> &&
        static_cast<std::size_t>(sums.element_count()) * sizeof(Wide<L>) <=
            runtime::cuda::CudaStream::kWorkspaceBytes) {
      added = sums;
      p.column_sums = sums.data_as<Wide<L>>();
    }
  }
  runtime::cuda::launch(stream, "take the cross entropy", long_rows_kernel<L, G>,
                        static_cast<unsigned>(blocks), kRingThreads, p.logits.slots * S::kSlotBytes,
                        p);
  return added;
}

}  // namespace

Tensor long_rows(Stream& stream, const CrossEntropyArgs& args, TokenResult* results) {
  return base::dispatch_float(args.logits.dtype(), [&](auto tag) {
    using L = typename decltype(tag)::type;
    if constexpr (std::is_same_v<L, float>) {
      const Tensor& typed = args.d_logits ? args.d_logits : args.logits;
      if (typed.dtype() == base::DType::kBFloat16) {
        return launch_rows<L, base::BFloat16>(stream, args, results);
      }
      if (typed.dtype() == base::DType::kFloat16) {
        return launch_rows<L, base::Float16>(stream, args, results);
      }
    }
    return launch_rows<L, L>(stream, args, results);
  });
}

}  // namespace sluice::kernels::loss::cuda
