#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/context.h"
#include "runtime/rng.h"
#include "runtime/tensor.h"

/// A stack of recurrent layers over a whole sequence, forward and backward, as one operation, so
/// that an implementation may run layers as a wavefront or both directions in one launch.
/// Equations and gate order: docs/equations.md.
namespace sluice::kernels::recurrent {

using runtime::Context;
using runtime::DType;
using runtime::Tensor;

enum class CellType { kLstm, kGru, kGruResetBefore, kRnnTanh, kRnnRelu };

inline constexpr std::array kCellTypes{CellType::kLstm, CellType::kGru, CellType::kGruResetBefore,
                                       CellType::kRnnTanh, CellType::kRnnRelu};

std::string_view name_of(CellType cell);
/// "lstm", "gru", "gru_reset_before", "rnn_tanh" or "rnn_relu"; anything else is refused.
CellType parse_cell(std::string_view name);

/// Blocks of H rows that a cell's weights have.
constexpr std::int64_t gates_of(CellType cell) {
  if (cell == CellType::kLstm) return 4;
  return cell == CellType::kGru || cell == CellType::kGruResetBefore ? 3 : 1;
}

/// Values of a unit that backward needs of a step: gates after activation, of the GRU R_n h + b_hn
/// as well; of a plain RNN its h.
constexpr std::int64_t saved_of(CellType cell) {
  return cell == CellType::kGru ? 4 : gates_of(cell);
}

/// What a plan is made for. `time` and `rows` are capacities; each run may be smaller.
struct Descriptor {
  CellType cell = CellType::kLstm;
  std::int64_t layers = 1;
  std::int64_t directions = 1;  ///< 1, or 2: forward and backward, outputs side by side
  std::int64_t input = 0;       ///< features of x
  std::int64_t hidden = 0;      ///< H
  /// H of each layer where they differ; empty: `hidden` is that of all. No implementation is asked
  /// about such a stack: make_plan chains plans of layers that are alike (layer_chain.h).
  std::vector<std::int64_t> widths = {};
  /// P, LSTM only: none if empty, of all layers, or one a layer.
  std::vector<std::int64_t> projections;
  std::int64_t time = 0;
  std::int64_t rows = 0;
  /// Storage of x, y, h and packed weights: float64, float32, bfloat16 or float16. Sums, c and
  /// gradients of weights are kept in policy_of(dtype): float32 for the last two.
  DType dtype = DType::kFloat32;
  /// Whether products of float32 round their factors to TF32; make_plan takes it from the context.
  bool tf32 = false;
  /// Whether products may take 8-bit weights and activations (docs/quantization.md): float32
  /// storage, inference, on the CPU. make_plan takes it from the context, too.
  bool int8 = false;
  bool training = false;  ///< whether backward will be called
  double dropout = 0;     ///< rate between layers; applied only when training

  // Options of cells beyond the plain equations (docs/equations.md).
  bool resets = false;           ///< whether runs may be given resets
  bool peepholes = false;        ///< LSTM only
  bool layer_norm = false;       ///< LSTM only, without projection and peepholes
  double zoneout_h = 0;          ///< rate at which units keep their h; in inference its expectation
  double zoneout_c = 0;          ///< the same of c: LSTM only
  double recurrent_dropout = 0;  ///< rate of h in the recurrent product; only when training
  /// LSTM and GRUs: gates are clip(0.2 a + 0.5, 0, 1), not the logistic function.
  bool hard_sigmoid = false;

  std::int64_t gates() const { return gates_of(cell); }
  bool projects() const { return !projections.empty(); }
  /// Whether layers differ in what they put out.
  bool is_uneven() const;
  /// H of a layer.
  std::int64_t hidden_of(std::int64_t layer) const {
    return widths.empty() ? hidden : widths[static_cast<std::size_t>(layer)];
  }
  /// Width of a layer's h and of the output of one of its directions.
  std::int64_t output_of(std::int64_t layer) const;
  std::int64_t widest_output() const;
  /// Width of the input of a layer.
  std::int64_t input_of(std::int64_t layer) const {
    return layer == 0 ? input : directions * output_of(layer - 1);
  }
  /// Width of y.
  std::int64_t y_width() const { return directions * output_of(layers - 1); }
  /// Of h0, hn and their gradients: [L*D, batch, output]; where layers differ one axis with
  /// [batch, output_of(layer)] of each layer and direction after the other.
  base::Shape h_shape(std::int64_t batch) const;
  /// Where those of layer * D + direction begin, in elements.
  std::int64_t h_offset(std::int64_t layer_and_direction, std::int64_t batch) const;
  /// Likewise of c0, cn and their gradients: [L*D, batch, H], or one axis.
  base::Shape c_shape(std::int64_t batch) const;
  std::int64_t c_offset(std::int64_t layer_and_direction, std::int64_t batch) const;
  /// Of c_sequence: [L*D, time, batch, H], or one axis.
  base::Shape c_sequence_shape(std::int64_t run_time, std::int64_t batch) const;
  bool drops_recurrent() const { return training && recurrent_dropout > 0; }
  /// Whether a step takes more than the equations of the cell.
  bool has_extras() const {
    return resets || peepholes || layer_norm || zoneout_h > 0 || zoneout_c > 0 ||
           drops_recurrent() || hard_sigmoid;
  }
  /// Throws ErrorCode::kInvalidArgument for sizes that make no sense.
  void validate() const;
};

/// Canonical weights, or their gradients, of one layer and direction, in the master dtype
/// (float32, or float64 when the storage is float64). G gates in the order i,f,g,o or r,z,n, or
/// one.
struct LayerWeights {
  Tensor weight_ih;             ///< [G*H, input_of(layer)]
  Tensor weight_hh;             ///< [G*H, output_of(layer)]
  Tensor bias_ih;               ///< [G*H]
  Tensor bias_hh;               ///< [G*H]
  Tensor weight_hr;             ///< [P, H], only with a projection
  Tensor weight_peephole = {};  ///< [3, H] of i, f, o: only with peepholes
  // Only with layer norm.
  Tensor gain_ih = {};  ///< [4*H], of the normalised input product
  Tensor gain_hh = {};  ///< [4*H], of the normalised recurrent product
  Tensor gain_c = {};   ///< [H], of the normalised c on its way to h
  Tensor shift_c = {};  ///< [H], added to that
};

/// All tensors of a LayerWeights.
inline constexpr std::array kLayerTensors{&LayerWeights::weight_ih, &LayerWeights::weight_hh,
                                          &LayerWeights::bias_ih,   &LayerWeights::bias_hh,
                                          &LayerWeights::weight_hr, &LayerWeights::weight_peephole,
                                          &LayerWeights::gain_ih,   &LayerWeights::gain_hh,
                                          &LayerWeights::gain_c,    &LayerWeights::shift_c};

/// Masks inside cells. Feature u of direction d of layer l has the unit number
/// `unit_of(mask, d) + u`, above those of the output of a layer, in the stream
/// `dropout.stream + l`.
enum class CellMask : std::uint32_t { kZoneoutH = 1, kZoneoutC = 2, kRecurrentDropout = 3 };

constexpr std::uint32_t unit_of(CellMask mask, std::int64_t direction) {
  return (static_cast<std::uint32_t>(mask) << 28) + (static_cast<std::uint32_t>(direction) << 27);
}

/// Memory of one plan on the plan's device, aligned to 64 bytes, sized by the plan.
struct Memory {
  void* packed = nullptr;     ///< weights in the implementation's own layout; filled by pack
  void* workspace = nullptr;  ///< scratch, free between calls
  void* reserve = nullptr;    ///< kept from forward for one backward, which may overwrite it
};

/// Queues work that neither waits for a run nor is waited for. A run that leaves part of the device
/// idle may call it, once, with a context whose stream joins the run's.
using OverlapWork = std::function<void(const Context&)>;

/// L layers, D directions; index l * D + d. Absent optional tensors are default Tensors.
struct ForwardArgs {
  std::int64_t time = 0;  ///< extent of this run, at most the capacity
  std::int64_t rows = 0;
  /// [time, rows, input], storage dtype. Past a row's end anything finite: it changes no result.
  Tensor x;
  Tensor lengths;     ///< int32 [rows], each 0..time, any order; absent: all `time`
  Tensor h0;          ///< h_shape(rows), storage; absent: zero
  Tensor c0;          ///< c_shape(rows), cell-state dtype; absent: zero
  Tensor y;           ///< out [time, rows, y_width()], storage, aligned as dy; zero past an end
  Tensor hn;          ///< out h_shape(rows), storage; optional. h0 for length 0
  Tensor cn;          ///< out c_shape(rows), cell-state dtype; optional
  Tensor c_sequence;  ///< out c_sequence_shape, cell-state dtype, zero past the end; optional
  Tensor row_ids;     ///< int32 [rows]: global row for dropout; absent: the row index
  /// Stream `dropout.stream + l` masks the output of layer l (l < L-1), unit =
  /// d*output_of(l)+feature, and draws what its cells drop or keep: zoneout at time t and recurrent
  /// dropout at time 0 (see CellMask). A unit whose word is below dropout_threshold(rate) is
  /// dropped, or keeps its state.
  runtime::DropoutSource dropout;
  /// int32 [time, rows]: not zero where a new sequence begins, so that no state passes from the
  /// time before; absent: nowhere. Only for a plan with resets.
  Tensor resets = {};
  const OverlapWork* overlap_work = nullptr;  ///< optional
};

/// Gradients flow in through dy (aligned to 16 bytes), dhn, dcn and out through the others.
struct BackwardArgs {
  /// Exactly the arguments of the forward run, less `overlap_work`; y, hn, cn as it left them.
  ForwardArgs forward;
  Tensor dy;   ///< [time, rows, y_width()], storage; absent: zero. Ignored past a row's end
  Tensor dhn;  ///< h_shape(rows), storage; absent: zero
  Tensor dcn;  ///< c_shape(rows), cell-state dtype; absent: zero
  Tensor dx;   ///< out, optional; overwritten, zero past a row's end
  Tensor dh0;  ///< out, optional, overwritten
  Tensor dc0;  ///< out, optional, overwritten
  /// Those of weights; an absent tensor is not computed, none overlap. L*D entries, or none.
  std::vector<LayerWeights> gradients;
  /// Whether these are added to what is there, or written whatever was there: equal to what adding
  /// to zeros gives, without reading them.
  bool accumulate = true;
  const OverlapWork* overlap_work = nullptr;  ///< optional
};

/// One implementation bound to one descriptor. Runs allocate nothing. Not thread-safe: one plan,
/// one stream at a time.
class Plan {
 public:
  virtual ~Plan() = default;

  virtual std::string_view implementation() const = 0;
  virtual std::size_t packed_bytes() const = 0;
  /// Names how weights lie in `packed`. Plans of one stack whose names are equal, whatever their
  /// capacities, fill it with the same bytes, so that one may run on what another packed. Empty:
  /// only this plan knows, and it must pack before it runs.
  virtual std::string packed_layout() const { return {}; }
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::size_t reserve_bytes() const = 0;

  /// Canonical weights -> packed. To be called again whenever the weights change.
  virtual void pack(const Context& context, const std::vector<LayerWeights>& weights,
                    const Memory& memory) = 0;
  virtual void forward(const Context& context, const ForwardArgs& args, const Memory& memory) = 0;
  virtual void backward(const Context& context, const BackwardArgs& args, const Memory& memory) = 0;
};

/// An entry of the ordered list of implementations. "auto" takes the first that neither refuses nor
/// is slower.
struct Candidate {
  std::string_view name;
  /// A library's own recurrent layer, kept for comparison: only ever chosen by name.
  bool peer = false;
  /// The reason why it can't run this, or nothing.
  std::optional<std::string> (*refuse)(const Descriptor&, const runtime::Device&);
  std::unique_ptr<Plan> (*create)(const Descriptor&, const runtime::Device&);
  /// Its runs are captured and replayed already, so capturing them again has no use.
  bool replays = false;
  /// The reason why another one measured faster here, or nothing. Then "auto" passes over this one,
  /// and only a caller that names it gets it. Null: never slower.
  std::optional<std::string> (*slower)(const Descriptor&) = nullptr;
  /// Whether `refuse` may be asked about gates with a hard sigmoid.
  bool hard_sigmoid = false;
};

/// The reason why a candidate can't run this, or nothing. Every caller asks this way, so that
/// `Candidate::refuse` never sees an option that most candidates lack.
std::optional<std::string> refusal(const Candidate& candidate, const Descriptor& descriptor,
                                   const runtime::Device& device);

/// The ordered list of one kind of device.
struct Candidates {
  std::span<const Candidate> list;
};

std::span<const Candidate> candidates(const runtime::Device& device);

struct Declined {
  std::string_view name;
  std::string reason;
};

struct Choice {
  std::unique_ptr<Plan> plan;
  std::vector<Declined> declined;  ///< those asked before the chosen one, for --explain
};

/// Throws ErrorCode::kUnsupported if 8-bit products are wanted of a device that has none.
void require_int8_device(bool int8, const runtime::Device& device);

/// Picks by name, or with "auto" the first candidate that accepts. If the context has a Tuning,
/// "auto" measures the candidates and picks the fastest, or the one that the Tuning remembers.
/// Throws ErrorCode::kUnsupported with every reason when none accepts.
Choice make_plan(const Context& context, const Descriptor& descriptor,
                 std::string_view implementation = "auto");

}  // namespace sluice::kernels::recurrent
