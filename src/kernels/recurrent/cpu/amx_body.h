#pragma once

#include "kernels/recurrent/cpu/leaf_body.h"

/// The leaf on tile registers (AMX), written over a class Tiles so that its logic also runs where
/// the processor has none: the hardware's tiles in amx_leaf_bf16.cpp, emulated ones in the tests.
///
/// Tiles has
///   configure(const TileConfig&)
///   zero<tile>()
///   load<tile>(const void*, stride), store<tile>(void*, stride)   strides in bytes
///   multiply<c, a, b>()   c[m][n] += a[m][2k] * b[k][2n] + a[m][2k+1] * b[k][2n+1]
/// and a destructor that gives the registers back.
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

inline constexpr int kTileRows = 16;
inline constexpr int kTileDepth = 32;  ///< bfloat16 in a row of a tile

/// The packed layout is that of LeafBody<Isa>, whose rows of sixteen pairs, kBlocks * 64 bytes
/// apart, are a tile of weights just as they lie. Isa::kDepthUnit must be kTileDepth, so that the
/// last tile of weights is whole.
template <class Isa, class Tiles>
struct AmxBody {
  using T = typename Isa::T;
  static_assert(Isa::kDepthUnit == kTileDepth && Isa::Vector::kWidth == kPanel);

  // Below this many rows a tile is mostly empty, and vectors stream the weights as fast.
  static constexpr std::int64_t kFewRows = 4;
  // Tiles do some 1000 GFLOP/s while the third cache brings a core some 10 GB/s of weights, and a
  // byte of them takes part in one operation a row: well over 100 rows hide the reading.
  static constexpr std::int64_t kGoodRows = 256;
  static constexpr std::int64_t kOwnRows = 128;

  static void product(const ProductArgs<T>& args) {
    if (args.rows < kFewRows) return LeafBody<Isa>::product(args);
    if (args.blocks == 1) {
      run(ProductJob<Isa, 1>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    } else if (args.blocks == 3) {
      run(ProductJob<Isa, 3>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    } else {
      run(ProductJob<Isa, 4>{args}, 0, args.rows, args.panel_begin, args.panel_end, args.a_stride);
    }
  }

  static void lstm_step(const StepArgs<T>& args) {
    if (args.row_end - args.row_begin < kFewRows) return LeafBody<Isa>::lstm_step(args);
    run(LstmJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end,
        args.h_prev_stride);
  }

  static void gru_step(const StepArgs<T>& args) {
    if (args.row_end - args.row_begin < kFewRows) return LeafBody<Isa>::gru_step(args);
    run(GruJob<Isa>{{args}}, args.row_begin, args.row_end, args.panel_begin, args.panel_end,
        args.h_prev_stride);
  }

  static constexpr Leaf<T> kLeaf{LeafBody<Isa>::packed_size,
                                 LeafBody<Isa>::template pack<float>,
                                 LeafBody<Isa>::template pack<T>,
                                 LeafBody<Isa>::transpose,
                                 product,
                                 lstm_step,
                                 gru_step,
                                 LeafBody<Isa>::lstm_step_backward,
                                 LeafBody<Isa>::gru_step_backward,
                                 kGoodRows,
                                 kOwnRows};

 private:
  // Tiles 0 to 3 hold sums, 4 and 5 rows of the input, 6 and 7 weights: 2 x 2 tiles of sums with
  // two tiles of rows, else 1 x 4.
  static constexpr int kInput = 4;
  static constexpr int kWeights = 6;
  static constexpr int kBlockRows = 2 * kTileRows;

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

  /// Up to 32 rows, and where a run of panels leaves their sums.
  template <class Job>
  struct Block {
    static constexpr int kPanels = Job::kBlocks == 4 ? 1 : Job::kBlocks == 3 ? 2 : 4;

    const Job& job;
    std::int64_t row, stride;  ///< first row; elements from one row to the next
    int rows;
    /// The part of the depth past the last whole tile, with zeros after it.
    alignas(64) T tail[kBlockRows][kTileDepth];
    alignas(64) float sums[kPanels][kBlockRows][Job::kBlocks * kPanel];

    void copy_tail() {
      const std::int64_t begin = job.depth() / kTileDepth * kTileDepth;
      for (int r = 0; r < rows; ++r) {
        for (std::int64_t k = 0; k < kTileDepth; ++k) {
          tail[r][k] = begin + k < job.depth() ? job.input(row + r)[begin + k] : T();
        }
      }
    }
  };

  template <int kRowTiles, int kColumn>
  static constexpr int sum_tile(int row_tile) {
    return kRowTiles == 1 ? kColumn : row_tile * 2 + kColumn;
  }

  /// The sums of one column of weights in a group, as far as it goes.
  template <class Job, int kRowTiles, int kColumn>
  struct Column {
    Block<Job>& block;
    std::int64_t panel;  ///< of the job
    int slot;            ///< of block.sums
    int gate;

    static constexpr int kUpper = sum_tile<kRowTiles, kColumn>(0);
    static constexpr int kLower = sum_tile<kRowTiles, kColumn>(1);
    static constexpr int kTile = kWeights + kColumn % 2;

    const T* weights() const {
      return block.job.packed() + panel * panel_stride<Isa>(block.job.depth(), Job::kBlocks) +
             gate * kPanel * Isa::kStep;
    }

    void start(Tiles& tiles) const {
      const auto from = block.job.start_rows(block.row, panel, gate);
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

    void multiply(Tiles& tiles, const T* from) const {
      tiles.template load<kTile>(from, Job::kBlocks * 64);
      tiles.template multiply<kUpper, kInput, kTile>();
      if constexpr (kRowTiles == 2) tiles.template multiply<kLower, kInput + 1, kTile>();
    }

    void finish(Tiles& tiles) const {
      float* to = block.sums[slot][0] + gate * kPanel;
      std::int64_t stride = Job::kBlocks * kPanel;
      if constexpr (Job::kDirect) {
        to = block.job.out(block.row, Job::column(panel, 0, gate));
        stride = block.job.args.out_stride;
      }
      const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(float));
      tiles.template store<kUpper>(to, bytes);
      if constexpr (kRowTiles == 2) tiles.template store<kLower>(to + kTileRows * stride, bytes);
    }
  };

  /// kColumns neighbouring columns, of which `first` counts from the first gate of `panel` on.
  template <class Job, int kRowTiles, int kColumns>
  static void run_group(Tiles& tiles, Block<Job>& block, std::int64_t panel, int first) {
    const auto column = [&]<int kIndex>() {
      const int slot = (first + kIndex) / Job::kBlocks;
      return Column<Job, kRowTiles, kIndex>{block, panel + slot, slot,
                                            (first + kIndex) % Job::kBlocks};
    };
    const auto each = [&](const auto& body) {
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
    const auto step = [&](const T* input, std::int64_t stride) {
      const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(T));
      tiles.template load<kInput>(input, bytes);
      if constexpr (kRowTiles == 2) {
        tiles.template load<kInput + 1>(input + kTileRows * stride, bytes);
      }
      each([&](const auto& of, int i) {
        of.multiply(tiles, weights[i]);
        weights[i] += Job::kBlocks * kPanel * kTileDepth;
      });
    };
    const std::int64_t depth = block.job.depth();
    const T* input = block.job.input(block.row);
    std::int64_t k = 0;
    for (; k + kTileDepth <= depth; k += kTileDepth) step(input + k, block.stride);
    if (k < depth) step(block.tail[0], kTileDepth);
    each([&](const auto& of, int) { of.finish(tiles); });
  }

  template <class Job>
  static void run_columns(Tiles& tiles, Block<Job>& block, std::int64_t panel, int panels) {
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

  template <class Job>
  static void run_block(Tiles& tiles, Block<Job>& block, std::int64_t panel_begin,
                        std::int64_t panel_end, bool backwards) {
    if (block.job.depth() % kTileDepth != 0) block.copy_tail();
    const auto body = [&](std::int64_t panel, int panels) {
      run_columns(tiles, block, panel, panels);
      if constexpr (!Job::kDirect) {
        for (int slot = 0; slot < panels; ++slot) {
          for (int r = 0; r < block.rows; ++r) {
            if (!block.job.is_active(block.row + r)) continue;
            block.job.finish(block.sums[slot][r], block.row + r, panel + slot, 0);
          }
        }
      }
    };
    each_run<Block<Job>::kPanels>(panel_begin, panel_end, backwards, body);
  }

  /// Rows outside, panels inside: 32 rows of the input stay in the first cache while the weights
  /// stream from the second.
  template <class Job>
  static void run(const Job& job, std::int64_t row_begin, std::int64_t row_end,
                  std::int64_t panel_begin, std::int64_t panel_end, std::int64_t stride) {
    Tiles tiles;
    int configured = 0;
    Block<Job> block{job, row_begin, stride, 0, {}, {}};
    bool backwards = job.starts_backwards();
    for (; block.row < row_end; block.row += block.rows) {
      block.rows = static_cast<int>(smaller_of(kBlockRows, row_end - block.row));
      bool active = false;
      for (int r = 0; r < block.rows; ++r) {
        if (job.is_active(block.row + r)) {
          active = true;
        } else {
          job.skip(block.row + r, panel_begin, panel_end);
        }
      }
      if (!active) continue;
      if (block.rows != configured) tiles.configure(config_for(block.rows));
      configured = block.rows;
      run_block(tiles, block, panel_begin, panel_end, backwards);
      backwards = !backwards;
    }
  }
};

}  // namespace sluice::kernels::recurrent::cpu
