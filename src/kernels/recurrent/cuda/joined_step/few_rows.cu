#include <algorithm>

#include "base/check.h"
#include "kernels/recurrent/arguments.h"
#include "kernels/recurrent/cuda/cell_forward_unit.h"
#include "kernels/recurrent/cuda/cluster.h"
#include "kernels/recurrent/cuda/joined_step/few_rows.h"
#include "kernels/recurrent/cuda/tensor_copy.h"

namespace sluice::kernels::recurrent::cuda::joined_step {
namespace {

constexpr int kLanes = 32;
/// Units of a block, a warp for the input's product of each and one for the state's.
constexpr int kUnits = 4, kWarps = 2 * kUnits, kThreads = kWarps * kLanes;
/// Rows whose sums a warp holds at a time: with four gates as many sums as it has lanes.
constexpr int kRows = 8;
constexpr int kStages = 2;  ///< groups of rows that a block has in shared memory
constexpr int kWidth = 4;   ///< floats that a lane reads at a time

/// left [rows, depth], right [gates, units, depth].
struct Factor {
  const float *left, *right;
  int depth;
};
struct Factors {
  Factor of[2];  ///< the input's, the state's
};

/// What a block has in shared memory: of either product its units' weights, gate by gate, and rows
/// of the left factor, in stages if there are more than one holds.
constexpr std::int64_t shared_bytes(int gates, std::int64_t rows, std::int64_t depths) {
  const std::int64_t held = rows > kRows ? kStages * kRows : rows;
  return (gates * kUnits + held) * depths * static_cast<std::int64_t>(sizeof(float));
}

/// Adds up what each lane has of 2 * kHalf sums; lane i of as many gets the one at i.
template <int kHalf>
__device__ void fold(float (&sums)[kLanes]) {
  const bool upper = (threadIdx.x & kHalf) != 0;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float sent = upper ? sums[i] : sums[i + kHalf];
    const float kept = upper ? sums[i + kHalf] : sums[i];
    sums[i] = kept + __shfl_xor_sync(~0u, sent, kHalf);
  }
  if constexpr (kHalf > 1) fold<kHalf / 2>(sums);
}

__device__ void add_product(const float4& a, const float4& b, float& sum) {
  sum = fmaf(a.x, b.x, sum);
  sum = fmaf(a.y, b.y, sum);
  sum = fmaf(a.z, b.z, sum);
  sum = fmaf(a.w, b.w, sum);
}

/// Products of `rows` rows with the lines of a unit's gates; lane g * kRows + row gets that row's
/// of gate g. `weights` are the first gate's, those of the next kUnits lines behind.
template <int kGates>
__device__ float multiply(const float* left, const float* weights, int depth, int rows) {
  float sums[kLanes]{};
#pragma unroll 1
  for (int at = static_cast<int>(threadIdx.x) % kLanes * kWidth; at < depth;
       at += kLanes * kWidth) {
    float4 right[kGates];
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      right[g] = *reinterpret_cast<const float4*>(weights + g * kUnits * depth + at);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const auto row = *reinterpret_cast<const float4*>(left + min(r, rows - 1) * depth + at);
#pragma unroll
      for (int g = 0; g < kGates; ++g) add_product(row, right[g], sums[g * kRows + r]);
    }
  }
  fold<kLanes / 2>(sums);
  return sums[0];
}

/// Blocks: kUnits units each, of which there is a multiple, whose weights they have on chip before
/// the first of their products, or before the kernel ahead has ended, where that may still run.
/// Rows come in eights, as many ahead as there are stages, and warps take turns at their cells.
template <typename Cell>
__global__ void __launch_bounds__(kThreads)
    joined_few_rows_kernel(const __grid_constant__ Factors factors, const CellForwardArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(16) float copied[];
  __shared__ float sums[2][kWarps][kLanes];
  __shared__ std::uint64_t barriers[1 + kStages];  // weights, stages of rows
  const auto lane = static_cast<int>(threadIdx.x) % kLanes;
  const auto warp = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t first_unit = std::int64_t{blockIdx.x} * kUnits;
  const auto rows = static_cast<int>(args.rows), groups = (rows + kRows - 1) / kRows;
  const int held = min(kRows, rows);  // of a stage
  const int depths = factors.of[0].depth + factors.of[1].depth;
  float* const left = copied + Cell::kGates * kUnits * depths;
  const auto barrier = [&](int i) { return shared_address(barriers + i); };

  const auto copy = [&](float* to, const float* from, int count, std::uint32_t done) {
    const int bytes = count * static_cast<int>(sizeof(float));
    copy_bytes(shared_address(to), from, bytes, done);
  };
  const auto copy_rows = [&](int group) {
    const int stage = group % kStages, count = min(kRows, rows - group * kRows);
    arrive_and_expect(barrier(1 + stage), count * depths * static_cast<int>(sizeof(float)));
    float* to = left + stage * held * depths;
    for (const Factor& factor : factors.of) {
      copy(to, factor.left + std::int64_t{group} * kRows * factor.depth, count * factor.depth,
           barrier(1 + stage));
      to += held * factor.depth;
    }
  };
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1 + kStages; ++i) begin_barrier(barrier(i), 1);
    publish_barriers();
    arrive_and_expect(barrier(0), Cell::kGates * kUnits * depths * static_cast<int>(sizeof(float)));
    float* to = copied;
    for (const Factor& factor : factors.of) {
      for (int g = 0; g < Cell::kGates; ++g, to += kUnits * factor.depth) {
        copy(to, factor.right + (g * args.hidden + first_unit) * factor.depth,
             kUnits * factor.depth, barrier(0));
      }
    }
  }
  wait_for_kernel_ahead();
  let_next_kernel_begin();
  if (threadIdx.x == 0) {
    for (int group = 0; group < min(kStages, groups); ++group) copy_rows(group);
  }

  // The cell that this thread evaluates when it is its warp's turn.
  const int u = lane % kUnits, r = lane / kUnits;
  const std::int64_t unit = first_unit + u;
  UnitForward before;
  bool active = false;
  const auto row_of = [&](int group) { return std::int64_t{group} * kRows + r; };
  const auto has_cell = [&](int group) { return group % kWarps == warp && row_of(group) < rows; };
  const auto load_cell = [&](int group) {
    if (!has_cell(group)) return;
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) before.inputs[g] = args.bias[g * args.hidden + unit];
    if constexpr (!Cell::kHasCellState) before.bias_hn = args.bias_hn[unit];
    load_state<Cell, float>(args, row_of(group), unit, before);
    active = is_active(args.lengths, row_of(group), args.t);
  };
  load_cell(warp);
  __syncthreads();  // barriers are there

  const int product = warp / kUnits, depth = factors.of[product].depth;
  const int before_product = product * factors.of[0].depth;
  const float* const weights =
      copied + Cell::kGates * kUnits * before_product + warp % kUnits * depth;
  wait_for_phase(barrier(0), 0);
  for (int group = 0; group < groups; ++group) {
    const int stage = group % kStages;
    wait_for_phase(barrier(1 + stage), group / kStages % 2);
    sums[group % 2][warp][lane] =
        multiply<Cell::kGates>(left + held * (stage * depths + before_product), weights, depth,
                               min(kRows, rows - group * kRows));
    __syncthreads();
    if (threadIdx.x == 0 && group + kStages < groups) copy_rows(group + kStages);
    if (!has_cell(group)) continue;
    if (!active) {
      skip_unit<Cell, float>(args, row_of(group), unit);
      continue;
    }
    float products[Cell::kGates];
#pragma unroll
    for (int g = 0; g < Cell::kGates; ++g) {
      before.inputs[g] += sums[group % 2][u][g * kRows + r];
      products[g] = sums[group % 2][kUnits + u][g * kRows + r];
    }
    step_unit<Cell, float>(args, row_of(group), unit, before, products);
  }
#endif
}

Factor factor_of(const StepProduct& product) {
  return {static_cast<const float*>(product.left), static_cast<const float*>(product.right),
          static_cast<int>(product.depth)};
}

template <typename Cell>
void launch(cudaStream_t stream, bool behind_step, const Factors& factors,
            const CellForwardArgs& args) {
  constexpr const char* kWhat = "queue a recurrent step of few rows";
  const std::int64_t depths = factors.of[0].depth + factors.of[1].depth;
  const auto shared = static_cast<std::size_t>(shared_bytes(Cell::kGates, args.rows, depths));
  runtime::cuda::check(
      cudaFuncSetAttribute(joined_few_rows_kernel<Cell>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
      kWhat);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(args.hidden / kUnits);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = behind_step ? 1 : 0;
  runtime::cuda::check(cudaLaunchKernelEx(&config, joined_few_rows_kernel<Cell>, factors, args),
                       kWhat);
}

}  // namespace

bool few_rows_win(const Descriptor& descriptor, std::int64_t input, std::int64_t rows,
                  const runtime::cuda::GpuProperties& gpu) {
  if (refuse_unusual_cell(descriptor) || descriptor.projects() || !gpu.code.hopper) return false;
  if (descriptor.dtype != base::DType::kFloat32 || descriptor.tf32) return false;
  if (descriptor.hidden % kUnits != 0 || input % kWidth != 0) return false;
  // As far as shared memory holds, with inputs as wide as the state (docs/performance/ladder.md).
  constexpr std::int64_t kMostRows = 32, kMostUnits = 768, kMostUnitsOfGroup = 1024;
  static_assert(kMostRows <= kWarps * kRows, "a warp has the cells of one group of rows");
  static_assert(shared_bytes(4, kMostRows, 2 * kMostUnits) <= 224 << 10);
  static_assert(shared_bytes(4, kRows, 2 * kMostUnitsOfGroup) <= 224 << 10);
  return rows <= kMostRows &&
         std::max(descriptor.hidden, input) <= (rows <= kRows ? kMostUnitsOfGroup : kMostUnits);
}

void queue_few_rows(cudaStream_t stream, CellType cell, bool behind_step, const StepProduct& input,
                    const StepProduct& state, const CellForwardArgs& args) {
  SLUICE_ASSERT(input.left_stride == input.depth && state.left_stride == state.depth);
  const Factors factors{{factor_of(input), factor_of(state)}};
  if (cell == CellType::kLstm) {
    return launch<LstmCell<ExactMath>>(stream, behind_step, factors, args);
  }
  SLUICE_ASSERT(cell == CellType::kGru);
  launch<GruCell<ExactMath>>(stream, behind_step, factors, args);
}

}  // namespace sluice::kernels::recurrent::cuda::joined_step
