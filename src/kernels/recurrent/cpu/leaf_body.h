#pragma once

#include "kernels/recurrent/cpu/leaf_backward_jobs.h"
#include "kernels/recurrent/cpu/leaf_jobs.h"
#include "kernels/recurrent/cpu/leaf_tile.h"
#include "kernels/transpose.h"

/// The leaf of any vector instruction set, written once over a class Isa (leaf_tile.h).
namespace sluice::kernels::recurrent::cpu {

/// Packed layout: [panel][depth / kDepthUnit][block][kDepthUnit / kStep][16][kStep], or, with
/// kBlocksApart, [panel][block][depth / kStep][16][kStep]; the depth padded with zeros to a
/// multiple of kDepthUnit.
template <class Isa>
struct LeafBody {
  using T = typename Isa::T;

  /// Of a register.
  static constexpr int kLanes = kPanel / Isa::kVectorRegisters;

  static std::int64_t packed_size(std::int64_t units, std::int64_t depth, std::int64_t blocks) {
    return panels_of(units) * panel_stride<Isa>(depth, blocks);
  }

  template <typename Source>
  static void pack(const PackArgs<T, Source>& args) {
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      for (std::int64_t block = 0; block < args.blocks; ++block) {
        for (std::int64_t k = 0; k < padded_depth<Isa>(args.depth); k += kPanel) {
          pack_square(args, panel, block, k);
        }
      }
    }
  }

  static void transpose(const TransposeArgs<T>& args) {
    if constexpr (sizeof(T) == sizeof(float)) {
      transpose_all<kLanes>(args.from, args.from_stride, args.depth, args.columns, args.to,
                            args.to_stride);
    } else {
      transpose_all<kPanel>(reinterpret_cast<const std::uint16_t*>(args.from), args.from_stride,
                            args.depth, args.columns, reinterpret_cast<std::uint16_t*>(args.to),
                            args.to_stride);
    }
  }

  static void product(const ProductArgs<T>& args) {
    if (args.blocks == 1) {
      run<Isa>(ProductJob<Isa, 1>{args}, 0, args.rows, args.panel_begin, args.panel_end);
    } else if (args.blocks == 3) {
      run<Isa>(ProductJob<Isa, 3>{args}, 0, args.rows, args.panel_begin, args.panel_end);
    } else {
      run<Isa>(ProductJob<Isa, 4>{args}, 0, args.rows, args.panel_begin, args.panel_end);
    }
  }

  static void lstm_step(const StepArgs<T>& args) {
    if (args.recurrent != nullptr) return run_multiplied<Isa, LstmJob<Isa>>(args);
    run<Isa>(LstmJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end);
  }

  static void gru_step(const StepArgs<T>& args) {
    if (args.recurrent != nullptr) return run_multiplied<Isa, GruJob<Isa>>(args);
    run<Isa>(GruJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end);
  }

  static void gru_reset_before_step(const StepArgs<T>& args) {
    run_multiplied<Isa, GruResetBeforeJob<Isa>>(args);
  }

  static void reset(const StepArgs<T>& args) { run_multiplied<Isa, ResetJob<Isa>>(args); }

  template <class Activation>
  static void rnn_step(const StepArgs<T>& args) {
    using Job = RnnJob<Isa, Activation>;
    if (args.recurrent != nullptr) return run_multiplied<Isa, Job>(args);
    run<Isa>(Job{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end);
  }

  static void lstm_step_backward(const StepBackwardArgs<T>& args) {
    if (args.peepholes != nullptr) return run_backward<Isa, LstmBackwardJob<Isa, true>>(args);
    run_backward<Isa, LstmBackwardJob<Isa, false>>(args);
  }

  static void gru_step_backward(const StepBackwardArgs<T>& args) {
    run_backward<Isa, GruBackwardJob<Isa>>(args);
  }

  static constexpr Leaf<T> kLeaf{
      packed_size,
      pack<float>,
      pack<T>,
      transpose,
      product,
      {lstm_step, lstm_step_backward},
      {gru_step, gru_step_backward},
      {gru_reset_before_step, run_backward<Isa, GruResetBeforeBackwardJob<Isa>>},
      {rnn_step<RnnTanh>, run_backward<Isa, RnnBackwardJob<Isa, RnnTanh>>},
      {rnn_step<RnnRelu>, run_backward<Isa, RnnBackwardJob<Isa, RnnRelu>>},
      {reset, run_reset_backward<Isa>},
      Isa::kGoodRows,
      Isa::kOwnRows};

 private:
  static float widened(float value) { return value; }
  static float widened(base::BFloat16 value) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
  }

  /// Packs [16 of the depth][16 units] by way of a buffer, so that the source is read along its
  /// rows and the target written along its own.
  template <typename Source>
  static void pack_square(const PackArgs<T, Source>& args, std::int64_t panel, std::int64_t block,
                          std::int64_t k_begin) {
    float square[kPanel][kPanel];  // [k][unit]
    const Source* source = args.source + block * args.block_stride +
                           panel * kPanel * args.unit_stride + k_begin * args.depth_stride;
    const std::int64_t units = smaller_of(kPanel, args.units - panel * kPanel);
    const std::int64_t depth = smaller_of(kPanel, args.depth - k_begin);
    if (units < kPanel || depth < kPanel) {
      for (auto& row : square) {
        for (float& value : row) value = 0;
      }
    }
    if constexpr (std::is_same_v<Source, float>) {
      if (args.depth_stride == 1 && units == kPanel && depth == kPanel) {
        for (std::int64_t unit = 0; unit < kPanel; unit += kLanes) {
          for (std::int64_t row = 0; row < kPanel; row += kLanes) {
            transpose_square<kLanes>(source + unit * args.unit_stride + row, args.unit_stride,
                                     &square[row][unit], kPanel);
          }
        }
        return store_square(args, panel, block, k_begin, square);
      }
    }
    if (args.depth_stride == 1) {
      for (std::int64_t unit = 0; unit < units; ++unit) {
        for (std::int64_t k = 0; k < depth; ++k) {
          square[k][unit] = widened(source[unit * args.unit_stride + k]);
        }
      }
    } else if (args.unit_stride == 1 && units == kPanel) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const Source* row = source + k * args.depth_stride;
        for (std::int64_t unit = 0; unit < kPanel; ++unit) square[k][unit] = widened(row[unit]);
      }
    } else {
      for (std::int64_t k = 0; k < depth; ++k) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
          square[k][unit] = widened(source[unit * args.unit_stride + k * args.depth_stride]);
        }
      }
    }
    store_square(args, panel, block, k_begin, square);
  }

  template <typename Source>
  static void store_square(const PackArgs<T, Source>& args, std::int64_t panel, std::int64_t block,
                           std::int64_t k_begin, const float (&square)[kPanel][kPanel]) {
    if constexpr (requires { Isa::kParts; }) {
      T* start = args.packed + panel * panel_stride<Isa>(args.depth, args.blocks);
      return Isa::store_square(start, args.blocks, block, k_begin, square);
    } else {
      store_interleaved(args, panel, block, k_begin, square);
    }
  }

  template <typename Source>
  static void store_interleaved(const PackArgs<T, Source>& args, std::int64_t panel,
                                std::int64_t block, std::int64_t k_begin,
                                const float (&square)[kPanel][kPanel]) {
    constexpr std::int64_t kUnit = Isa::kDepthUnit;
    T* start = args.packed + panel * panel_stride<Isa>(args.depth, args.blocks);
    const std::int64_t filled = smaller_of(kPanel, padded_depth<Isa>(args.depth) - k_begin);
    for (std::int64_t i = 0; i < filled; i += Isa::kStep) {
      const std::int64_t k = k_begin + i;
      const std::int64_t row = Isa::kBlocksApart ? k : k / kUnit * args.blocks * kUnit + k % kUnit;
      Isa::store_packed(start + block * block_stride<Isa>(args.depth) + row * kPanel, square[i]);
    }
  }
};

}  // namespace sluice::kernels::recurrent::cpu
