#include "base/check.h"
#include "kernels/attention_decoder/cuda/cell_kernels.h"
#include "kernels/attention_decoder/cuda/cells.h"
#include "kernels/attention_decoder/cuda/vectors.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

constexpr int kThreads = 128;

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

/// The sums of four units for one block.
template <typename Cell, typename S>
__device__ Four<Wide<S>> load_sums(const CellArgs<S>& args, std::int64_t row, std::int64_t unit,
                                   int block) {
  const std::int64_t at = block * args.hidden + unit;
  Four<Wide<S>> sums = load_four(args.sums + row * Cell::kBlocks * args.hidden + at);
  const Four<Wide<S>> bias = load_four(args.bias + at);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums.x[i] += bias.x[i];
  if (args.pre == nullptr || (Cell::kHasHiddenBlock && block + 1 == Cell::kBlocks)) return sums;
  const Four<Wide<S>> pre = load_four(args.pre + row * args.pre_stride + at);
#pragma unroll
  for (int i = 0; i < kVector; ++i) sums.x[i] += pre.x[i];
  return sums;
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

template <typename Cell, typename S>
__device__ Outcome<Wide<S>, Cell::kBlocks> outcome_of(const CellArgs<S>& args, std::int64_t row,
                                                      std::int64_t unit,
                                                      const Four<Wide<S>>& h_prev,
                                                      const Four<Wide<S>>& c_prev) {
  using W = Wide<S>;
  Outcome<W, Cell::kBlocks> out;
  if (!args.active.at(row)) {
    out.c = c_prev;
    out.h = h_prev;
    return out;
  }
  Four<W> sums[Cell::kBlocks];
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    sums[block] = load_sums<Cell>(args, row, unit, block);
  }
  const Four<W> factors = factors_of<W>(args.dropout, row, args.active.t, unit);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (unit + i >= args.units) continue;
    const Blocks of_unit(sums, i);
    const auto cell = Cell::forward(of_unit.x, h_prev.x[i], c_prev.x[i]);
#pragma unroll
    for (int block = 0; block < Cell::kBlocks; ++block) out.gates[block].x[i] = cell.gates[block];
    out.c.x[i] = cell.c;
    out.h.x[i] = cell.h;
    out.y.x[i] = cell.h * factors.x[i];
  }
  return out;
}

/// A thread for four units of a row.
template <typename Cell, typename S>
__global__ void __launch_bounds__(kThreads) cell_kernel(CellArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden) return;
  const Four<W> h_prev = load_four(args.h_prev + row * args.h_stride + unit);
  Four<W> c_prev;
  if constexpr (Cell::kHasCellState) c_prev = load_four(args.c_prev + row * args.hidden + unit);
  const auto out = outcome_of<Cell>(args, row, unit, h_prev, c_prev);
  store_four(args.h + row * args.h_stride + unit, out.h);
  store_four(args.y + row * args.y_stride + unit, out.y);
  if constexpr (Cell::kHasCellState) store_four(args.c + row * args.hidden + unit, out.c);
  if (args.saved == nullptr) return;
#pragma unroll
  for (int block = 0; block < Cell::kBlocks; ++block) {
    store_four(args.saved + (row * Cell::kBlocks + block) * args.hidden + unit, out.gates[block]);
  }
}

/// All that flows into four units' h.
template <typename S>
__device__ Four<Wide<S>> gradient_of_h(const CellBackwardArgs<S>& args, std::int64_t row,
                                       std::int64_t unit) {
  using W = Wide<S>;
  Four<W> dh = load_four(args.d_hidden + row * args.hidden + unit);
  const Four<W> carried = load_four(args.carried + row * args.carried_stride + unit);
  Four<W> above;
  Four<W> factors;
  if (args.active.at(row)) {
    above = load_four(args.above + row * args.above_stride + unit);
    factors = factors_of<W>(args.dropout, row, args.active.t, unit);
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    dh.x[i] = unit + i < args.units ? dh.x[i] + carried.x[i] + factors.x[i] * above.x[i] : W(0);
  }
  return dh;
}

template <typename Cell, typename S>
__global__ void __launch_bounds__(kThreads) cell_backward_kernel(CellBackwardArgs<S> args) {
  using W = Wide<S>;
  const std::int64_t unit = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  const std::int64_t row = blockIdx.y;
  if (unit >= args.hidden) return;
  const std::int64_t at = row * args.hidden + unit;
  const Four<W> dh = gradient_of_h(args, row, unit);
  Four<W> d_gates[Cell::kBlocks];
  if (!args.active.at(row)) {
    // The state stayed, and so does its gradient.
    store_four(args.d_hidden + at, dh);
  } else {
    const Four<W> h_prev = load_four(args.h_prev + row * args.h_stride + unit);
    Four<W> saved[Cell::kBlocks], c_prev, c, dc, direct;
#pragma unroll
    for (int block = 0; block < Cell::kBlocks; ++block) {
      saved[block] = load_four(args.saved + (row * Cell::kBlocks + block) * args.hidden + unit);
    }
    if constexpr (Cell::kHasCellState) {
      c_prev = load_four(args.c_prev + at);
      c = load_four(args.c + at);
      dc = load_four(args.d_cell + at);
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      if (unit + i >= args.units) continue;
      const Blocks gates(saved, i);
      W sums[Cell::kBlocks];
      Cell::backward(gates.x, h_prev.x[i], c_prev.x[i], c.x[i], dh.x[i], dc.x[i], direct.x[i],
                     sums);
#pragma unroll
      for (int block = 0; block < Cell::kBlocks; ++block) {
        d_gates[block].x[i] = within(sums[block], args.limit);
      }
    }
    store_four(args.d_hidden + at, direct);
    if constexpr (Cell::kHasCellState) store_four(args.d_cell + at, dc);
  }
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
    const Four<W> sums = load_sums<GruResetBefore>(args, row, unit, 0);
    const Four<W> h_prev = load_four(args.h_prev + row * args.h_stride + unit);
#pragma unroll
    for (int i = 0; i < kVector; ++i) reset.x[i] = sigmoid(sums.x[i]) * h_prev.x[i];
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
