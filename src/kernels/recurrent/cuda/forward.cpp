#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/reset_kernels.h"
#include "kernels/recurrent/cuda/scaled_inputs.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/cuda/check.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// One layer and direction of a forward run.
class DirectionForward {
 public:
  DirectionForward(const Run& run, std::int64_t layer, std::int64_t direction)
      : run_(run),
        sizes_(run.engine.sizes),
        layer_(layer),
        direction_(direction),
        index_(layer * sizes_.directions + direction),
        output_(run.engine.descriptor.output_of(layer)),
        rows_(run.args.rows),
        lane_(run.lane_of(layer, direction)),
        stream_(run.engine.lanes[lane_]),
        walk_{run.args.time, direction == 1},
        training_(run.engine.descriptor.training),
        packed_(run.engine.packed.layers[static_cast<std::size_t>(layer)]),
        fused_(run.fused_geometry(StepPass::kForward)) {
    const auto i = static_cast<std::size_t>(index_);
    const ForwardLayout& layout = run.engine.workspace.forward;
    const StateLayout& state = training_ ? run.engine.reserve.states[i] : layout.states[i];
    std::byte* base =
        static_cast<std::byte*>(training_ ? run.memory.reserve : run.memory.workspace);
    h_ = base + state.h;
    c_ = reinterpret_cast<float*>(base + state.c);
    saved_ = base + state.saved;
    h_full_ = base + state.h_full;
    h_reset_ = base + state.h_reset;
    if (sizes_.drops) h_dropped_ = base + state.h_dropped;
    if (training_ && sizes_.fresh_cells) c_fresh_ = reinterpret_cast<float*>(base + state.c_fresh);
    input_ = run.workspace<float>(layout.input[static_cast<std::size_t>(layer)]);
    recurrent_ = run.workspace<float>(layout.recurrent[i]);
    projected_ = run.workspace<float>(layout.projected[i]);
    gates_ = run.workspace<float>(layout.gates[i]);
    bind_states();
  }

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
  }

  void run(const Piece& piece) const {
    for (std::int64_t s = piece.begin; s < piece.end; ++s) step(s, piece);
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
  std::byte* h0() const {
    return run_.element(run_.args.h0, run_.engine.descriptor.h_offset(index_, rows_));
  }
  std::byte* hn() const {
    return run_.element(run_.args.hn, run_.engine.descriptor.h_offset(index_, rows_));
  }

  /// Steps read the first states and write the last ones where the caller has them, unless tensor
  /// copies couldn't, or backward wants the first beside those of later steps.
  void bind_states() {
    if (run_.engine.descriptor.has_extras()) return;
    // Where they are the same, blocks of a step would overwrite what others read.
    if (h0() != hn() && can_copy(hn())) h_last_ = hn();
    if (training_) {
      h_first_ = run_.lone_h0(layer_, direction_);
      c_first_ = run_.lone_c0(layer_, direction_);
      return;
    }
    if (h0() != hn() && can_copy(h0())) h_first_ = h0();
    const std::int64_t c = index_ * rows_ * sizes_.hidden;
    if (run_.args.c0) c_first_ = run_.args.c0.data_as<float>() + c;
    if (run_.args.cn) c_last_ = run_.args.cn.data_as<float>() + c;
  }

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

  /// The state before step s: all are kept for backward, else two take turns.
  std::byte* h_at(std::int64_t s) const {
    if (s == 0 && h_first_) return h_first_;
    if (s == walk_.steps && h_last_) return h_last_;
    return run_.element(h_, (training_ ? walk_.state_row(s) : s % 2) * rows_ * output_);
  }
  float* c_at(std::int64_t s) const {
    if (s == 0 && c_first_) return c_first_;
    if (s == walk_.steps && c_last_) return c_last_;
    return c_ + (training_ ? walk_.state_row(s) : 0) * rows_ * sizes_.hidden;
  }
  /// What the product of step s reads of the state, if that is not the state itself.
  std::byte* h_dropped_at(std::int64_t s) const {
    if (!sizes_.drops) return nullptr;
    return run_.element(h_dropped_, walk_.state_row(s) * rows_ * output_);
  }
  const std::byte* h_read_at(std::int64_t s) const {
    return sizes_.drops ? h_dropped_at(s) : h_at(s);
  }
  StateRules rules(std::int64_t s) const { return run_.rules(layer_, direction_, s); }
  std::byte* h_full_at(std::int64_t t) const {
    return run_.element(h_full_, (training_ ? t : 0) * rows_ * sizes_.hidden);
  }
  std::byte* y_at(std::int64_t t) const {
    return run_.element(run_.output_of(layer_),
                        (t * rows_ * sizes_.directions + direction_) * output_);
  }
  std::int64_t y_stride() const { return sizes_.directions * output_; }
  std::int64_t input_stride() const { return sizes_.directions * sizes_.gate_width; }

  /// Where the input products of step s are.
  float* input_at(std::int64_t s, const Piece& piece) const {
    const Rung& rung = run_.engine.rung;
    std::int64_t place = 0;
    if (rung.inputs != InputProducts::kEachStep) {
      const std::int64_t held = input_steps(run_.engine.descriptor, rung, layer_, walk_.steps);
      place = held == walk_.steps ? walk_.time_of(s) : s - piece.begin;
    }
    return input_ + place * rows_ * input_stride() + direction_ * sizes_.gate_width;
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
    reset_forward(stream_, run_.engine.descriptor.dtype, reset);
    return to;
  }

  const float* bias() const {
    return run_.packed<const float>(packed_.bias) + direction_ * sizes_.gate_width;
  }

  void step(std::int64_t s, const Piece& piece) const {
    if (fused_) return fused_step(s, piece);
    multiply_input(s, piece);
    multiply_state(s, piece);
    const CellForwardArgs cell = cell_args(s, piece);
    if (sizes_.norms) {
      cell_forward_norm(stream_, run_.engine.descriptor.dtype, cell, extras(s), norm(s));
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

  void fused_step(std::int64_t s, const Piece& piece) const {
    const Descriptor& descriptor = run_.engine.descriptor;
    const StepKernels& kernels = step_kernels(descriptor.dtype);
    const PackedDirection& packed = packed_.directions[static_cast<std::size_t>(direction_)];
    const StepProduct product{h_at(s), output_,
                              run_.packed<const std::byte>(packed.weight_hh.plain), output_};
    if (!run_.joins_input(layer_)) {
      kernels.forward(stream_, descriptor.cell, *fused_, s > piece.begin, product,
                      cell_args(s, piece));
      return;
    }
    const PackedMatrix& weights = packed_.weight_ih;
    const StepProduct input{run_.input_of(layer_), weights.columns,
                            forward_factor(run_, weights, direction_ * sizes_.gate_width).data,
                            weights.columns};
    kernels.forward_with_input(stream_, descriptor.cell,
                               *run_.fused_geometry(StepPass::kForwardWithInput), input, product,
                               cell_args(s, piece));
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
    multiply(run_, lane_, rows_, output_, sizes_.hidden, {h_full_at(t), sizes_.hidden},
             forward_factor(run_, packed.weight_hr), {projected_, output_, DType::kFloat32});
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

  const Run& run_;
  const Sizes& sizes_;
  const std::int64_t layer_, direction_, index_, output_, rows_, lane_;
  const cudaStream_t stream_;
  const Walk walk_;
  const bool training_;
  const PackedLayer& packed_;
  const std::optional<StepGeometry> fused_;
  std::byte *h_first_ = nullptr, *h_last_ = nullptr;
  float *c_first_ = nullptr, *c_last_ = nullptr;
  std::byte *h_ = nullptr, *saved_ = nullptr, *h_full_ = nullptr, *h_dropped_ = nullptr,
            *h_reset_ = nullptr;
  float *c_ = nullptr, *c_fresh_ = nullptr, *input_ = nullptr, *recurrent_ = nullptr,
        *projected_ = nullptr, *gates_ = nullptr;
};

/// The input products of all directions for the steps of a piece; or for all of the first layer's,
/// whose input is there from the beginning, unless steps would have to wait for them.
void multiply_inputs(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  const Engine& engine = run.engine;
  const Sizes& sizes = engine.sizes;
  if (engine.rung.inputs != InputProducts::kCombined) return;
  const std::int64_t time = run.args.time, rows = run.args.rows;
  const bool at_once = layer == 0 && !engine.rung.persistent();
  if ((at_once && piece.begin > 0) || run.joins_input(layer)) return;
  const Piece part = at_once ? Piece{0, time} : piece;
  // Launches have no other weights, whatever the context of this run.
  if (scales_input(engine.descriptor, engine.rung, layer) &&
      (engine.rung.persistent() || run.context.tf32())) {
    return multiply_scaled_input(run, lane, layer, part, run.input_products(layer, part));
  }
  const PackedMatrix& matrix = engine.packed.layers[static_cast<std::size_t>(layer)].weight_ih;
  multiply(run, lane, part.size() * rows, matrix.rows, matrix.columns,
           {run.element(run.input_of(layer), part.begin * rows * matrix.columns), matrix.columns},
           forward_factor(run, matrix),
           {run.input_products(layer, part), sizes.directions * sizes.gate_width, DType::kFloat32});
}

/// Dropout of what the layer hands to the one above, of the piece's times.
void drop_output(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  if (!run.drops(layer)) return;
  const std::int64_t step = run.args.rows * run.engine.descriptor.input_of(layer + 1);
  run.drop(run.engine.lanes[lane], layer, run.element(run.output_of(layer), piece.begin * step),
           piece.begin, piece.size());
}

/// The steps of a piece, of all directions.
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

void run_layer(const Run& run, std::int64_t layer, const Piece& piece) {
  Engine& engine = run.engine;
  const std::int64_t lane = run.lane_of(layer, 0);
  // Streamed products of this layer begin when its input is there.
  if (engine.rung.inputs == InputProducts::kStreamed) engine.lanes.follow(1, 0);
  const std::int64_t products = run.product_lane_of(layer);
  multiply_inputs(run, products, layer, piece);
  // The next piece's products take the place of those that the piece before this one has read.
  engine.lanes.follow(products, lane);
  engine.lanes.follow(lane, products);
  if (engine.rung.persistent()) {
    run_persistent_layer(run, layer, piece, {lane, layer});
  } else {
    run_steps(run, layer, piece);
  }
  if (layer + 1 == engine.sizes.layers) return;
  const std::int64_t above = run.product_lane_of(layer + 1);
  engine.lanes.follow(above, lane);
  drop_output(run, above, layer, piece);
}

/// Layers in two halves of the sequence, each on a lane of its own: the second half of a layer runs
/// beside the first one of the layer above, on half of the GPU each. Each half's input products
/// have their own half of the buffer.
void run_halves(const Run& run) {
  Engine& engine = run.engine;
  const std::int64_t time = run.args.time, middle = (time + 1) / 2;
  const std::int64_t layers = engine.sizes.layers;
  prepare_launches(run, 1);
  multiply_inputs(run, 0, 0, {0, time});
  engine.lanes.follow(0, 1);
  for (std::int64_t launch = 0; launch < 2 * layers; ++launch) {
    const std::int64_t layer = launch / 2, lane = launch % 2;
    const runtime::LayerSpan span(run.context.profiler(), layer);
    const Piece half = lane == 0 ? Piece{0, middle} : Piece{middle, time};
    if (layer > 0) multiply_inputs(run, lane, layer, half);
    if (lane == 1) engine.lanes.follow(1, 0);
    const bool alone = launch == 0 || launch + 1 == 2 * layers;
    run_persistent_layer(run, layer, half, {lane, launch, alone ? 1 : 2});
    drop_output(run, lane, layer, half);
  }
}

}  // namespace

void run_forward(Engine& engine, const Context& context, const ForwardArgs& args,
                 const Memory& memory) {
  const Run run{engine, context, args, memory};
  engine.lanes.begin(context);
  if (takes_halves(engine.descriptor, engine.rung, args.time)) {
    run_halves(run);
  } else {
    prepare_launches(run, 0);
    for_pieces(engine, args.time, true, [&](std::int64_t layer, const Piece& piece) {
      const runtime::LayerSpan span(context.profiler(), layer);
      run_layer(run, layer, piece);
    });
  }
  engine.lanes.join();
}

}  // namespace sluice::kernels::recurrent::cuda
