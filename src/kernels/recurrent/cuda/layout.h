#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/recurrent/cuda/rung.h"

/// Where everything lies in the three memories of a plan, as byte offsets, booked for the capacity.
/// Of arrays over time, a run uses the beginning, with its own number of rows.
namespace sluice::kernels::recurrent::cuda {

/// Derived sizes that every part of the time loop needs, in elements.
struct Sizes {
  explicit Sizes(const Descriptor& descriptor);

  std::int64_t layers, directions, gates, hidden;
  std::int64_t gate_width;   ///< gates * hidden
  std::int64_t saved_width;  ///< saved * hidden
  std::int64_t storage;      ///< bytes of an element in storage
  bool lstm, projected;
  bool resets_before;  ///< the recurrent product of n is made after the others
  bool hidden_bias;    ///< that of n's recurrent product is apart
  bool carries_h;      ///< some of h goes on around the products: GRUs
  bool drops;          ///< recurrent dropout
  bool norms;          ///< layer norm
  bool gates_apart;    ///< gate gradients of the two products differ
  bool fresh_cells;    ///< c as a step makes it differs from the state that goes on
};

/// A matrix of weights in storage, [rows, columns], and its transpose where a rung wants it; or
/// recurrent weights as launches that keep them load them, for forward and for backward.
struct PackedMatrix {
  std::int64_t rows = 0, columns = 0;
  std::size_t plain = 0, transposed = 0;
  bool has_transpose = false;  ///< in storage; not said of what backward's launches load
  std::size_t largest = 0;     ///< float32: of weights kept on chip, in magnitude
};

struct PackedDirection {
  PackedMatrix weight_hh;            ///< [G*H, P or H]
  std::size_t scaled_weight_hh = 0;  ///< [G*H, H], float16, where scales_steps
  PackedMatrix weight_hr;            ///< [P, H]
  std::size_t bias_hn = 0;           ///< float32 [H], GRU that resets after the product
  std::size_t peepholes = 0;         ///< float32 [3, H]
  /// Layer norm: float32 [4*H], and of c [H].
  std::size_t gain_ih = 0, gain_hh = 0, gain_c = 0, shift_c = 0;
};

/// Both directions read the same input, so their input weights stand on top of each other.
struct PackedLayer {
  PackedMatrix weight_ih;            ///< [D*G*H, input]
  std::size_t scaled_weight_ih = 0;  ///< likewise, float16, where scales_weights
  std::size_t bias = 0;              ///< float32 [D*G*H]
  std::vector<PackedDirection> directions;
};

struct PackedLayout {
  std::vector<PackedLayer> layers;
  /// Of the scaled weights (scaled_weights.h): FactorScales (scaled_factors.h), as many as they
  /// take.
  std::size_t weight_scales = 0;
  std::size_t bytes = 0;
};
PackedLayout book_packed(const Descriptor& descriptor, const Rung& rung);

/// One layer and direction; index layer * D + direction. With training in the reserve, else in the
/// workspace.
struct StateLayout {
  std::size_t h = 0;       ///< storage [time + 1, rows, output]; in inference [2, rows, output]
  std::size_t c = 0;       ///< float32 [time + 1, rows, H], LSTM; in inference [rows, H]
  std::size_t saved = 0;   ///< storage [time, rows, saved, H], and a step more where gradients of
                           ///< gates lie a step behind (GradientPlace::kNextGates); training only
  std::size_t h_full = 0;  ///< storage [time, rows, H], with a projection; in inference [rows, H]
  std::size_t h_dropped = 0;  ///< as h, what products read of it; with recurrent dropout
  std::size_t h_reset = 0;    ///< r * h, if it resets before: as h_full
  std::size_t c_fresh = 0;    ///< float32 [time, rows, H]; training with fresh cells
  /// Training with layer norm: storage [time, rows, 4*H] twice (of launches [time, rows, H, 4]),
  /// [time, rows, H], and float32 [time, rows, 3].
  std::size_t norm_ih = 0, norm_hh = 0, norm_c = 0, inverses = 0;
};

struct ReserveLayout {
  std::vector<StateLayout> states;
  std::vector<std::size_t> outputs;  ///< of inner layers, storage [time, rows, D*output]
  std::vector<std::size_t> kept;     ///< likewise: dropout's mask, a bit an element; empty where
                                     ///< backward draws it again
  std::size_t bytes = 0;
};
ReserveLayout book_reserve(const Descriptor& descriptor, const Rung& rung);

/// Where an array lies that shares memory of the reserve if it can.
struct ArrayPlace {
  std::size_t offset = 0;
  bool in_reserve = false;  ///< else in the workspace
  bool next_step = false;   ///< begins a step of the run's saved gates later
};

/// In TF32, the left factor of a product as float16, each row by a scale of its own.
struct RowScaledFactor {
  std::size_t values = 0;  ///< [rows, width]
  std::size_t scales = 0;  ///< float32 [rows], what takes them back
};

struct ForwardLayout {
  /// A layer: float32 [input_steps, rows, D*G*H]. May lie over what layers above will save
  /// (input_place).
  std::vector<ArrayPlace> input;
  std::vector<RowScaledFactor> scaled;  ///< likewise [time, rows, input], where scales_input;
                                        ///< layers may share it
  RowScaledFactor state;                ///< where scales_steps: [rows, H] of the state
  std::vector<std::size_t> recurrent;   ///< a layer and direction: float32 [rows, G*H]
  std::vector<std::size_t> projected;   ///< likewise: float32 [rows, P]
  std::vector<std::size_t> gates;       ///< likewise: float32 [rows, saved, H]; separate kernels
  std::vector<StateLayout> states;      ///< inference only
  std::vector<std::size_t> outputs;     ///< inference only: of inner layers
  std::size_t exchange = 0;             ///< what blocks of a launch tell each other
};

/// In TF32, factors of weight gradients as float16; layers may share it.
struct ScaledLayout {
  std::size_t d_input = 0, input = 0;    ///< [time, rows, D*G*H] (unless scales_gates), [time,
                                         ///< rows, input]
  std::vector<std::size_t> h;            ///< a direction: [time, rows, output]
  std::vector<std::size_t> d_recurrent;  ///< likewise, where it is not d_input: [time, rows, G*H]
  std::size_t scales = 0;                ///< FactorScales (scaled_factors.h)
};

struct BackwardLayout {
  /// A layer: [time, rows, D*G*H], in storage or, where scales_gates, float16. Layers may share it,
  /// and it may lie over saved gates (gradient_place).
  std::vector<ArrayPlace> d_input;
  std::vector<std::size_t> row_scales;   ///< likewise, where scales_gates: float32 [time, rows]
  std::vector<std::size_t> d_recurrent;  ///< a layer and direction, where gradients of gates are
                                         ///< apart: likewise [time, rows, G*H]
  std::vector<std::size_t> dh;           ///< likewise: float32 [2, parts_of_step, rows, output]
  std::vector<std::size_t> dc;           ///< likewise: float32 [rows, H]
  std::vector<std::size_t> dh_out;       ///< likewise, projection: storage [time, rows, P]
  std::vector<std::size_t> dh_full;      ///< likewise, projection: float32 [rows, H]
  std::vector<std::size_t> product;      ///< likewise, recurrent dropout, resets before the
                                         ///< product or scaled steps: float32 [rows, output];
                                         ///< one after another, parts_of_scaled_step
  std::vector<std::size_t> d_sums;       ///< likewise, layer norm: as norm_ih
  std::vector<std::size_t> d_norm_c;     ///< likewise: storage [time, rows, H]
  std::vector<std::size_t> dh_whole;     ///< likewise, separate kernels: float32 [rows, H]
  std::vector<std::size_t> dc_whole;     ///< likewise
  std::vector<ArrayPlace> dy;            ///< a layer but the last: storage [time, rows, D*output];
                                         ///< may lie over c of a layer above
  std::vector<std::size_t> gate_sums;    ///< a layer and direction, where launches sum gradients
                                         ///< of gates: float32 [.., G*H]
  std::vector<std::size_t> sums;         ///< a lane: float32 [kColumnParts, G*H]
  std::vector<ScaledLayout> scaled;      ///< a layer; empty where gradients have no scaled factors
  std::size_t exchange = 0;              ///< what blocks of a launch tell each other
};

/// Forward and backward share the space.
struct WorkspaceLayout {
  ForwardLayout forward;
  BackwardLayout backward;
  std::size_t bytes = 0;
};
WorkspaceLayout book_workspace(const Descriptor& descriptor, const Rung& rung);

}  // namespace sluice::kernels::recurrent::cuda
