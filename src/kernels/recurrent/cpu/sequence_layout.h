#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/recurrent/cpu/leaf.h"
#include "kernels/recurrent/recurrent.h"

/// Where everything lies in the three memories of a plan, as byte offsets, booked for the capacity.
namespace sluice::kernels::recurrent::cpu {

/// Derived sizes that every part of the time loop needs.
struct Sizes {
  Sizes(const Descriptor& descriptor, std::int64_t layer);

  std::int64_t gates, hidden, output, directions;
  std::int64_t panels, out_panels;
  std::int64_t state_width;  ///< panels * 16
  std::int64_t out_width;    ///< out_panels * 16
  std::int64_t gate_width;   ///< panels * gates * 16
  std::int64_t saved_width;  ///< panels * saved * 16
  std::int64_t max_input;    ///< of all layers
  bool lstm, projected;
  bool resets_before;     ///< recurrent products are made gate by gate, that of n after the others
  bool hidden_bias;       ///< that of n's recurrent product is apart
  bool multiplies_apart;  ///< the recurrent product is made before the cells
  bool norms;             ///< layer norm
  bool gates_apart;       ///< gate gradients of the two products differ
  bool fresh_cells;       ///< c as a step makes it differs from the state that goes on
};

/// Gates that stand side by side in columns [panels, count, 16].
struct Gates {
  std::int64_t first, count;

  std::int64_t width(const Sizes& sizes) const { return count * sizes.state_width; }
};

/// What a column of such gates stands for.
struct GateRow {
  GateRow(const Sizes& sizes, const Gates& gates, std::int64_t column)
      : unit(column / (gates.count * kPanel) * kPanel + column % kPanel),
        canonical((gates.first + column / kPanel % gates.count) * sizes.hidden + unit) {}

  std::int64_t unit;       ///< padding if not below sizes.hidden
  std::int64_t canonical;  ///< row of the canonical weights
};

/// Weights of one layer and direction. The transposed ones serve backward: their depth runs over
/// panels, gates and lanes, the order in which gate gradients are stored.
struct PackedLayer {
  /// weight_hh and its transpose: with resets before the product each gate's for itself, so many
  /// elements apart.
  std::int64_t gate_size = 0, gate_size_t = 0;
  std::size_t weight_ih = 0, weight_hh = 0, weight_hr = 0, bias = 0, bias_hn = 0;
  std::size_t peepholes = 0;  ///< [panels, 3, 16] Sum
  /// Layer norm: [gate_width] Sum, and of c [state_width] Sum.
  std::size_t gain_ih = 0, gain_hh = 0, gain_c = 0, shift_c = 0;
  std::size_t weight_ih_t = 0, weight_hh_t = 0, weight_hr_t = 0;
};

struct PackedLayout {
  std::vector<PackedLayer> layers;  ///< l * D + d
  std::size_t bytes = 0;
};

/// What forward leaves for backward.
struct ReserveLayer {
  std::size_t saved = 0;   ///< [time, rows, saved_width] Sum
  std::size_t h = 0;       ///< [time + 1, rows, output]: row t is the state before step t, or after
                           ///< it in the backward direction, which runs from `time` down to 0
  std::size_t c = 0;       ///< LSTM: the same [time + 1, rows, state_width] Sum
  std::size_t h_full = 0;  ///< with a projection: [time, rows, hidden], h before it
  std::size_t h_dropped = 0;  ///< with recurrent dropout: as h, what the recurrent product reads
  std::size_t h_reset = 0;    ///< with resets before the product: [time, rows, hidden], r * h
  std::size_t c_fresh = 0;    ///< with fresh cells: [time, rows, state_width] Sum
  /// Layer norm, Sum: normalised products [time, rows, gate_width], c [time, rows, state_width],
  /// and what the three were divided by, inverted, [time, rows, 3].
  std::size_t norm_ih = 0, norm_hh = 0, norm_c = 0, inverses = 0;
};

struct ReserveLayout {
  std::vector<ReserveLayer> layers;  ///< l * D + d
  std::vector<std::size_t> outputs;  ///< of layers below the last, [time, rows, D * output]
  std::size_t bytes = 0;
};

/// Scratch of the forward pass, an entry a direction.
struct ForwardScratch {
  std::vector<std::size_t> pre;          ///< [rows of a chunk, gate_width] Sum
  std::vector<std::size_t> h, c;         ///< inference: [2, rows, output], [rows, state_width] Sum
  std::vector<std::size_t> h_full;       ///< inference with a projection: [rows, hidden]
  std::vector<std::size_t> out;          ///< with a projection: [rows, out_width] Sum
  std::vector<std::size_t> recurrent;    ///< if made apart: [rows, gate_width] Sum
  std::vector<std::size_t> h_reset;      ///< inference with resets before: [rows, hidden]
  std::vector<std::size_t> multipliers;  ///< of recurrent dropout: [rows, out_width] Sum
  std::vector<std::size_t> c_fresh;      ///< inference with fresh cells: [rows, state_width] Sum
  std::vector<std::size_t> saved;        ///< inference with layer norm: [rows, saved_width] Sum
  std::vector<std::size_t> outputs;      ///< inference: two of [time, rows, D * output], in turn
};

/// One thread's part of the backward scratch.
struct ThreadScratch {
  std::array<std::size_t, 2> sums{};  ///< products on their way to two gradients, Sum
  std::size_t columns = 0;            ///< [kWeightGradientColumns, kColumnStride]
};

/// Scratch of the backward pass; vectors but `threads` have an entry a direction.
struct BackwardScratch {
  std::vector<std::size_t> d_gates;  ///< [time, rows, gate_width]
  /// GRUs: the same, or with resets before the product each gate's [time, rows, state_width].
  std::vector<std::size_t> d_gates_hidden;
  std::vector<std::size_t> dh;          ///< [2, rows, out_width] Sum
  std::vector<std::size_t> dc;          ///< LSTM: [rows, state_width] Sum
  std::vector<std::size_t> dh_out;      ///< with a projection: [time, rows, output]
  std::vector<std::size_t> dh_full;     ///< with a projection: [rows, state_width] Sum
  std::vector<std::size_t> dh_through;  ///< zoneout of h: [2, rows, out_width] Sum, and around
  std::vector<std::size_t> dc_around;   ///< zoneout of c: [rows, state_width] Sum
  std::vector<std::size_t> product;     ///< recurrent dropout, or resets before the product:
                                        ///< [2, rows, out_width] Sum, and the multipliers
  // With layer norm.
  std::vector<std::size_t> d_sums;    ///< of the gates' sums: [time, rows, gate_width]
  std::vector<std::size_t> d_norm_c;  ///< of what tanh takes: [time, rows, state_width] Sum
  std::vector<std::size_t> norm_row;  ///< [rows, gate_width + 2 * state_width] Sum
  std::size_t dy = 0;                 ///< of inner layers: [time, rows, D * output]
  /// What weight gradients multiply by, packed in pieces of the depth.
  std::array<std::size_t, 2> inputs{};
  std::vector<ThreadScratch> threads;
};

/// Scratch of packing: for each thread a few columns of a matrix in panel order,
/// [gate_width, kTransposedPanels * 16] Sum.
struct PackScratch {
  std::vector<std::size_t> threads;
};

struct WorkspaceLayout {
  ForwardScratch forward;
  BackwardScratch backward;
  PackScratch pack;
  std::size_t bytes = 0;
};

/// Time steps whose input products are computed at once: enough rows that reading the weights pays,
/// few enough that the sums stay in cache until the steps use them.
constexpr std::int64_t chunk_steps(std::int64_t good_rows, std::int64_t rows, std::int64_t time) {
  const std::int64_t steps = (good_rows + rows - 1) / rows;
  return steps < time ? steps : time;
}

/// Rows of gate gradients that become an input gradient at once.
inline constexpr std::int64_t kInputGradientRows = 64;
/// Columns of gate gradients whose weight gradients one thread computes at once, at most.
inline constexpr std::int64_t kWeightGradientColumns = 256;
/// Steps times rows that one product of a weight gradient sums over; the next adds to it. Their
/// order is fixed, whatever the number of threads.
inline constexpr std::int64_t kWeightGradientDepth = 256;
/// Panels of columns that are brought into panel order at once: half a MB where gates * hidden is
/// 2048.
inline constexpr std::int64_t kTransposedPanels = 4;
/// Between transposed columns: not a power of two, which would crowd few sets of a cache.
inline constexpr std::int64_t kColumnStride = kWeightGradientDepth + kPanel;

/// Of every layer; all but what depends on its output is the same.
std::vector<Sizes> sizes_of_layers(const Descriptor& descriptor);
/// Those of the layer with the widest output, for memory that layers share.
Sizes widest_sizes(const Descriptor& descriptor);

template <typename T>
PackedLayout book_packed(const Descriptor& descriptor, const Leaf<T>& leaf);
template <typename T>
ReserveLayout book_reserve(const Descriptor& descriptor);
template <typename T>
WorkspaceLayout book_workspace(const Descriptor& descriptor, const Leaf<T>& leaf, int threads);

/// The array that a booking put at `offset`.
template <typename U>
U* at(void* memory, std::size_t offset) {
  return reinterpret_cast<U*>(static_cast<std::byte*>(memory) + offset);
}

}  // namespace sluice::kernels::recurrent::cpu
