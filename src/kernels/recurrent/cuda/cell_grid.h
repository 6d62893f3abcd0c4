#pragma once

#include <type_traits>

#include "kernels/recurrent/cuda/cell_kernels.h"
#include "kernels/recurrent/cuda/cells.h"
#include "kernels/recurrent/cuda/dispatch_storage.h"
#include "runtime/cuda/check.h"

/// How the pointwise kernels walk over units and rows, and how they are started.
namespace sluice::kernels::recurrent::cuda {

inline constexpr int kCellBlock = 128;

__device__ inline bool is_active(const std::int32_t* lengths, std::int64_t row, std::int64_t t) {
  return lengths == nullptr || t < lengths[row];
}

/// Calls body(row, unit) for all units of all rows.
template <typename Body>
__device__ void for_units(std::int64_t rows, std::int64_t hidden, const Body& body) {
  const std::int64_t unit = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (unit >= hidden) return;
  for (std::int64_t row = blockIdx.y; row < rows; row += gridDim.y) body(row, unit);
}

inline dim3 cell_grid(std::int64_t rows, std::int64_t hidden) {
  constexpr std::int64_t kMostRows = 65535;
  return {static_cast<unsigned>((hidden + kCellBlock - 1) / kCellBlock),
          static_cast<unsigned>(rows < kMostRows ? rows : kMostRows)};
}

inline void check_cell_launch() {
  runtime::cuda::check(cudaGetLastError(), "queue the pointwise kernel of a recurrent step");
}

/// Calls body(TypeTag<Cell>{}, TypeTag<T>{}).
template <typename Body>
void dispatch_cell(const CellKind& kind, const Body& body) {
  dispatch_device_storage(kind.storage, [&](auto storage) {
    using T = typename decltype(storage)::type;
    using Math = std::conditional_t<sizeof(T) == 2, FastMath, ExactMath>;
    switch (kind.cell) {
      case CellType::kLstm:
        return body(base::TypeTag<LstmCell<Math>>{}, storage);
      case CellType::kGru:
        return body(base::TypeTag<GruCell<Math>>{}, storage);
      case CellType::kGruResetBefore:
        return body(base::TypeTag<GruResetBeforeCell<Math>>{}, storage);
      case CellType::kRnnTanh:
        return body(base::TypeTag<RnnCell<TanhActivation<Math>>>{}, storage);
      case CellType::kRnnRelu:
        return body(base::TypeTag<RnnCell<ReluActivation<Math>>>{}, storage);
    }
  });
}

/// The same for kernels that have cells with a hard sigmoid too.
template <typename Body>
void dispatch_any_cell(const CellKind& kind, const Body& body) {
  if (!kind.hard_sigmoid) return dispatch_cell(kind, body);
  dispatch_device_storage(kind.storage, [&](auto storage) {
    using T = typename decltype(storage)::type;
    using Math = HardMath<std::conditional_t<sizeof(T) == 2, FastMath, ExactMath>>;
    if (kind.cell == CellType::kLstm) return body(base::TypeTag<LstmCell<Math>>{}, storage);
    if (kind.cell == CellType::kGru) return body(base::TypeTag<GruCell<Math>>{}, storage);
    SLUICE_ASSERT(kind.cell == CellType::kGruResetBefore);
    body(base::TypeTag<GruResetBeforeCell<Math>>{}, storage);
  });
}

}  // namespace sluice::kernels::recurrent::cuda
