#include <vector>

#include "kernels/recurrent/cuda/forward_places.h"
#include "kernels/recurrent/cuda/joined_step/few_rows.h"
#include "kernels/recurrent/cuda/joined_step/launch.h"
#include "kernels/recurrent/cuda/reset_kernels.h"
#include "kernels/recurrent/cuda/scaled_steps.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "kernels/recurrent/cuda/stack_step/launch.h"
#include "kernels/recurrent/cuda/stack_step/order.h"
#include "runtime/cuda/check.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The forward steps of one layer and direction.
class DirectionForward : ForwardPlaces {
 public:
  using ForwardPlaces::ForwardPlaces;

  void begin() const {
    const std::int64_t h = rows_ * output_, c = rows_ * sizes_.hidden;
    if (!h_first_) copy_or_zero(h_at(0), h0(), h * sizes_.storage);
    if (sizes_.lstm && !c_first_) {
      const float* c0 = run_.args.c0.data_as<const float>();
      copy_or_zero(c_at(0), c0 ? c0 + index_ * c : nullptr,
                   c * static_cast<std::int64_t>(sizeof(float)));
    }
    if (run_.args.resets || sizes_.drops) {
      start_states(stream_, run_.engine.descriptor.dtype, rules(-1),
                   {rows_, output_, sizes_.hidden, h_at(0), sizes_.lstm ? c_at(0) : nullptr,
                    h_dropped_at(0)});
    }
    if (scaled_) scale_first_state(run_, lane_, h0());
  }

  void run(const Piece& piece) const {
    for (std::int64_t s = piece.begin; s < piece.end; ++s) step(s, piece);
  }

  /// A step of a stack that takes those of its layers together.
  stack_step::LayerStep layer_step(std::int64_t s) const {
    stack_step::LayerStep step{};
    step.state = reinterpret_cast<const float*>(h_at(s));
    step.state_weights = static_cast<const float*>(state_product(s).right);
    step.cell = cell_args(s, {0, walk_.steps});
    if (layer_ > 0) {
      step.input = reinterpret_cast<const float*>(run_.input_of(layer_)) +
                   walk_.time_of(s) * rows_ * sizes_.hidden;
      step.input_weights = static_cast<const float*>(input_product().right);
      step.cell.input = nullptr;
    }
    step.drops = run_.drops(layer_);
    step.dropout = run_.args.dropout.shifted(static_cast<std::uint32_t>(layer_));
    return step;
  }

  void finish() const {
    const std::int64_t h = rows_ * output_, c = rows_ * sizes_.hidden;
    if (run_.args.hn && !h_last_) copy(hn(), h_at(walk_.steps), h * sizes_.storage);
    if (run_.args.cn && !c_last_) {
      copy(run_.args.cn.data_as<float>() + index_ * c, c_at(walk_.steps),
           c * static_cast<std::int64_t>(sizeof(float)));
    }
  }

 private:
  void copy(void* to, const void* from, std::int64_t bytes) const {
    runtime::cuda::check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                                         cudaMemcpyDeviceToDevice, stream_),
                         "copy a recurrent state");
  }
  void copy_or_zero(void* to, const void* from, std::int64_t bytes) const {
    if (from) return copy(to, from, bytes);
    runtime::cuda::check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_),
                         "clear a recurrent state");
  }

  /// out [rows, gates*H] = a [rows, depth] * the transpose of rows [first, ..) of the matrix: one
  /// product, or one a gate.
  void multiply_gates(std::int64_t lane, const std::byte* a, const PackedMatrix& matrix,
                      std::int64_t first, std::int64_t gates, float* out,
                      std::int64_t out_stride) const {
    const std::int64_t parts = run_.engine.rung.combined_gates ? 1 : gates;
    const std::int64_t width = gates * sizes_.hidden / parts;
    for (std::int64_t part = 0; part < parts; ++part) {
      multiply(run_, lane, rows_, width, matrix.columns, {a, matrix.columns},
               forward_factor(run_, matrix, first + part * width),
               {out + part * width, out_stride, DType::kFloat32});
    }
  }

  /// The input products of one step, where they are not combined.
  void multiply_input(std::int64_t s, const Piece& piece) const {
    const InputProducts inputs = run_.engine.rung.inputs;
    if (inputs == InputProducts::kCombined) return;
    const std::int64_t lane = inputs == InputProducts::kStreamed ? 1 : lane_;
    const PackedMatrix& matrix = packed_.weight_ih;
    const std::byte* x =
        run_.element(run_.input_of(layer_), walk_.time_of(s) * rows_ * matrix.columns);
    multiply_gates(lane, x, matrix, direction_ * sizes_.gate_width, sizes_.gates,
                   input_at(s, piece), input_stride());
    run_.engine.lanes.follow(lane_, lane);
  }

  /// The recurrent products of one step.
  void multiply_state(std::int64_t s, const Piece& piece) const {
    const PackedMatrix& matrix = packed_.directions[static_cast<std::size_t>(direction_)].weight_hh;
    const auto multiply_some = [&](const std::byte* h, std::int64_t first, std::int64_t gates) {
      multiply_gates(lane_, h, matrix, first * sizes_.hidden, gates,
                     recurrent_ + first * sizes_.hidden, sizes_.gate_width);
    };
    if (!sizes_.resets_before) return multiply_some(h_read_at(s), 0, sizes_.gates);
    multiply_some(h_read_at(s), 0, 2);
    multiply_some(reset_state(s, piece), 2, 1);
  }

  /// r * h, what the product of n reads.
  const std::byte* reset_state(std::int64_t s, const Piece& piece) const {
    const std::int64_t t = walk_.time_of(s);
    ResetForward reset{};
    reset.rows = rows_;
    reset.hidden = sizes_.hidden;
    reset.lengths = run_.lengths();
    reset.t = t;
    reset.input = input_at(s, piece);
    reset.input_stride = input_stride();
    reset.recurrent = recurrent_;
    reset.bias = bias();
    reset.h = h_read_at(s);
    std::byte* to = run_.element(h_reset_, (training_ ? t : 0) * rows_ * sizes_.hidden);
    reset.h_reset = to;
    reset_forward(stream_, run_.kind(), reset);
    return to;
  }

  void step(std::int64_t s, const Piece& piece) const {
    if (run_.joins_many_rows(layer_)) return step_many_rows(s, piece);
    if (run_.joins_few_rows(layer_)) {
      return joined_step::queue_few_rows(stream_, run_.engine.descriptor.cell, is_behind_layer(),
                                         input_product(), state_product(s), cell_args(s, piece));
    }
    if (fused_) return fused_step(s, piece);
    if (scaled_) return scaled_step(s, piece);
    multiply_input(s, piece);
    multiply_state(s, piece);
    const CellForwardArgs cell = cell_args(s, piece);
    if (sizes_.norms) {
      cell_forward_norm(stream_, run_.kind(), cell, extras(s), norm(s));
      return;
    }
    if (run_.engine.descriptor.has_extras()) {
      cell_forward_extras(stream_, run_.kind(), cell, extras(s));
      if (sizes_.projected) project(s);
      return;
    }
    const auto forward = run_.engine.rung.fused_pointwise ? cell_forward : cell_forward_apart;
    forward(stream_, run_.kind(), cell);
    if (sizes_.projected) project(s);
  }

  void scaled_step(std::int64_t s, const Piece& piece) const {
    multiply_scaled_state(run_, lane_, layer_, direction_, recurrent_);
    scaled_cell_forward(stream_, run_.kind(), cell_args(s, piece), scaled_state(run_));
  }

  StepProduct state_product(std::int64_t s) const {
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    return {h_at(s), output_, run_.packed<const std::byte>(packed.weight_hh.plain), output_};
  }
  /// Of a layer's only step.
  StepProduct input_product() const {
    const PackedMatrix& weights = packed_.weight_ih;
    return {run_.input_of(layer_), weights.columns,
            forward_factor(run_, weights, direction_ * sizes_.gate_width).data, weights.columns};
  }

  void step_many_rows(std::int64_t s, const Piece& piece) const {
    joined_step::queue(stream_, run_.kind(), is_behind_layer(), input_product(), state_product(s),
                       cell_args(s, piece));
  }
  /// Whether the layer below has queued nothing but its joined step, nor this one anything yet.
  bool is_behind_layer() const {
    const ForwardArgs& args = run_.args;
    if (layer_ == 0 || sizes_.directions > 1) return false;
    const bool joined = run_.joins_many_rows(layer_) ? run_.joins_many_rows(layer_ - 1)
                                                     : run_.joins_few_rows(layer_ - 1);
    return joined && run_.lane_of(layer_ - 1, 0) == lane_ && h_first_ &&
           (!sizes_.lstm || c_first_) && (!args.hn || h_last_) && (!args.cn || c_last_);
  }

  void fused_step(std::int64_t s, const Piece& piece) const {
    const Descriptor& descriptor = run_.engine.descriptor;
    const StepKernels& kernels = step_kernels(descriptor.dtype);
    if (!run_.joins_input(layer_)) {
      kernels.forward(stream_, descriptor.cell, *fused_, s > piece.begin, state_product(s),
                      cell_args(s, piece));
      return;
    }
    kernels.forward_with_input(stream_, descriptor.cell,
                               *run_.fused_geometry(StepPass::kForwardWithInput), input_product(),
                               state_product(s), cell_args(s, piece));
  }

  CellForwardArgs cell_args(std::int64_t s, const Piece& piece) const {
    const std::int64_t t = walk_.time_of(s);
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    CellForwardArgs cell{};
    cell.rows = rows_;
    cell.hidden = sizes_.hidden;
    cell.lengths = run_.lengths();
    cell.t = t;
    cell.input = input_at(s, piece);
    cell.input_stride = input_stride();
    cell.recurrent = recurrent_;
    cell.bias = bias();
    cell.gates = gates_;
    if (sizes_.lstm) {
      cell.c_before = c_at(s);
      cell.c_after = c_at(s + 1);
    } else if (sizes_.hidden_bias) {
      cell.bias_hn = run_.packed<const float>(packed.bias_hn);
    }
    if (sizes_.projected) {
      cell.h_after = h_full_at(t);
    } else {
      cell.h_before = h_at(s);
      cell.h_after = h_at(s + 1);
      cell.y = y_at(t);
      cell.y_stride = y_stride();
    }
    if (training_) cell.saved = run_.element(saved_, t * rows_ * sizes_.saved_width);
    if (run_.args.c_sequence) {
      cell.c_sequence = run_.args.c_sequence.data_as<float>() +
                        (index_ * walk_.steps + t) * rows_ * sizes_.hidden;
    }
    return cell;
  }

  CellForwardExtras extras(std::int64_t s) const {
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    CellForwardExtras extras{};
    extras.rules = rules(s);
    if (run_.engine.descriptor.peepholes) {
      extras.peepholes = run_.packed<const float>(packed.peepholes);
    }
    if (c_fresh_) extras.c_fresh = c_fresh_ + walk_.time_of(s) * rows_ * sizes_.hidden;
    if (!sizes_.projected) extras.h_dropped = h_dropped_at(s + 1);
    return extras;
  }

  CellNormForward norm(std::int64_t s) const {
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    CellNormForward norm{};
    norm.gain_ih = run_.packed<const float>(packed.gain_ih);
    norm.gain_hh = run_.packed<const float>(packed.gain_hh);
    norm.gain_c = run_.packed<const float>(packed.gain_c);
    norm.shift_c = run_.packed<const float>(packed.shift_c);
    norm.products = recurrent_;
    if (!training_) return norm;
    const StateLayout& state = run_.engine.reserve.states[static_cast<std::size_t>(index_)];
    const std::int64_t place = walk_.time_of(s) * rows_;
    norm.norm_ih = run_.element(run_.reserve<std::byte>(state.norm_ih), place * sizes_.gate_width);
    norm.norm_hh = run_.element(run_.reserve<std::byte>(state.norm_hh), place * sizes_.gate_width);
    norm.norm_c = run_.element(run_.reserve<std::byte>(state.norm_c), place * sizes_.hidden);
    norm.inverses = run_.reserve<float>(state.inverses) + place * 3;
    return norm;
  }

  void project(std::int64_t s) const {
    const std::int64_t t = walk_.time_of(s);
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    const Factor h_full{h_full_at(t), sizes_.hidden};
    const Factor weights = forward_factor(run_, packed.weight_hr);
    if (projects_into_y_) {
      const Sum y{y_at(t), y_stride(), run_.engine.descriptor.dtype};
      return multiply(run_, lane_, rows_, output_, sizes_.hidden, h_full, weights, y);
    }
    multiply(run_, lane_, rows_, output_, sizes_.hidden, h_full, weights,
             {projected_, output_, DType::kFloat32});
    FinishProjection finish{};
    finish.rows = rows_;
    finish.output = output_;
    finish.lengths = run_.lengths();
    finish.t = t;
    finish.projected = projected_;
    finish.h_before = h_at(s);
    finish.h_after = h_at(s + 1);
    finish.y = y_at(t);
    finish.y_stride = y_stride();
    if (run_.engine.descriptor.has_extras()) {
      finish_projection(stream_, run_.engine.descriptor.dtype, finish, rules(s),
                        h_dropped_at(s + 1));
    } else {
      finish_projection(stream_, run_.engine.descriptor.dtype, finish);
    }
  }
};

}  // namespace

void run_steps(const Run& run, std::int64_t layer, const Piece& piece) {
  Engine& engine = run.engine;
  const std::int64_t lane = run.lane_of(layer, 0);
  // Before the first direction has been queued, or the second would wait for it.
  for (std::int64_t d = 1; d < engine.sizes.directions; ++d) {
    engine.lanes.follow(run.lane_of(layer, d), lane);
  }
  for (std::int64_t d = 0; d < engine.sizes.directions; ++d) {
    const DirectionForward direction(run, layer, d);
    if (piece.begin == 0) direction.begin();
    direction.run(piece);
    if (piece.end == run.args.time) direction.finish();
  }
  for (std::int64_t d = 1; d < engine.sizes.directions; ++d) {
    engine.lanes.follow(lane, run.lane_of(layer, d));
  }
}

void run_stack_steps(const Run& run) {
  Engine& engine = run.engine;
  const runtime::cuda::GpuProperties& gpu = runtime::cuda::gpu_of(run.context.stream());
  const std::int64_t layers = engine.sizes.layers;
  std::vector<DirectionForward> stack;
  for (std::int64_t layer = 0; layer < layers; ++layer) stack.emplace_back(run, layer, 0).begin();
  engine.lanes.join();
  stack_step::StackStep kernel{};
  kernel.rows = static_cast<int>(run.args.rows);
  kernel.hidden = static_cast<int>(engine.sizes.hidden);
  kernel.dropout = Rate(engine.descriptor.dropout);
  kernel.row_ids = run.row_ids();
  stack_step::StackOrder order(layers, run.args.rows, stack_step::kTileRows, run.args.time);
  const std::int64_t most = stack_step::steps_at_a_time(kernel.hidden, gpu);
  for (bool behind = false;; behind = true) {
    const std::vector<stack_step::StackOrder::Step> steps = order.next(most);
    if (steps.empty()) break;
    kernel.count = 0;
    for (const stack_step::StackOrder::Step& step : steps) {
      stack_step::LayerStep& to = kernel.steps[kernel.count++];
      to = stack[static_cast<std::size_t>(step.layer)].layer_step(step.number);
      to.first_row = static_cast<int>(step.first_row);
    }
    stack_step::queue(engine.lanes.stream(0), behind, kernel);
  }
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    engine.lanes.follow(run.lane_of(layer, 0), 0);
    stack[static_cast<std::size_t>(layer)].finish();
  }
}

}  // namespace sluice::kernels::recurrent::cuda
