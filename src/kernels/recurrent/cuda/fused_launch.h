#pragma once

#include "kernels/recurrent/cuda/fused_backward.h"
#include "kernels/recurrent/cuda/fused_forward.h"
#include "kernels/recurrent/cuda/fused_step.h"
#include "kernels/recurrent/cuda/tensor_map.h"
#include "runtime/cuda/check.h"

/// How a fused step is started; each storage type is compiled in a file of its own.
namespace sluice::kernels::recurrent::cuda {

/// `factors` say where the product's are.
template <typename Tile, typename T, typename... Parameters, typename Args, typename... Factors>
void launch_step(cudaStream_t stream, void (*kernel)(Parameters...), const StepGeometry& geometry,
                 bool behind_step, const Args& args, const Factors&... factors) {
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
  runtime::cuda::check(cudaLaunchKernelEx(&config, kernel, factors..., args, geometry.stages),
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
  static CUtensorMap forward_left(const StepProduct& product, std::int64_t rows) {
    constexpr std::int64_t kChunk = ForwardTile::Loop<T>::kDepth;
    return make_tensor_map(
        dtype, product.left,
        {{product.depth, 1, kChunk}, {rows, product.left_stride, copied_rows(rows)}});
  }
  /// A box has the same units of all gates.
  static CUtensorMap forward_right(const StepProduct& product, std::int64_t gates,
                                   std::int64_t hidden) {
    using Tile = ForwardTile;
    const std::int64_t depth = product.depth, chunk = Tile::Loop<T>::kDepth;
    return make_tensor_map(
        dtype, product.right,
        {{depth, 1, chunk}, {hidden, depth, Tile::kUnits}, {gates, hidden * depth, Tile::kGates}});
  }

  static void forward(cudaStream_t stream, CellType type, const StepGeometry& geometry,
                      bool behind_step, const StepProduct& product, const CellForwardArgs& args) {
    dispatch_step_cell(type, [&](auto tag) {
      using Cell = typename decltype(tag)::type;
      launch_step<ForwardTile, T>(stream, forward_step_kernel<Cell, T>, geometry, behind_step, args,
                                  forward_left(product, args.rows),
                                  forward_right(product, Cell::kGates, args.hidden));
    });
  }

  static void forward_with_input(cudaStream_t stream, CellType type, const StepGeometry& geometry,
                                 const StepProduct& input, const StepProduct& product,
                                 const CellForwardArgs& args) {
    dispatch_step_cell(type, [&](auto tag) {
      using Cell = typename decltype(tag)::type;
      constexpr auto kElement = static_cast<std::int64_t>(sizeof(T));
      const InputAndState factors{
          {forward_left(input, args.rows), forward_left(product, args.rows)},
          {forward_right(input, Cell::kGates, args.hidden),
           forward_right(product, Cell::kGates, args.hidden)},
          {input.depth * kElement, product.depth * kElement}};
      launch_step<ForwardTile, T>(stream, forward_step_with_input_kernel<Cell, T>, geometry, false,
                                  args, factors);
    });
  }

  static void backward(cudaStream_t stream, CellType type, const StepGeometry& geometry,
                       bool behind_step, const StepProduct& product, const CellBackwardArgs& args) {
    using Tile = BackwardTile;
    const std::int64_t h = args.hidden, chunk = Tile::Loop<T>::kDepth;
    dispatch_step_cell(type, [&](auto tag) {
      using Cell = typename decltype(tag)::type;
      const std::int64_t depth = product.depth;
      const CUtensorMap left = make_tensor_map(
          dtype, product.left,
          {{depth, 1, chunk}, {args.rows, product.left_stride, copied_rows(args.rows)}});
      const CUtensorMap right =
          make_tensor_map(dtype, product.right, {{depth, 1, chunk}, {h, depth, Tile::kUnits}});
      launch_step<Tile, T>(stream, backward_step_kernel<Cell, T>, geometry, behind_step, args, left,
                           right);
    });
  }

  static constexpr StepKernels kKernels{forward, forward_with_input, backward};
};

}  // namespace sluice::kernels::recurrent::cuda
