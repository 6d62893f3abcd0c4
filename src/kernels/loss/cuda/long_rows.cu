#include <algorithm>

#include "base/dtype.h"
#include "kernels/loss/cuda/kept_rows.h"
#include "kernels/loss/cuda/long_rows.h"
#include "kernels/loss/cuda/row_problem.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/neighbours.h"

namespace sluice::kernels::loss::cuda {
namespace {

/// A row's gradient on its way to memory.
template <typename L, typename G>
struct Gradient {
  using N = Wide<L>;
  using S = Share<L>;
  G* data;  ///< the row's
  int columns;
  bool whole;
  std::int32_t target;
  N reference;
  GradientFactors<N> factors;

  __device__ void write(int slot, const N (&x)[S::kNumbers]) const {
#pragma unroll
    for (int piece = 0; piece < S::kPieces; ++piece) {
      const int column = S::column(slot, piece);
      N y[S::kColumns];
#pragma unroll
      for (int i = 0; i < S::kColumns; ++i) {
        y[i] =
            Powers<N>::of(x[piece * S::kColumns + i], reference) * factors.factor - factors.shift;
      }
      if (static_cast<unsigned>(target - column) < S::kColumns) {
#pragma unroll
        for (int i = 0; i < S::kColumns; ++i) {
          if (column + i == target) y[i] -= factors.at_target;
        }
      }
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
  const RowProblem<L, G>& p;
  RowRing<L>& ring;

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

  __device__ void write(int n, const Target<N>& target, N reference,
                        const GradientFactors<N>& factors) const {
    const Gradient<L, G> gradient{p.gradient + n * p.gradient_stride,
                                  p.logits.columns,
                                  p.gradient_whole,
                                  target.column,
                                  reference,
                                  factors};
    if (!p.logits.twice) ring.pass(-p.logits.row_slots);
#pragma unroll 1
    for (int slot = 0; slot < p.logits.row_slots; ++slot) {
      if (p.logits.twice) ring.wait(0);
      N x[S::kNumbers];
      ring.read(x);
      ring.fetch();
      gradient.write(slot, x);
    }
  }
};

template <typename L, typename G>
__global__ void __launch_bounds__(kRingThreads, 1) long_rows_kernel(RowProblem<L, G> p) {
  using N = Wide<L>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ RowSums<N> parts[2][kWarps];
  const Tokens& tokens = p.tokens;
  RowRing<L> ring(p.logits, tokens, shared);
  const RowKernel<L, G> kernel{p, ring};
  const GradientFactors<N> factors(p);
  const TokenWalk::Step step(tokens);
  const int blocks = static_cast<int>(gridDim.x);
  const auto column_of = [&](int n) { return n < tokens.count() ? tokens.targets[n] : -1; };
  TokenWalk walk(tokens);
  Target<N> target{column_of(walk.n), static_cast<N>(NAN)};
  target.logit = logit_of(p.logits, walk.n, target.column);
  std::int32_t next_column = column_of(walk.n + blocks);
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
      turn ^= 1;  // for rows that count alone, as there is no barrier between the others
      const N weight = p.weight_of(target);
      if (p.gradient != nullptr) kernel.write(n, target, row.reference, factors.of(weight, row));
      zeros_from = p.logits.columns;
      if (reports) {
        p.results[n] = result_of(target, weight, row, p.smoothing, p.logits.columns);
      }
    } else if (reports) {
      p.results[n] = {};
    }
    if (p.gradient != nullptr) {
      write_zeros(p.gradient + n * p.gradient_stride, zeros_from, p.gradient_columns);
    }
    target = next_target;
    walk.advance(tokens, step);
  }
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
  RowProblem<L, G> p{.tokens = Tokens(args),
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
  const auto launch = [&](auto kernel, std::size_t shared_bytes) {
    runtime::cuda::launch(stream, "take the cross entropy", kernel, static_cast<unsigned>(blocks),
                          kRingThreads, shared_bytes, p);
  };
  Tensor added;
  if (args.d_bias) added = args.d_logits.slice(1, 0, p.logits.columns);
  if constexpr (sizeof(L) == 2) {
    // As many as the kernel may need, or as this GPU has, which keeps shorter rows then. Either is
    // more than a kernel has without asking.
    const int slots = std::min(kKeptRows * kKeptSlots, p.logits.slots);
    if (kKeptRows * p.logits.row_slots <= slots) {
      const Tensor sums(static_cast<runtime::cuda::CudaStream&>(stream).workspace(),
                        base::DType::kFloat32, {blocks, p.logits.columns});
      if (args.d_bias && static_cast<std::size_t>(sums.element_count()) * sizeof(float) <=
                             runtime::cuda::CudaStream::kWorkspaceBytes) {
        added = sums;
        p.column_sums = sums.data_as<float>();
      }
      launch(kept_rows_kernel<L>, slots * S::kSlotBytes);
      return added;
    }
  }
  launch(long_rows_kernel<L, G>, p.logits.slots * S::kSlotBytes);
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
