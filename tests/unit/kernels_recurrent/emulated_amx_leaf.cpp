#include "unit/kernels_recurrent/emulated_amx_leaf.h"

#include "kernels/recurrent/cpu/amx_body.h"
#include "kernels/recurrent/cpu/amx_isa.h"

// Compiled for AVX-512, like the leaves: nothing of the standard library in here.
namespace sluice::kernels::recurrent::cpu {
namespace {

/// Eight tiles as the instruction manual describes them, with its faults.
class EmulatedTiles {
 public:
  void configure(const TileConfig& config) {
    require(config.palette == 1 && config.start_row == 0);
    for (const std::uint8_t byte : config.reserved) require(byte == 0);
    for (int i = 0; i < 16; ++i) {
      require(i < 8 || (config.rows[i] == 0 && config.row_bytes[i] == 0));
      require(config.rows[i] <= 16 && config.row_bytes[i] <= 64);
      require((config.rows[i] == 0) == (config.row_bytes[i] == 0));
    }
    config_ = config;
    configured_ = true;
    for (auto& tile : tiles_) clear(tile);
  }

  template <int kTile>
  void zero() {
    require_valid(kTile);
    clear(tiles_[kTile]);
  }

  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    require_valid(kTile);
    clear(tiles_[kTile]);
    for (int row = 0; row < config_.rows[kTile]; ++row) {
      __builtin_memcpy(tiles_[kTile][row], static_cast<const char*>(from) + row * stride,
                       config_.row_bytes[kTile]);
    }
  }

  template <int kTile>
  void store(void* to, std::int64_t stride) {
    require_valid(kTile);
    for (int row = 0; row < config_.rows[kTile]; ++row) {
      __builtin_memcpy(static_cast<char*>(to) + row * stride, tiles_[kTile][row],
                       config_.row_bytes[kTile]);
    }
  }

  template <int kSum, int kA, int kB>
  void multiply() {
    require_valid(kSum);
    require_valid(kA);
    require_valid(kB);
    const int pairs = config_.row_bytes[kA] / 4;
    require(config_.rows[kSum] == config_.rows[kA] &&
            config_.row_bytes[kSum] == config_.row_bytes[kB] && config_.rows[kB] == pairs);
    for (int m = 0; m < config_.rows[kA]; ++m) {
      for (int n = 0; n < config_.row_bytes[kB] / 4; ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < pairs; ++k) {
          even += half(kA, m, 2 * k) * half(kB, k, 2 * n);
          odd += half(kA, m, 2 * k + 1) * half(kB, k, 2 * n + 1);
        }
        float sum;
        __builtin_memcpy(&sum, &tiles_[kSum][m][4 * n], sizeof sum);
        sum += even + odd;
        __builtin_memcpy(&tiles_[kSum][m][4 * n], &sum, sizeof sum);
      }
    }
  }

 private:
  using Tile = char[16][64];

  static void require(bool condition) {
    if (!condition) __builtin_trap();
  }
  void require_valid(int tile) const { require(configured_ && config_.rows[tile] > 0); }
  static void clear(Tile& tile) {
    for (auto& row : tile) {
      for (char& byte : row) byte = 0;
    }
  }
  float half(int tile, int row, int column) const {
    std::uint16_t bits;
    __builtin_memcpy(&bits, &tiles_[tile][row][2 * column], sizeof bits);
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    __builtin_memcpy(&value, &wide, sizeof value);
    return value;
  }

  TileConfig config_;
  bool configured_ = false;
  Tile tiles_[8];
};

}  // namespace

const Leaf<base::BFloat16> kEmulatedAmxLeafBf16 = AmxBody<AmxBf16Isa, EmulatedTiles>::kLeaf;
const Leaf<float> kEmulatedAmxLeafF32 = AmxBody<AmxF32Isa, EmulatedTiles>::kLeaf;

}  // namespace sluice::kernels::recurrent::cpu
