#pragma once

#include "kernels/recurrent/cuda/fused_backward.h"
#include "kernels/recurrent/cuda/fused_forward.h"
#include "kernels/recurrent/cuda/fused_step.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "runtime/cuda/check.h"

/// How a fused step is started; each storage type is compiled in a file of its own.
namespace sluice::kernels::recurrent::cuda {

template <typename Tile, typename T, typename Args>
void launch_step(cudaStream_t stream,
                 void (*kernel)(const CUtensorMap, const CUtensorMap, const Args, const int),
                 const StepGeometry& geometry, bool behind_step, const CUtensorMap& left,
                 const CUtensorMap& right, const Args& args) {
  constexpr const char* kWhat = "queue a fused recurrent step";
  const int shared_bytes = Tile::Sums::kBytes + Tile::template Loop<T>::bytes(geometry.stages);
  runtime::cuda::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
      kWhat);
  const std::int64_t units = (args.hidden + Tile::kUnits - 1) / Tile::kUnits;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(geometry.cluster), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(units * geometry.cluster),
                    static_cast<unsigned>((args.rows + kTileRows - 1) / kTileRows)};
  config.blockDim = kTileThreads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = behind_step ? 2 : 1;
  runtime::cuda::check(cudaLaunchKernelEx(&config, kernel, left, right, args, geometry.stages),
                       kWhat);
}

/// Calls body(TypeTag<Cell>{}).
template <typename Body>
void dispatch_step_cell(CellType cell, const Body& body) {
  if (cell == CellType::kLstm) return body(base::TypeTag<LstmCell<FastMath>>{});
  body(base::TypeTag<GruCell<FastMath>>{});
}

/// The kernels of storage `dtype`, which is T.
template <typename T, base::DType dtype>
struct StepsOf {
  static void forward(cudaStream_t stream, CellType type, const StepGeometry& geometry,
                      bool behind_step, const StepProduct& product, const CellForwardArgs& args) {
    using Tile = ForwardTile;
    const std::int64_t h = args.hidden, chunk = Tile::Loop<T>::kDepth;
    dispatch_step_cell(type, [&](auto tag) {
      using Cell = typename decltype(tag)::type;
      const CUtensorMap left = make_tensor_map(
          dtype, product.left,
          {{h, 1, chunk}, {args.rows, product.left_stride, copied_rows(args.rows)}});
      const CUtensorMap right = make_tensor_map(
          dtype, product.right,
          {{h, 1, chunk}, {h, h, Tile::kUnits}, {Cell::kGates, h * h, Tile::kGates}});
      launch_step<Tile, T>(stream, forward_step_kernel<Cell, T>, geometry, behind_step, left, right,
                           args);
    });
  }

  static void backward(cudaStream_t stream, CellType type, const StepGeometry& geometry,
                       bool behind_step, const StepProduct& product, const CellBackwardArgs& args) {
    using Tile = BackwardTile;
    const std::int64_t h = args.hidden, chunk = Tile::Loop<T>::kDepth;
    dispatch_step_cell(type, [&](auto tag) {
      using Cell = typename decltype(tag)::type;
      const std::int64_t depth = Cell::kGates * h;
      const CUtensorMap left = make_tensor_map(
          dtype, product.left,
          {{depth, 1, chunk}, {args.rows, product.left_stride, copied_rows(args.rows)}});
      const CUtensorMap right =
          make_tensor_map(dtype, product.right, {{depth, 1, chunk}, {h, depth, Tile::kUnits}});
      launch_step<Tile, T>(stream, backward_step_kernel<Cell, T>, geometry, behind_step, left,
                           right, args);
    });
  }

  static constexpr StepKernels kKernels{forward, backward};
};

}  // namespace sluice::kernels::recurrent::cuda
