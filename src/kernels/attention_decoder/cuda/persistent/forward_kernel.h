#pragma once

#include "kernels/attention_decoder/cuda/persistent/attention.h"
#include "kernels/attention_decoder/cuda/persistent/layer.h"
#include "kernels/attention_decoder/cuda/persistent/roles.h"

namespace sluice::kernels::attention_decoder::cuda::persistent {

/// Weights that stay in shared memory, for the block's half of the depth.
template <typename S>
__device__ void load_shared_weights(const Arguments<S>& args, const Block& block) {
  const int thread = static_cast<int>(threadIdx.x), first = block.rank * (kWidth / 2);
  const auto store = [&](int offset, int line, int piece, const S* from) {
    uint4 bits = {0, 0, 0, 0};
    if (from != nullptr) bits = *reinterpret_cast<const uint4*>(from);
    *reinterpret_cast<uint4*>(block.shared + offset + line * 128 + (piece ^ line % 8) * 16) = bits;
  };
#pragma unroll 8
  for (int i = thread; i < kLayers * kOwnTiles * 512; i += kThreads) {
    const int piece = i % 8, line = i / 8 % 64, tile = i / 512;
    const Layer<S>& layer = args.layers[tile / kOwnTiles];
    const int unit = block.cluster * kUnits + line / 16 * 4 + line % 8 / 2;
    const int gate = line % 2 * 2 + line / 8 % 2;
    const int column = first + tile % kOwnTiles * kTileDepth + piece * 8;
    const bool has = unit < args.hidden && column < args.hidden;
    store(BlockMemory::kStateWeights + tile * kTileBytes, line, piece,
          has ? layer.weights + std::int64_t{gate * args.hidden + unit} * (layer.x + args.hidden) +
                    layer.x + column
              : nullptr);
  }
#pragma unroll
  for (int i = thread; i < kOwnTiles * kColumns * 8; i += kThreads) {
    const int piece = i % 8, line = i / 8 % kColumns, tile = i / 8 / kColumns;
    const int at = block.cluster * kUnits + line % kUnits;
    const int column = first + tile * kTileDepth + piece * 8;
    const bool of_output = line >= kUnits;
    const bool has = at < (of_output ? args.padded_output : args.key) && column < args.hidden;
    const S* from = of_output ? args.output_weight +
                                    std::int64_t{at} * (args.memory + args.hidden) + args.memory
                              : args.query_weight + std::int64_t{at} * args.hidden;
    store(BlockMemory::kColumnWeights + tile * kColumnBytes, line, piece,
          has ? from + column : nullptr);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <typename S>
__global__ void __launch_bounds__(kThreads, 1)
    forward_kernel(const __grid_constant__ Arguments<S> args) {
  // Tiles that are swizzled.
  extern __shared__ __align__(1024) std::byte block_memory[];
  const Block block(block_memory);
  if (threadIdx.x == 0) {
    begin_ring(block);
    for (int i = BlockMemory::kGates; i < BlockMemory::kCount; ++i) {
      begin_barrier(block.barrier(i), 1);
    }
    recurrent::cuda::publish_barriers();
  }
  load_shared_weights(args, block);
  __syncthreads();
  recurrent::cuda::cluster_arrive();
  recurrent::cuda::cluster_wait();

  take_roles([&](int layer) { LayerRole<S>(args, block, layer).run(); },
             [&] { AttentionRole<S>(args, block).run(); }, [&] { copy_items(args, block); });
}

/// Publishes the states and the fed output that come before the first step, and clears counters.
template <typename S>
__global__ void start_kernel(const Arguments<S> args) {
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index < kCountersBytes / 4) args.counters[index] = 0;
  const int row = index / (kWidth / 4), column = index % (kWidth / 4) * 4;
  if (row >= kRows) return;
  const auto first = [&](const Layer<S>& layer, int offset, int width) {
    uint2 bits = {0, 0};
    if (row < args.rows && column < width) {
      bits = *reinterpret_cast<const uint2*>(layer.joint + row * (layer.x + args.hidden) + offset +
                                             column);
    }
    return bits;
  };
  const auto hand_on = [&](Exchange kind, const uint2& bits) {
    *reinterpret_cast<uint2*>(published(args, kind, -1, row, column)) = bits;
  };
  hand_on(kFed, first(args.layers[0], 0, args.padded_output));
  hand_on(kLowerState, first(args.layers[0], args.layers[0].x, args.hidden));
  hand_on(kUpperState, first(args.layers[1], args.layers[1].x, args.hidden));
}

}  // namespace sluice::kernels::attention_decoder::cuda::persistent
