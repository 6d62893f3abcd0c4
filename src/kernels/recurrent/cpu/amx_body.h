#pragma once

#include "kernels/recurrent/cpu/amx_input.h"
#include "kernels/recurrent/cpu/leaf_body.h"

/// The leaf on tile registers (AMX), written over a class Tiles so that its logic also runs where
/// the processor has none: the hardware's tiles in hardware_tiles.h, emulated ones in the tests.
///
/// Tiles has
///   configure(const TileConfig&)
///   zero<tile>()
///   load<tile>(const void*, stride), store<tile>(void*, stride)   strides in bytes
///   multiply<c, a, b>()   c[m][n] += a[m][2k] * b[k][2n] + a[m][2k+1] * b[k][2n+1]
/// and a destructor that gives the registers back.
///
/// Beside what leaf_tile.h asks of it, Isa says how weights and inputs become tiles (amx_input.h):
///   Input                       the rows of a chunk as tiles
///   kPhases, kPhaseCount        the products of parts that make up one product
///   tile_offset(block, part)    elements from a step of kTileDepth to a tile of its weights
///   kFewRows                    below so many rows vectors do as well
namespace sluice::kernels::recurrent::cpu {

/// What LDTILECFG reads: eight tiles of up to 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

template <class Isa, class Tiles>
struct AmxBody {
  using T = typename Isa::T;
  static_assert(Isa::kDepthUnit == kTileDepth);

  static void product(const ProductArgs<T>& args) {
    if constexpr (Isa::kFewRows > 1) {
      if (args.rows < Isa::kFewRows) return LeafBody<Isa>::product(args);
    }
    if (args.blocks == 1) {
      run(ProductJob<Isa, 1>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    } else if (args.blocks == 3) {
      run(ProductJob<Isa, 3>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    } else {
      run(ProductJob<Isa, 4>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    }
  }

  static void lstm_step(const StepArgs<T>& args) {
    if (args.recurrent != nullptr) return run_multiplied<Isa, LstmJob<Isa>>(args);
    if constexpr (Isa::kFewRows > 1) {
      if (args.row_end - args.row_begin < Isa::kFewRows) return LeafBody<Isa>::lstm_step(args);
    }
    run(LstmJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end,
        args.h_prev_stride);
  }

  static void gru_step(const StepArgs<T>& args) {
    if (args.recurrent != nullptr) return run_multiplied<Isa, GruJob<Isa>>(args);
    if constexpr (Isa::kFewRows > 1) {
      if (args.row_end - args.row_begin < Isa::kFewRows) return LeafBody<Isa>::gru_step(args);
    }
    run(GruJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end,
        args.h_prev_stride);
  }

  template <class Activation>
  static void rnn_step(const StepArgs<T>& args) {
    using Job = RnnJob<Isa, Activation>;
    if (args.recurrent != nullptr) return run_multiplied<Isa, Job>(args);
    if constexpr (Isa::kFewRows > 1) {
      if (args.row_end - args.row_begin < Isa::kFewRows) {
        return LeafBody<Isa>::template rnn_step<Activation>(args);
      }
    }
    run(Job{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end,
        args.h_prev_stride);
  }

  static constexpr Leaf<T> kLeaf{LeafBody<Isa>::packed_size,
                                 LeafBody<Isa>::template pack<float>,
                                 LeafBody<Isa>::template pack<T>,
                                 LeafBody<Isa>::transpose,
                                 product,
                                 {lstm_step, LeafBody<Isa>::kLeaf.lstm.backward},
                                 {gru_step, LeafBody<Isa>::kLeaf.gru.backward},
                                 LeafBody<Isa>::kLeaf.gru_reset_before,
                                 {rnn_step<RnnTanh>, LeafBody<Isa>::kLeaf.rnn_tanh.backward},
                                 {rnn_step<RnnRelu>, LeafBody<Isa>::kLeaf.rnn_relu.backward},
                                 LeafBody<Isa>::kLeaf.reset,
                                 Isa::kGoodRows,
                                 Isa::kOwnRows};

 private:
  // Tiles 0 to 3 hold sums, 4 and 5 rows of the input, 6 and 7 weights: 2 x 2 tiles of sums with
  // two tiles of rows, else 1 x 4.
  static constexpr int kInput = 4;
  static constexpr int kWeights = 6;
  static constexpr int kBlockRows = 2 * kTileRows;
  static constexpr int kChunkBlocks = Isa::Input::kRows / kBlockRows;

  static TileConfig config_for(int rows) {
    TileConfig config;
    const int first = rows < kTileRows ? rows : kTileRows;
    const auto set = [&](int tile, int tile_rows) {
      config.rows[tile] = static_cast<std::uint8_t>(tile_rows);
      config.row_bytes[tile] = 64;
    };
    for (int tile = 0; tile < 4; ++tile) {
      set(tile, rows > kTileRows && tile >= 2 ? rows - kTileRows : first);
    }
    set(kInput, first);
    if (rows > kTileRows) set(kInput + 1, rows - kTileRows);
    set(kWeights, kTileRows);
    set(kWeights + 1, kTileRows);
    return config;
  }

  /// A part of the depth that is multiplied in one go.
  struct Depth {
    std::int64_t begin, end;
  };

  /// Up to 32 rows of a chunk, and where a run of panels leaves their sums.
  template <class Job>
  struct Block {
    static constexpr int kPanels = Job::kBlocks == 4 ? 1 : Job::kBlocks == 3 ? 2 : 4;

    const Job& job;
    const typename Isa::Input& input;
    Depth depth;
    std::int64_t row;                                  ///< the first, of the job
    int chunk_row, rows;                               ///< the first, of the chunk; how many
    float (*sums)[kBlockRows][Job::kBlocks * kPanel];  ///< [kPanels]
  };

  template <int kRowTiles, int kColumn>
  static constexpr int sum_tile(int row_tile) {
    return kRowTiles == 1 ? kColumn : row_tile * 2 + kColumn;
  }

  /// The sums of one column of weights in a group, as far as it goes.
  template <class Job, int kRowTiles, int kColumn>
  struct Column {
    const Block<Job>& block;
    std::int64_t panel;  ///< of the job
    int slot;            ///< of block.sums
    int gate;

    static constexpr int kUpper = sum_tile<kRowTiles, kColumn>(0);
    static constexpr int kLower = sum_tile<kRowTiles, kColumn>(1);
    static constexpr int kTile = kWeights + kColumn % 2;

    const T* weights() const {
      return block.job.packed() + panel * panel_stride<Isa>(block.job.depth(), Job::kBlocks) +
             panel_stride<Isa>(block.depth.begin, Job::kBlocks);
    }

    StartRows origin() const {
      if constexpr (Job::kDirect) {
        if (block.depth.begin > 0) {
          return {block.job.out(block.row, Job::column(panel, gate)), block.job.args.out_stride};
        }
      }
      return block.job.start_rows(block.row, panel, gate);
    }

    void start(Tiles& tiles) const {
      const StartRows from = origin();
      if (from.first == nullptr) {
        tiles.template zero<kUpper>();
        if constexpr (kRowTiles == 2) tiles.template zero<kLower>();
        return;
      }
      const std::int64_t bytes = from.stride * static_cast<std::int64_t>(sizeof(float));
      tiles.template load<kUpper>(from.first, bytes);
      if constexpr (kRowTiles == 2) {
        tiles.template load<kLower>(from.first + kTileRows * from.stride, bytes);
      }
    }

    /// `held`: whether the tile of weights is there since the last phase.
    void multiply(Tiles& tiles, const T* from, int part, bool held) const {
      if (!held) {
        tiles.template load<kTile>(from + Isa::tile_offset(gate, part), 64);
      }
      tiles.template multiply<kUpper, kInput, kTile>();
      if constexpr (kRowTiles == 2) tiles.template multiply<kLower, kInput + 1, kTile>();
    }

    void finish(Tiles& tiles) const {
      float* to = block.sums[slot][0] + gate * kPanel;
      std::int64_t stride = Job::kBlocks * kPanel;
      if constexpr (Job::kDirect) {
        to = block.job.out(block.row, Job::column(panel, gate));
        stride = block.job.args.out_stride;
      }
      const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(float));
      tiles.template store<kUpper>(to, bytes);
      if constexpr (kRowTiles == 2) tiles.template store<kLower>(to + kTileRows * stride, bytes);
    }
  };

  template <class Job, int kRowTiles>
  static void load_input(Tiles& tiles, const Block<Job>& block, std::int64_t k, int part) {
    const TileSource upper = block.input.tile(block.chunk_row, k, part);
    tiles.template load<kInput>(upper.from, upper.stride);
    if constexpr (kRowTiles == 2) {
      const TileSource lower = block.input.tile(block.chunk_row + kTileRows, k, part);
      tiles.template load<kInput + 1>(lower.from, lower.stride);
    }
  }

  /// kColumns neighbouring columns, of which `first` counts from the first gate of `panel` on.
  template <class Job, int kRowTiles, int kColumns>
  static void run_group(Tiles& tiles, const Block<Job>& block, std::int64_t panel, int first) {
    const auto column = [&]<int kIndex>() {
      const int slot = (first + kIndex) / Job::kBlocks;
      return Column<Job, kRowTiles, kIndex>{block, panel + slot, slot,
                                            (first + kIndex) % Job::kBlocks};
    };
    const auto each = [&](const auto& body) __attribute__((always_inline)) {
      body(column.template operator()<0>(), 0);
      if constexpr (kColumns > 1) body(column.template operator()<1>(), 1);
      if constexpr (kColumns > 2) body(column.template operator()<2>(), 2);
      if constexpr (kColumns > 3) body(column.template operator()<3>(), 3);
    };
    const T* weights[kColumns];
    each([&](const auto& of, int i) {
      weights[i] = of.weights();
      of.start(tiles);
    });
    // One offset that stays in a register, so that nothing is stored in this loop.
    std::int64_t offset = 0;
    for (std::int64_t k = block.depth.begin; k < block.depth.end; k += kTileDepth) {
#pragma GCC unroll 8
      for (int phase = 0; phase < Isa::kPhaseCount; ++phase) {
        const Phase now = Isa::kPhases[phase];
        const Phase before = Isa::kPhases[phase > 0 ? phase - 1 : 0];
        if (phase == 0 || now.input != before.input) {
          load_input<Job, kRowTiles>(tiles, block, k, now.input);
        }
        const bool held = phase > 0 && now.weights == before.weights && kColumns <= 2;
        each([&](const auto& of, int i) __attribute__((always_inline)) {
          of.multiply(tiles, weights[i] + offset, now.weights, held);
        });
      }
      offset += panel_stride<Isa>(kTileDepth, Job::kBlocks);
    }
    each([&](const auto& of, int) { of.finish(tiles); });
  }

  template <class Job>
  static void run_columns(Tiles& tiles, const Block<Job>& block, std::int64_t panel, int panels) {
    const int columns = panels * Job::kBlocks;
    int first = 0;
    if (block.rows > kTileRows) {
      for (; first + 2 <= columns; first += 2) run_group<Job, 2, 2>(tiles, block, panel, first);
      if (first < columns) run_group<Job, 2, 1>(tiles, block, panel, first);
      return;
    }
    for (; first + 4 <= columns; first += 4) run_group<Job, 1, 4>(tiles, block, panel, first);
    if (columns - first == 3) run_group<Job, 1, 3>(tiles, block, panel, first);
    if (columns - first == 2) run_group<Job, 1, 2>(tiles, block, panel, first);
    if (columns - first == 1) run_group<Job, 1, 1>(tiles, block, panel, first);
  }

  /// A chunk of rows over all panels.
  template <class Job>
  class Chunk {
   public:
    Chunk(Tiles& tiles, const Job& job, std::int64_t row, int rows)
        : tiles_(tiles), job_(job), row_(row), rows_(rows) {}

    /// Whether any row takes part; the others are skipped.
    bool start(std::int64_t panel_begin, std::int64_t panel_end) {
      bool any = false;
      for (bool& active : active_) active = false;
      for (int r = 0; r < rows_; ++r) {
        if (job_.is_active(row_ + r)) {
          any = active_[r / kBlockRows] = true;
        } else {
          job_.skip(row_ + r, panel_begin, panel_end);
        }
      }
      return any;
    }

    /// A part of the depth: the weights of a run of panels are read once for all rows.
    void run(const typename Isa::Input& input, const Depth& depth, std::int64_t panel_begin,
             std::int64_t panel_end, bool backwards) {
      each_run<Block<Job>::kPanels>(
          panel_begin, panel_end, backwards, [&](std::int64_t panel, int panels) {
            for (int first = 0; first < rows_; first += kBlockRows) {
              if (!active_[first / kBlockRows]) continue;
              const int rows = static_cast<int>(smaller_of(kBlockRows, rows_ - first));
              if (rows != configured_) tiles_.configure(config_for(rows));
              configured_ = rows;
              const Block<Job> block{job_, input, depth, row_ + first, first, rows, sums_};
              run_columns(tiles_, block, panel, panels);
              finish(block, panel, panels);
            }
          });
    }

   private:
    void finish(const Block<Job>& block, std::int64_t panel, int panels) {
      if constexpr (!Job::kDirect) {
        for (int slot = 0; slot < panels; ++slot) {
          for (int r = 0; r < block.rows; ++r) {
            if (!job_.is_active(block.row + r)) continue;
            job_.finish(sums_[slot][r], block.row + r, panel + slot);
          }
        }
      }
    }

    Tiles& tiles_;
    const Job& job_;
    const std::int64_t row_;
    const int rows_;
    int configured_ = 0;
    bool active_[kChunkBlocks];
    alignas(64) float sums_[Block<Job>::kPanels][kBlockRows][Job::kBlocks * kPanel];
  };

  template <class Job>
  static void run(const Job& job, std::int64_t row_begin, std::int64_t row_end,
                  std::int64_t panel_begin, std::int64_t panel_end, std::int64_t stride) {
    Tiles tiles;
    typename Isa::Input input;
    // A cell needs its sums whole, so its depth is never parted.
    const std::int64_t at_once =
        Job::kDirect ? smaller_of(job.depth(), Isa::Input::kDepth) : job.depth();
    bool backwards = job.starts_backwards();
    int rows = 0;
    for (std::int64_t row = row_begin; row < row_end; row += rows) {
      rows = static_cast<int>(smaller_of(Isa::Input::rows_at_once(at_once), row_end - row));
      Chunk<Job> chunk(tiles, job, row, rows);
      if (!chunk.start(panel_begin, panel_end)) continue;
      std::int64_t k = 0;
      do {
        const Depth depth{k, smaller_of(k + at_once, job.depth())};
        input.take(job.input(row), stride, rows, depth.begin, depth.end);
        chunk.run(input, depth, panel_begin, panel_end, backwards);
        backwards = !backwards;
        k = depth.end;
      } while (k < job.depth());
    }
  }
};

}  // namespace sluice::kernels::recurrent::cpu
