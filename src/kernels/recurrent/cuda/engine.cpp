#include "kernels/recurrent/cuda/engine.h"

#include <bit>

#include "kernels/elementwise/cuda/dropout.h"
#include "kernels/matmul/cuda/products.h"
#include "kernels/recurrent/cuda/joined_step/few_rows.h"
#include "kernels/recurrent/cuda/joined_step/launch.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "kernels/recurrent/cuda/stack_step/launch.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Of the direction that has the state before its first step in the first of its rows of states.
bool has_lone_states(const Run& run, std::int64_t direction) {
  const Descriptor& descriptor = run.engine.descriptor;
  return descriptor.training && run.args.time == 1 && direction == 0 && !descriptor.has_extras() &&
         !run.engine.rung.persistent();
}

/// Whether a step may be one kernel: of cells as they are, with factors that tensor cores take.
bool fuses_steps(const Run& run) {
  const Descriptor& descriptor = run.engine.descriptor;
  const bool exact = descriptor.dtype == DType::kFloat32 && !run.context.tf32();
  return run.engine.rung.fused_step && !exact && !descriptor.has_extras() &&
         !scales_steps(descriptor, run.engine.rung);
}

/// Whether a layer has one step, and tensor copies can read its input.
bool can_join_input(const Run& run, std::int64_t layer) {
  const std::int64_t line = run.engine.descriptor.input_of(layer) * run.engine.sizes.storage;
  return run.args.time == 1 && !run.engine.rung.persistent() && line % kCopyBytes == 0 &&
         can_copy(run.input_of(layer));
}

}  // namespace

bool can_copy(const void* data) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % kCopyBytes == 0;
}

const std::byte* Run::input_of(std::int64_t layer) const {
  return layer == 0 ? static_cast<const std::byte*>(args.x.data()) : output_of(layer - 1);
}

std::byte* Run::output_of(std::int64_t layer) const {
  if (layer + 1 == engine.sizes.layers) return static_cast<std::byte*>(args.y.data());
  const auto i = static_cast<std::size_t>(layer);
  return engine.descriptor.training ? reserve<std::byte>(engine.reserve.outputs[i])
                                    : workspace<std::byte>(engine.workspace.forward.outputs[i]);
}

std::int64_t Run::abreast() const {
  const bool pieces = piece_steps(engine.descriptor, engine.rung, args.time) < args.time;
  return engine.rung.persistent() && pieces ? engine.sizes.layers : 1;
}

float* Run::input_products(std::int64_t layer, const Piece& piece) const {
  const std::int64_t held = input_steps(engine.descriptor, engine.rung, layer, args.time);
  return at<float>(engine.workspace.forward.input[static_cast<std::size_t>(layer)]) +
         piece.begin % held * args.rows * engine.sizes.directions * engine.sizes.gate_width;
}

std::int64_t Run::lane_of(std::int64_t layer, std::int64_t direction) const {
  if (!engine.rung.wavefront) return 0;
  if (engine.sizes.directions == 1) return is_layered(engine.descriptor, engine.rung) ? layer : 0;
  return engine.rung.persistent() ? 0 : direction;
}

std::int64_t Run::product_lane_of(std::int64_t layer) const {
  const std::int64_t lane = lane_of(layer, 0);
  return engine.rung.persistent() ? lane_count(engine.descriptor, engine.rung) / 2 + lane : lane;
}

std::optional<StepGeometry> Run::fused_geometry(StepPass pass) const {
  if (!fuses_steps(*this)) return std::nullopt;
  const Descriptor& descriptor = engine.descriptor;
  return step_geometry(descriptor, pass, args.rows, step_lanes(descriptor, engine.rung),
                       runtime::cuda::gpu_of(context.stream()));
}

bool Run::joins_input(std::int64_t layer) const {
  return can_join_input(*this, layer) && (fused_geometry(StepPass::kForwardWithInput) ||
                                          joins_many_rows(layer) || joins_few_rows(layer));
}

bool Run::joins_many_rows(std::int64_t layer) const {
  constexpr std::uint32_t kPairBytes = 2 * sizeof(float);
  return can_join_input(*this, layer) && fuses_steps(*this) && !args.c_sequence &&
         alignment_of({args.c0.data(), args.cn.data(), output_of(layer)}) >= kPairBytes &&
         !fused_geometry(StepPass::kForwardWithInput) &&
         joined_step::wins(engine.descriptor, args.rows, runtime::cuda::gpu_of(context.stream()));
}

bool Run::joins_few_rows(std::int64_t layer) const {
  const Descriptor& descriptor = engine.descriptor;
  return can_join_input(*this, layer) && engine.rung.fused_step && !context.tf32() &&
         !descriptor.has_extras() &&
         joined_step::few_rows_win(descriptor, descriptor.input_of(layer), args.rows,
                                   runtime::cuda::gpu_of(context.stream()));
}

std::byte* Run::lone_h0(std::int64_t layer, std::int64_t direction) const {
  if (!has_lone_states(*this, direction)) return nullptr;
  const std::int64_t index = layer * engine.sizes.directions + direction;
  std::byte* h0 = element(args.h0, engine.descriptor.h_offset(index, args.rows));
  // Where they are the same, the step has overwritten it.
  return can_copy(h0) && args.h0.data() != args.hn.data() ? h0 : nullptr;
}

float* Run::lone_c0(std::int64_t layer, std::int64_t direction) const {
  if (!has_lone_states(*this, direction) || !args.c0) return nullptr;
  if (args.c0.data() == args.cn.data()) return nullptr;
  const std::int64_t index = layer * engine.sizes.directions + direction;
  return args.c0.data_as<float>() + index * args.rows * engine.sizes.hidden;
}

StateRules Run::rules(std::int64_t layer, std::int64_t direction, std::int64_t s) const {
  const Descriptor& descriptor = engine.descriptor;
  const Walk walk{args.time, direction == 1};
  StateRules rules{};
  rules.lengths = lengths();
  rules.t = walk.time_of(s);
  rules.boundary = walk.reverse ? rules.t : rules.t + 1;
  // Before the first step of the backward direction and behind the last of either lies none.
  if (args.resets && s + 1 < args.time && rules.boundary < args.time) {
    rules.resets = args.resets.data_as<const std::int32_t>() + rules.boundary * args.rows;
  }
  rules.training = descriptor.training;
  rules.source = args.dropout.shifted(static_cast<std::uint32_t>(layer));
  rules.row_ids = row_ids();
  rules.direction = direction;
  rules.zoneout_h = Rate(descriptor.zoneout_h);
  rules.zoneout_c = Rate(descriptor.zoneout_c);
  rules.recurrent_dropout = Rate(descriptor.recurrent_dropout);
  return rules;
}

std::byte* Run::kept(std::int64_t layer, std::int64_t t) const {
  const ReserveLayout& layout = engine.reserve;
  if (layout.kept.empty()) return nullptr;
  const std::int64_t row_bytes = engine.descriptor.input_of(layer + 1) / 8;
  return reserve<std::byte>(layout.kept[static_cast<std::size_t>(layer)]) +
         t * args.rows * row_bytes;
}

namespace {

elementwise::cuda::Dropped dropped(const Run& run, std::int64_t layer, std::byte* values,
                                   std::int64_t t, std::int64_t steps) {
  const Descriptor& descriptor = run.engine.descriptor;
  return {values,
          values,
          t,
          steps,
          run.args.rows,
          descriptor.input_of(layer + 1),
          run.row_ids(),
          descriptor.dropout,
          run.args.dropout.shifted(static_cast<std::uint32_t>(layer)),
          run.kept(layer, t)};
}

}  // namespace

void Run::drop(cudaStream_t stream, std::int64_t layer, std::byte* values, std::int64_t t,
               std::int64_t steps) const {
  elementwise::cuda::drop_out(stream, engine.descriptor.dtype,
                              dropped(*this, layer, values, t, steps));
}

void Run::draw_mask(cudaStream_t stream, std::int64_t layer) const {
  elementwise::cuda::draw_mask(stream, dropped(*this, layer, nullptr, 0, args.time));
}

void Run::drop_by_mask(cudaStream_t stream, std::int64_t layer, std::byte* values, std::int64_t t,
                       std::int64_t steps) const {
  const std::byte* mask = kept(layer, t);
  if (mask == nullptr) return drop(stream, layer, values, t, steps);
  const std::int64_t count = steps * args.rows * engine.descriptor.input_of(layer + 1);
  elementwise::cuda::drop_out_by_mask(stream, engine.descriptor.dtype,
                                      {values, values, count, engine.descriptor.dropout, mask});
}

void run_beside(const Run& run, std::int64_t lane, const OverlapWork& work) {
  Context side(run.context.device(), run.engine.lanes.stream(lane));
  side.set_precision(run.context.precision());
  side.set_profiler(run.context.profiler());
  side.set_tuning(run.context.tuning());
  work(side);
}

std::uint32_t alignment_of(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 16;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return 1u << std::countr_zero(bits);
}

bool joins_layers(const Run& run) {
  const Engine& engine = run.engine;
  const ForwardArgs& args = run.args;
  const auto alignment =
      alignment_of({args.y.data(), args.c0.data(), args.cn.data(), args.c_sequence.data()});
  // A single step may multiply the input too (Run::joins_input), and has nothing to run beside.
  return is_layered(engine.descriptor, engine.rung) && args.time > 1 && !engine.rung.persistent() &&
         engine.rung.fused_step && !run.context.tf32() && alignment == kCopyBytes &&
         stack_step::wins(engine.descriptor, args.rows,
                          runtime::cuda::gpu_of(run.context.stream()));
}

void multiply(const Run& run, std::int64_t lane, std::int64_t m, std::int64_t n, std::int64_t k,
              const Factor& a, const Factor& b, const Sum& c, const Products& products) {
  runtime::cuda::ProductSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.transpose_a = a.transposed;
  spec.transpose_b = b.transposed;
  spec.input = run.engine.descriptor.dtype;
  spec.output = c.dtype;
  spec.lda = a.stride;
  spec.ldb = b.stride;
  spec.ldc = c.stride;
  spec.batch = products.count;
  spec.stride_a = products.stride_a;
  spec.stride_b = products.stride_b;
  spec.stride_c = products.stride_c;
  spec.tf32 = run.context.tf32();
  spec.alignment = alignment_of({a.data, b.data, c.data});
  const bool of_weights = a.transposed;  // their gradients
  // The products of a piece, whose steps others' wait for, find launches of other layers there.
  if (run.abreast() > 1 && !of_weights) {
    spec.processors = runtime::cuda::gpu_of(run.context.stream()).processors / 2;
  }
  // Steps of other layers are on the GPU too; gradients of weights mostly come behind them.
  const Engine& engine = run.engine;
  const bool alone = engine.rung.persistent() || of_weights;
  const std::int64_t abreast = alone ? 1 : step_lanes(engine.descriptor, engine.rung);
  matmul::cuda::multiply(runtime::cuda::blas_of(run.context), run.engine.lanes.stream(lane), spec,
                         {a.data, b.data, c.data, 1, c.accumulate ? 1.0 : 0.0, nullptr, abreast});
}

Factor forward_factor(const Run& run, const PackedMatrix& matrix, std::int64_t first) {
  return {run.element(run.packed<const std::byte>(matrix.plain), first * matrix.columns),
          matrix.columns, true};
}

Factor backward_factor(const Run& run, const PackedMatrix& matrix, std::int64_t first) {
  // cuBLASLt's kernels for TF32 want the depth of both factors contiguous; those for plain float32
  // are faster (by a ninth of a step) with rows of weights as they are, in 16 bits both are alike.
  const bool tf32 = run.engine.descriptor.dtype == DType::kFloat32 && run.context.tf32();
  // Beside scaled weights the transpose may be all that is packed.
  if (matrix.has_transpose &&
      (tf32 || has_scaled_weights_alone(run.engine.descriptor, run.engine.rung))) {
    return {run.element(run.packed<const std::byte>(matrix.transposed), first), matrix.rows, true};
  }
  return {run.element(run.packed<const std::byte>(matrix.plain), first * matrix.columns),
          matrix.columns, false};
}

}  // namespace sluice::kernels::recurrent::cuda
