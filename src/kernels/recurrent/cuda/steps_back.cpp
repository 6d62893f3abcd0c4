#include "kernels/recurrent/cuda/backward_places.h"
#include "kernels/recurrent/cuda/last_step.h"
#include "kernels/recurrent/cuda/reset_kernels.h"
#include "kernels/recurrent/cuda/scaled_factors.h"
#include "kernels/recurrent/cuda/scaled_steps.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The backward steps of one layer and direction.
class DirectionBackward : BackwardPlaces {
 public:
  using BackwardPlaces::BackwardPlaces;

  void begin() const {
    const std::int64_t h = rows_ * output_, c = rows_ * sizes_.hidden;
    if (!reads_dhn()) {
      if (args_.dhn) {
        widen(stream_, run_.engine.descriptor.dtype, dh_at(0), dhn(), h);
      } else {
        clear(dh_at(0), h);
      }
    }
    if (!sizes_.lstm) return;
    if (args_.dcn) {
      copy(stream_, dc_, args_.dcn.data_as<const float>() + index_ * c, c);
    } else {
      clear(dc_, c);
    }
  }

  void run(const Piece& turns) const {
    for (std::int64_t p = turns.begin; p < turns.end; ++p) {
      if (fused_) {
        fused_step(p, turns);
      } else if (scaled_) {
        scaled_step(p);
      } else {
        step(p);
      }
    }
  }

  /// On that lane, which has waited for the last turn.
  void finish(std::int64_t lane) const {
    const cudaStream_t stream = run_.engine.lanes[lane];
    const std::int64_t h = rows_ * output_, c = rows_ * sizes_.hidden;
    if (extras_) {
      finish_gradients(stream, run_.rules(layer_, direction_, -1),
                       {rows_, output_, sizes_.hidden, dh_at(walk_.steps), product_,
                        sizes_.lstm ? dc_ : nullptr});
    }
    if (args_.dh0) {
      if (fused_) multiply_gates(walk_.steps - 1, lane);
      if (scaled_) add_last_product(lane);
      narrow(stream, run_.engine.descriptor.dtype,
             run_.element(args_.dh0, run_.engine.descriptor.h_offset(index_, rows_)),
             dh_at(walk_.steps), h);
    }
    if (args_.dc0) copy(stream, args_.dc0.data_as<float>() + index_ * c, dc_, c);
  }

 private:
  static void copy(cudaStream_t stream, float* to, const float* from, std::int64_t count) {
    runtime::cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(float),
                                         cudaMemcpyDeviceToDevice, stream),
                         "copy the gradient of a recurrent state");
  }
  void clear(float* to, std::int64_t count) const {
    runtime::cuda::check(
        cudaMemsetAsync(to, 0, static_cast<std::size_t>(count) * sizeof(float), stream_),
        "clear the gradient of a recurrent state");
  }

  /// By one kernel.
  void cell_backward_of(std::int64_t p, const CellBackwardArgs& cell) const {
    if (p > 0 || !reads_dhn()) return cell_backward(stream_, run_.kind(), cell);
    last_cell_backward(stream_, run_.kind(), cell, dhn());
  }

  void step(std::int64_t p) const {
    const CellBackwardArgs cell = cell_args(p);
    if (sizes_.projected) unproject(p, time_of_turn(p));
    if (sizes_.norms) {
      cell_backward_norm(stream_, run_.kind(), cell, extras(p), norm(p));
      multiply_gates(p, lane_);
      return;
    }
    if (extras_) {
      cell_backward_extras(stream_, run_.kind(), cell, extras(p));
    } else if (run_.engine.rung.fused_pointwise) {
      cell_backward_of(p, cell);
    } else {
      cell_backward_apart(stream_, run_.kind(), cell);
    }
    if (sizes_.resets_before) multiply_candidate(p);
    multiply_gates(p, lane_);
  }

  /// Of a GRU that resets before the product of n: what comes back from there, and what r gets of
  /// it.
  void multiply_candidate(std::int64_t p) const {
    const std::int64_t hidden = sizes_.hidden, s = walk_.steps - 1 - p, t = walk_.time_of(s);
    multiply(run_, lane_, rows_, hidden, hidden,
             {run_.element(gates_at(p), 2 * hidden), gates_stride()},
             backward_factor(run_, packed_.weight_hh, 2 * hidden),
             {candidate_, hidden, DType::kFloat32});
    ResetBackward reset{};
    reset.rows = rows_;
    reset.hidden = hidden;
    reset.lengths = run_.lengths();
    reset.t = t;
    reset.saved = run_.element(saved_, t * rows_ * sizes_.saved_width);
    const std::byte* lone = run_.lone_h0(layer_, direction_);
    const std::byte* states = sizes_.drops ? h_dropped_ : h_;
    reset.h = lone ? lone : run_.element(states, walk_.state_row(s) * rows_ * output_);
    reset.product = candidate_;
    if (!product_) reset.dh = dh_at(p + 1);
    reset.d_input = d_input_at(t);
    reset.d_input_stride = d_input_stride();
    reset_backward(stream_, run_.kind(), reset);
  }

  /// The product of the turn before, and the cell of this one; the last turn's product is left for
  /// finish().
  void fused_step(std::int64_t p, const Piece& turns) const {
    CellBackwardArgs cell = cell_args(p);
    if (p == 0) return cell_backward_of(p, cell);
    if (product_alone_) cell.dh = nullptr;
    const StepProduct product{gates_at(p - 1), gates_stride(),
                              run_.packed<const std::byte>(packed_.weight_hh.transposed),
                              sizes_.gate_width};
    const bool behind_step = p > turns.begin && p > 1;
    step_kernels(run_.engine.descriptor.dtype)
        .backward(stream_, run_.engine.descriptor.cell, *fused_, behind_step, product, cell);
  }

  /// Likewise.
  void scaled_step(std::int64_t p) const {
    CellBackwardArgs cell = cell_args(p);
    ScaledProduct product{};
    if (p == 0) {
      cell.dh = reinterpret_cast<const float*>(dhn());
    } else {
      const std::int64_t after = time_of_turn(p - 1);
      const std::int64_t parts = parts_of_scaled_step(run_.engine.descriptor);
      multiply_scaled_gates(run_, lane_, layer_, direction_, after, parts, product_);
      product = {product_, scaled_gates(run_, after).scales, parts, rows_ * output_};
      if (product_alone_) cell.dh = nullptr;
    }
    scaled_cell_backward(stream_, run_.kind(), cell, product, scaled_gates(run_, time_of_turn(p)));
  }
  /// That of the last turn, to what it has left of the first state's gradient.
  void add_last_product(std::int64_t lane) const {
    const std::int64_t p = walk_.steps - 1, t = time_of_turn(p);
    const cudaStream_t stream = run_.engine.lanes[lane];
    multiply_scaled_gates(run_, lane, layer_, direction_, t, 1, product_);
    ScaledRows scales{};
    scales.values = product_;
    scales.scales = scaled_gates(run_, t).scales;
    scales.steps = 1;
    scales.rows = scales.step_rows = rows_;
    scales.width = output_;
    scale_rows(stream, scales);
    if (product_alone_) clear(dh_at(p + 1), rows_ * output_);
    finish_gradients(stream, run_.rules(layer_, direction_, -1),
                     {rows_, output_, sizes_.hidden, dh_at(p + 1), product_, nullptr});
  }

  CellBackwardArgs cell_args(std::int64_t p) const {
    const std::int64_t s = walk_.steps - 1 - p, t = walk_.time_of(s);
    const std::int64_t before = walk_.state_row(s), after = walk_.state_row(s + 1);
    CellBackwardArgs cell{};
    cell.rows = rows_;
    cell.hidden = sizes_.hidden;
    cell.lengths = run_.lengths();
    cell.t = t;
    cell.saved = run_.element(saved_, t * rows_ * sizes_.saved_width);
    cell.d_input = d_input_at(t);
    cell.d_input_stride = d_input_stride();
    cell.dh_whole = dh_whole_;
    cell.dc_whole = dc_whole_;
    if (sizes_.lstm) {
      const float* lone = run_.lone_c0(layer_, direction_);
      cell.c_before = lone ? lone : c_ + before * rows_ * sizes_.hidden;
      cell.c = c_ + after * rows_ * sizes_.hidden;
      cell.dc = dc_;
    } else {
      cell.h_before = run_.element(h_, before * rows_ * output_);
    }
    if (sizes_.gates_apart) {
      cell.d_recurrent = run_.element(d_recurrent_, t * rows_ * sizes_.gate_width);
    }
    if (sizes_.projected) {
      cell.dh = dh_full_;
    } else {
      if (p > 0 || !reads_dhn()) cell.dh = dh_at(p);
      cell.dh_parts = parts_at(p);
      if (dy_) cell.dy = dy_at(t);
      cell.dy_stride = sizes_.directions * output_;
      if (!product_alone_) cell.dh_direct = dh_at(p + 1);
    }
    return cell;
  }

  CellBackwardExtras extras(std::int64_t p) const {
    const auto i = static_cast<std::size_t>(index_);
    CellBackwardExtras extras{};
    extras.rules = rules_of_turn(p);
    if (run_.engine.descriptor.peepholes) {
      extras.peepholes = run_.packed<const float>(packed_.peepholes);
    }
    if (sizes_.fresh_cells) {
      extras.c_fresh = run_.reserve<const float>(run_.engine.reserve.states[i].c_fresh) +
                       time_of_turn(p) * rows_ * sizes_.hidden;
    }
    extras.product = product_of_turn(p);
    return extras;
  }

  CellNormBackward norm(std::int64_t p) const {
    const auto i = static_cast<std::size_t>(index_);
    const StateLayout& state = run_.engine.reserve.states[i];
    const BackwardLayout& layout = run_.engine.workspace.backward;
    const std::int64_t place = time_of_turn(p) * rows_;
    const auto gates = [&](std::byte* base) {
      return run_.element(base, place * sizes_.gate_width);
    };
    const auto units = [&](std::byte* base) { return run_.element(base, place * sizes_.hidden); };
    CellNormBackward norm{};
    norm.gain_ih = run_.packed<const float>(packed_.gain_ih);
    norm.gain_hh = run_.packed<const float>(packed_.gain_hh);
    norm.gain_c = run_.packed<const float>(packed_.gain_c);
    norm.shift_c = run_.packed<const float>(packed_.shift_c);
    norm.norm_ih = gates(run_.reserve<std::byte>(state.norm_ih));
    norm.norm_hh = gates(run_.reserve<std::byte>(state.norm_hh));
    norm.norm_c = units(run_.reserve<std::byte>(state.norm_c));
    norm.inverses = run_.reserve<const float>(state.inverses) + place * 3;
    norm.d_sums = gates(run_.workspace<std::byte>(layout.d_sums[i]));
    norm.d_norm_c = units(run_.workspace<std::byte>(layout.d_norm_c[i]));
    return norm;
  }

  void unproject(std::int64_t p, std::int64_t t) const {
    SplitGradient split{};
    split.rows = rows_;
    split.output = output_;
    split.lengths = run_.lengths();
    split.t = t;
    split.dh = dh_at(p);
    if (dy_) split.dy = dy_at(t);
    split.dy_stride = sizes_.directions * output_;
    std::byte* through = run_.element(dh_out_, t * rows_ * output_);
    split.through = through;
    split.past = dh_at(p + 1);
    if (extras_) {
      split_gradient(stream_, run_.engine.descriptor.dtype, split, rules_of_turn(p),
                     product_of_turn(p));
    } else {
      split_gradient(stream_, run_.engine.descriptor.dtype, split);
    }
    multiply(run_, lane_, rows_, sizes_.hidden, output_, {through, output_},
             backward_factor(run_, packed_.weight_hr), {dh_full_, sizes_.hidden, DType::kFloat32});
  }

  /// Adds what reaches the previous h by the recurrent product, or makes it for its mask.
  void multiply_gates(std::int64_t p, std::int64_t lane) const {
    const std::int64_t gates = sizes_.resets_before ? 2 : sizes_.gates;
    const std::int64_t each = run_.engine.rung.combined_gates ? gates : 1;
    const bool begins = (product_alone_ || product_) && !candidate_;
    // Products whose sums the cell adds up are a batch.
    const std::int64_t batch = parts_at(p + 1), width = each * sizes_.hidden / batch;
    for (std::int64_t gate = 0; gate < gates; gate += each) {
      const Factor weights = backward_factor(run_, packed_.weight_hh, gate * sizes_.hidden);
      multiply(
          run_, lane, rows_, output_, width,
          {run_.element(gates_at(p), gate * sizes_.hidden), gates_stride()}, weights,
          {product_ ? product_ : dh_at(p + 1), output_, DType::kFloat32, gate > 0 || !begins},
          {batch, width, rows_ * output_, weights.transposed ? width : width * weights.stride});
    }
  }
};

}  // namespace

void run_steps_back(const Run& run, const BackwardArgs& args, std::int64_t layer,
                    const Piece& turns) {
  Engine& engine = run.engine;
  const std::int64_t lane = run.lane_of(layer, 0), directions = engine.sizes.directions;
  // Before the first direction has been queued, or the second would wait for it.
  for (std::int64_t d = 1; d < directions; ++d) engine.lanes.follow(run.lane_of(layer, d), lane);
  for (std::int64_t d = 0; d < directions; ++d) {
    const DirectionBackward direction(run, args, layer, d);
    if (turns.begin == 0) direction.begin();
    direction.run(turns);
    if (turns.end < run.args.time) continue;
    const bool apart = spreads_gradients(engine.descriptor, engine.rung);
    const std::int64_t last = apart ? kFirstStateLane : run.lane_of(layer, d);
    engine.lanes.follow(last, run.lane_of(layer, d));
    direction.finish(last);
  }
  for (std::int64_t d = 1; d < directions; ++d) engine.lanes.follow(lane, run.lane_of(layer, d));
}

}  // namespace sluice::kernels::recurrent::cuda
