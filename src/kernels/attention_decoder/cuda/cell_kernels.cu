#include "base/check.h"
#include "kernels/attention_decoder/cuda/cell_kernels.h"
#include "kernels/attention_decoder/cuda/cells.h"
#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

constexpr int kThreads = 128;
/// Blocks that a multiprocessor shall have room for, so that those of some hundred rows begin at
/// once.
template <typename S>
constexpr int kBlocksOfProcessor = sizeof(S) == 2 ? 8 : 1;

template <typename S>
using MathOf = std::conditional_t<sizeof(S) == 2, recurrent::cuda::FastMath, PreciseMath>;

/// Factors of four units' outputs: 0 where dropped.
template <typename W>
__device__ Four<W> factors_of(const Dropout& dropout, std::int64_t row, std::int64_t t,
                              std::int64_t unit) {
  Four<W> factors;
  if (dropout.scale == 0) {
    for (W& factor : factors.x) factor = W(1);
    return factors;
  }
  const auto id =
      static_cast<std::uint32_t>(dropout.row_ids == nullptr ? row : dropout.row_ids[row]);
  const auto words = dropout.source.key().words(id, static_cast<std::uint32_t>(t),
                                                static_cast<std::uint32_t>(unit / kVector));
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    factors.x[i] = words[static_cast<std::size_t>(i)] >= dropout.threshold
                       ? static_cast<W>(dropout.scale)
                       : W(0);
  }
  return factors;
}

/// What four units' sums of a block have beside the product.
template <typename Cell, typename S>
__device__ Four<Wide<S>> load_biases(const CellArgs<S>& args, std::int64_t row, std::int64_t unit,
                                     int block) {
  const std::int64_t at = block * args.hidden + unit;
  Four<Wide<S>> sums = load_four(args.bias + at);
  if (args.pre == nullptr || (Cell::kHasHiddenBlock && block + 1 == Cell::kBlocks)) return sums;
  const Four<Wide<S>> pre = load_four(args.pre + row * args.pre_stride + at);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums.x[i] += pre.x[i];
  return sums;
}
template <typename Cell, typename S>
__device__ void add_product(const CellArgs<S>& args, std::int64_t row, std::int64_t unit, int block,
                            Four<Wide<S>>& sums) {
  const Four<Wide<S>> product =
      load_four(args.sums + (row * Cell::kBlocks + block) * args.hidden + unit);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums.x[i] += product.x[i];
}

/// What four units of a row write.
template <typename W, int kBlocks>
struct Outcome {
  Four<W> gates[kBlocks], c, h, y;
};

/// One unit's of each block.
template <int kBlocks, typename W>
struct Blocks {
  W x[kBlocks];

  __device__ Blocks(const Four<W> (&of_four)[kBlocks], int i) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) x[block] = of_four[block].x[i];
  }
};

/// Of an active row, from the whole sums. Padding is computed as well, so that no branch keeps
/// units apart.
template <typename Cell, typename S>
__device__ Outcome<Wide<S>, Cell::kBlocks> outcome_of(const CellArgs<S>& args, std::int64_t unit,
                                                      const Four<Wide<S>> (&sums)[Cell::kBlocks],
                                                      const Four<Wide<S>>& factors,
                                                      const Four<Wide<S>>& h_prev,
                                                      const Four<Wide<S>>& c_prev) {
  Outcome<Wide<S>, Cell::kBlocks> out;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const Blocks of_unit(sums, i);
    const auto cell = Cell::template forward<MathOf<S>>(of_unit.x, h_prev.x[i], c_prev.x[i]);
    const bool exists = unit + i < args.units;
#pragma unroll
    for (int block = 0; block < Cell::kBlocks; ++block) {
      out.gates[block].x[i] = exists ? cell.gates[block] : 0;
    }
    out.c.x[i] = exists ? cell.c : 0;
    out.h.x[i] = exists ? cell.h : 0;
    out.y.x[i] = exists ? cell.h * factors.x[i] : 0;
  }
  return out;
}

/// A thread for four units of a row.
template <typename Cell, typename S>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor<S>) cell_kernel(CellArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden) return;
  Four<W> sums[Cell::kBlocks];
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    sums[block] = load_biases<Cell>(args, row, unit, block);
  }
  Four<W> h_prev, c_prev;
  if constexpr (Cell::kHasCellState) c_prev = load_four(args.c_prev + row * args.hidden + unit);
  const bool active = args.active.at(row);
  if (Cell::kReadsState || !active) h_prev = load_four(args.h_prev + row * args.h_stride + unit);
  const Four<W> factors = factors_of<W>(args.dropout, row, args.active.t, unit);
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    add_product<Cell>(args, row, unit, block, sums[block]);
  }
  Outcome<W, Cell::kBlocks> out;
  if (active) {
    out = outcome_of<Cell>(args, unit, sums, factors, h_prev, c_prev);
  } else {
    out.c = c_prev;
    out.h = h_prev;
  }
  store_four(args.h + row * args.h_stride + unit, out.h);
  store_four(args.y + row * args.y_stride + unit, out.y);
  if constexpr (Cell::kHasCellState) store_four(args.c + row * args.hidden + unit, out.c);
  if (args.saved == nullptr) return;
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    store_four(args.saved + (row * Cell::kBlocks + block) * args.hidden + unit, out.gates[block]);
  }
}

/// What forward has left of four units of a row, and their cell states' gradient.
template <typename Cell, typename S>
struct CellInputs {
  using W = Wide<S>;
  Four<W> saved[Cell::kBlocks], h_prev, c_prev, c, dc;

  __device__ CellInputs(const CellBackwardArgs<S>& args, std::int64_t row, std::int64_t unit) {
#pragma unroll
    for (int block = 0; block < Cell::kBlocks; ++block) {
      saved[block] = load_four(args.saved + (row * Cell::kBlocks + block) * args.hidden + unit);
    }
    if constexpr (Cell::kReadsState) h_prev = load_four(args.h_prev + row * args.h_stride + unit);
    if constexpr (Cell::kHasCellState) {
      const std::int64_t at = row * args.hidden + unit;
      c_prev = load_four(args.c_prev + at);
      c = load_four(args.c + at);
      dc = load_four(args.d_cell + at);
    }
  }
};

template <typename Cell, typename S>
__global__ void __launch_bounds__(kThreads, kBlocksOfProcessor<S>)
    cell_backward_kernel(CellBackwardArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden) return;
  const std::int64_t at = row * args.hidden + unit;
  CellInputs<Cell, S> in(args, row, unit);
  Four<W> dh = load_four(args.carried + row * args.carried_stride + unit);
  const Four<W> above = load_four(args.above + row * args.above_stride + unit);
  const bool active = args.active.at(row), next_active = args.active.next().at(row);
  // Past the product comes only what rows hand on behind their ends, but for cells that read h.
  const bool has_hidden = Cell::kReadsState || args.last || !next_active;
  if (has_hidden) {
    const Four<W> d_hidden = load_four(args.d_hidden + at);
#pragma unroll
    for (int i = 0; i < kVector; ++i) dh.x[i] += d_hidden.x[i];
  }
  const Four<W> factors = factors_of<W>(args.dropout, row, args.active.t, unit);
  Four<W> d_gates[Cell::kBlocks], direct;
  if (active) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const Blocks gates(in.saved, i);
      const bool exists = unit + i < args.units;
      W sums[Cell::kBlocks];
      Cell::template backward<MathOf<S>>(gates.x, in.h_prev.x[i], in.c_prev.x[i], in.c.x[i],
                                         dh.x[i] + factors.x[i] * above.x[i], in.dc.x[i],
                                         direct.x[i], sums);
#pragma unroll
      for (int block = 0; block < Cell::kBlocks; ++block) {
        d_gates[block].x[i] = exists ? within(sums[block], args.limit) : 0;
      }
      in.dc.x[i] = exists ? in.dc.x[i] : 0;
      direct.x[i] = exists ? direct.x[i] : 0;
    }
    if constexpr (Cell::kHasCellState) store_four(args.d_cell + at, in.dc);
  } else {
    // The state stayed, and so does its gradient.
#pragma unroll
    for (int i = 0; i < kVector; ++i) direct.x[i] = unit + i < args.units ? dh.x[i] : W(0);
  }
  if (has_hidden) store_four(args.d_hidden + at, direct);
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    store_four(args.d_gates + (row * Cell::kBlocks + block) * args.hidden + unit, d_gates[block]);
  }
}

template <typename S>
__global__ void __launch_bounds__(kThreads) reset_kernel(CellArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden) return;
  Four<W> reset;
  if (args.active.at(row)) {
    Four<W> sums = load_biases<GruResetBefore>(args, row, unit, 0);
    add_product<GruResetBefore>(args, row, unit, 0, sums);
    const Four<W> h_prev = load_four(args.h_prev + row * args.h_stride + unit);
#pragma unroll
    for (int i = 0; i < kVector; ++i) reset.x[i] = MathOf<S>::logistic(sums.x[i]) * h_prev.x[i];
  }
  store_four(args.reset + row * args.hidden + unit, reset);
}

template <typename S>
__global__ void __launch_bounds__(kThreads) reset_backward_kernel(CellBackwardArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden || !args.active.at(row)) return;
  const std::int64_t at = row * args.hidden + unit;
  const std::int64_t gate = row * GruResetBefore::kBlocks * args.hidden + unit;
  const Four<W> r = load_four(args.saved + gate);
  const Four<W> h_prev = load_four(args.h_prev + row * args.h_stride + unit);
  const Four<W> d_reset = load_four(args.d_reset + at);
  Four<W> dh = load_four(args.d_hidden + at), d_gate;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    dh.x[i] += d_reset.x[i] * r.x[i];
    d_gate.x[i] = d_reset.x[i] * h_prev.x[i] * r.x[i] * (W(1) - r.x[i]);
  }
  store_four(args.d_hidden + at, dh);
  store_four(args.d_gates + gate, d_gate);
}

dim3 grid_of(std::int64_t rows, std::int64_t width) {
  return {runtime::cuda::blocks_for(width / kVector, kThreads), static_cast<unsigned>(rows)};
}

/// Calls body(Cell{}).
template <typename Body>
auto with_cell(CellType cell, const Body& body) {
  if (cell == CellType::kLstm) return body(Lstm{});
  if (cell == CellType::kGru) return body(Gru{});
  if (cell == CellType::kGruResetBefore) return body(GruResetBefore{});
  if (cell == CellType::kRnnTanh) return body(Rnn<Tanh>{});
  SLUICE_ASSERT(cell == CellType::kRnnRelu);
  return body(Rnn<Relu>{});
}

}  // namespace

template <typename S>
void run_cell(Stream& stream, CellType cell, const CellArgs<S>& args) {
  const auto kernel = with_cell(cell, [](auto type) { return cell_kernel<decltype(type), S>; });
  runtime::cuda::launch(stream, "run a decoder's cell", kernel, grid_of(args.rows, args.hidden),
                        kThreads, 0, args);
}

template <typename S>
void run_cell_backward(Stream& stream, CellType cell, const CellBackwardArgs<S>& args) {
  const auto kernel =
      with_cell(cell, [](auto type) { return cell_backward_kernel<decltype(type), S>; });
  runtime::cuda::launch(stream, "run a decoder's cell backward", kernel,
                        grid_of(args.rows, args.hidden), kThreads, 0, args);
}

template <typename S>
void reset_state(Stream& stream, const CellArgs<S>& args) {
  runtime::cuda::launch(stream, "reset a decoder's state", reset_kernel<S>,
                        grid_of(args.rows, args.hidden), kThreads, 0, args);
}

template <typename S>
void reset_state_backward(Stream& stream, const CellBackwardArgs<S>& args) {
  runtime::cuda::launch(stream, "reset a decoder's state backward", reset_backward_kernel<S>,
                        grid_of(args.rows, args.hidden), kThreads, 0, args);
}

template void run_cell(Stream&, CellType, const CellArgs<double>&);
template void run_cell_backward(Stream&, CellType, const CellBackwardArgs<double>&);
template void reset_state(Stream&, const CellArgs<double>&);
template void reset_state_backward(Stream&, const CellBackwardArgs<double>&);
template void run_cell(Stream&, CellType, const CellArgs<float>&);
template void run_cell_backward(Stream&, CellType, const CellBackwardArgs<float>&);
template void reset_state(Stream&, const CellArgs<float>&);
template void reset_state_backward(Stream&, const CellBackwardArgs<float>&);
template void run_cell(Stream&, CellType, const CellArgs<__nv_bfloat16>&);
template void run_cell_backward(Stream&, CellType, const CellBackwardArgs<__nv_bfloat16>&);
template void reset_state(Stream&, const CellArgs<__nv_bfloat16>&);
template void reset_state_backward(Stream&, const CellBackwardArgs<__nv_bfloat16>&);
template void run_cell(Stream&, CellType, const CellArgs<__half>&);
template void run_cell_backward(Stream&, CellType, const CellBackwardArgs<__half>&);
template void reset_state(Stream&, const CellArgs<__half>&);
template void reset_state_backward(Stream&, const CellBackwardArgs<__half>&);

}  // namespace sluice::kernels::attention_decoder::cuda
