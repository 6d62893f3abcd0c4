#include <initializer_list>
#include <optional>
#include <utility>

#include "c_api/objects.h"
#include "kernels/recurrent/adapted_plan.h"

namespace sluice::c_api {
namespace {

namespace recurrent = kernels::recurrent;
using base::DType;
using base::Shape;
using recurrent::Descriptor;
using runtime::Tensor;

/// More than anyone stacks, so that a wild number is refused before arrays of that size are read.
constexpr std::int64_t kMostLayers = 1024;

DType dtype_of(std::int32_t dtype, const char* name) {
  switch (dtype) {
    case SLUICE_FLOAT64:
      return DType::kFloat64;
    case SLUICE_FLOAT32:
      return DType::kFloat32;
    case SLUICE_BFLOAT16:
      return DType::kBFloat16;
    case SLUICE_FLOAT16:
      return DType::kFloat16;
  }
  base::fail(ErrorCode::kInvalidArgument, "{} is {}, which names no dtype of sluice.h", name,
             dtype);
}

/// 0 stands for the dtype that the engine keeps such numbers in.
DType dtype_or(std::int32_t dtype, DType kept, const char* name) {
  if (dtype == 0) return kept;
  const DType named = dtype_of(dtype, name);
  const bool doubles = kept == DType::kFloat64;
  SLUICE_CHECK((named == DType::kFloat64) == doubles, "{} is {}; where dtype is {} it must {}",
               name, base::name_of(named), doubles ? "float64" : "not float64",
               doubles ? "be float64" : "be float32, bfloat16 or float16");
  return named;
}

recurrent::CellType cell_of(std::int32_t cell) {
  using recurrent::CellType;
  switch (cell) {
    case SLUICE_LSTM:
      return CellType::kLstm;
    case SLUICE_GRU:
      return CellType::kGru;
    case SLUICE_GRU_RESET_BEFORE:
      return CellType::kGruResetBefore;
    case SLUICE_RNN_TANH:
      return CellType::kRnnTanh;
    case SLUICE_RNN_RELU:
      return CellType::kRnnRelu;
  }
  base::fail(ErrorCode::kInvalidArgument, "options.cell is {}, which names no cell of sluice.h",
             cell);
}

Descriptor descriptor_of(const sluice_recurrent_options& options) {
  SLUICE_CHECK(options.layers >= 1 && options.layers <= kMostLayers,
               "options.layers is {}, not 1 to {}", options.layers, kMostLayers);
  require(options.hidden, "options.hidden");
  Descriptor descriptor;
  descriptor.cell = cell_of(options.cell);
  descriptor.layers = options.layers;
  descriptor.directions = options.directions;
  descriptor.input = options.input;
  descriptor.widths.assign(options.hidden, options.hidden + options.layers);
  if (options.projection != nullptr) {
    descriptor.projections.assign(options.projection, options.projection + options.layers);
  }
  descriptor.time = options.time;
  descriptor.rows = options.rows;
  descriptor.dtype = dtype_of(options.dtype, "options.dtype");
  descriptor.training = options.training != 0;
  descriptor.dropout = options.dropout;
  descriptor.resets = options.resets != 0;
  descriptor.peepholes = options.peepholes != 0;
  descriptor.layer_norm = options.layer_norm != 0;
  descriptor.zoneout_h = options.zoneout_h;
  descriptor.zoneout_c = options.zoneout_c;
  descriptor.recurrent_dropout = options.recurrent_dropout;
  descriptor.hard_sigmoid = options.hard_sigmoid != 0;
  return descriptor;
}

/// A tensor over the caller's memory. The engine writes to outputs only.
Tensor tensor(const void* data, DType dtype, const Shape& shape) {
  return data == nullptr ? Tensor() : Tensor(const_cast<void*>(data), dtype, shape);
}

struct Strides {
  std::int64_t time, row;
};

/// [time, rows, width]; strides of 0 are those without gaps.
Tensor over_time(const void* data, DType dtype, const Shape& shape, const Strides& strides,
                 const char* name) {
  if (data == nullptr) return {};
  const std::int64_t width = shape[2];
  const std::array<std::int64_t, 3> chosen{strides.time == 0 ? shape[1] * width : strides.time,
                                           strides.row == 0 ? width : strides.row, 1};
  SLUICE_CHECK(chosen[0] >= width && chosen[1] >= width,
               "strides of {} are {} and {}; steps and rows of {} numbers would overlap", name,
               chosen[0], chosen[1], width);
  Tensor tensor(const_cast<void*>(data), dtype, shape, chosen);
  // The stride of an extent of 1 has no effect.
  return tensor.is_contiguous() ? Tensor(const_cast<void*>(data), dtype, shape) : tensor;
}

using NamedTensor = std::pair<const char*, const Tensor*>;

/// Kernels of a GPU read and write tensors in pieces of 16 bytes.
void check_alignment(const sluice_recurrent& plan, std::initializer_list<NamedTensor> tensors) {
  constexpr std::size_t kAlignment = 16;
  if (plan.context.device().runs_host_kernels()) return;
  for (const auto& [name, tensor] : tensors) {
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(tensor->data()) % kAlignment == 0,
                 "{} is not aligned to {} bytes, as a GPU's tensors must be", name, kAlignment);
  }
}

std::vector<recurrent::LayerWeights> weights_of(const sluice_recurrent& plan,
                                                const sluice_recurrent_weights* weights,
                                                const char* name) {
  const Descriptor& descriptor = plan.descriptor;
  std::vector<recurrent::LayerWeights> all;
  const char* place = reinterpret_cast<const char*>(weights);
  for (std::int64_t i = 0; i < descriptor.layers * descriptor.directions; ++i) {
    const auto* callers = reinterpret_cast<const sluice_recurrent_weights*>(place);
    const sluice_recurrent_weights own = read(callers, name);
    place += callers->size;
    const std::int64_t layer = i / descriptor.directions, hidden = descriptor.hidden_of(layer);
    const std::int64_t sums = descriptor.gates() * hidden, output = descriptor.output_of(layer);
    const auto of = [&](void* data, const Shape& shape) {
      return tensor(data, plan.weights, shape);
    };
    all.push_back({of(own.weight_ih, {sums, descriptor.input_of(layer)}),
                   of(own.weight_hh, {sums, output}), of(own.bias_ih, {sums}),
                   of(own.bias_hh, {sums}), of(own.weight_hr, {output, hidden}),
                   of(own.weight_peephole, {3, hidden}), of(own.gain_ih, {sums}),
                   of(own.gain_hh, {sums}), of(own.gain_c, {hidden}), of(own.shift_c, {hidden})});
    const recurrent::LayerWeights& last = all.back();
    check_alignment(plan, {{"weight_ih", &last.weight_ih},
                           {"weight_hh", &last.weight_hh},
                           {"bias_ih", &last.bias_ih},
                           {"bias_hh", &last.bias_hh},
                           {"weight_hr", &last.weight_hr},
                           {"weight_peephole", &last.weight_peephole},
                           {"gain_ih", &last.gain_ih},
                           {"gain_hh", &last.gain_hh},
                           {"gain_c", &last.gain_c},
                           {"shift_c", &last.shift_c}});
  }
  return all;
}

recurrent::Memory memory_of(const sluice_recurrent& plan, const sluice_recurrent_memory* callers) {
  const sluice_recurrent_memory memory = read(callers, "memory");
  // GPU kernels read it in lines of the L2. XLA aligns its buffers to no more.
  const std::size_t alignment = plan.context.device().runs_host_kernels() ? 64 : 128;
  const auto check = [&](const void* data, std::size_t bytes, const char* name) {
    SLUICE_CHECK(data != nullptr || bytes == 0, "memory.{} is NULL; the plan needs {} bytes", name,
                 bytes);
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(data) % alignment == 0,
                 "memory.{} is not aligned to {} bytes", name, alignment);
  };
  check(memory.packed, plan.plan->packed_bytes(), "packed");
  check(memory.workspace, plan.plan->workspace_bytes(), "workspace");
  check(memory.reserve, plan.plan->reserve_bytes(), "reserve");
  return {memory.packed, memory.workspace, memory.reserve};
}

recurrent::ForwardArgs forward_args(const sluice_recurrent& plan,
                                    const sluice_recurrent_forward_args& given) {
  const Descriptor& descriptor = plan.descriptor;
  const std::int64_t time = given.time, rows = given.rows;
  SLUICE_CHECK(time >= 1 && time <= descriptor.time && rows >= 1 && rows <= descriptor.rows,
               "{} time steps and {} rows given to a plan for 1 to {} and 1 to {}", time, rows,
               descriptor.time, descriptor.rows);
  const DType storage = descriptor.dtype;
  recurrent::ForwardArgs args;
  args.time = time;
  args.rows = rows;
  args.x = over_time(given.x, storage, {time, rows, descriptor.input},
                     {given.x_time_stride, given.x_row_stride}, "x");
  args.y = over_time(given.y, storage, {time, rows, descriptor.y_width()},
                     {given.y_time_stride, given.y_row_stride}, "y");
  args.lengths = tensor(given.lengths, DType::kInt32, {rows});
  args.resets = tensor(given.resets, DType::kInt32, {time, rows});
  args.row_ids = tensor(given.row_ids, DType::kInt32, {rows});
  args.h0 = tensor(given.h0, storage, descriptor.h_shape(rows));
  args.hn = tensor(given.hn, storage, descriptor.h_shape(rows));
  args.c0 = tensor(given.c0, plan.cells, descriptor.c_shape(rows));
  args.cn = tensor(given.cn, plan.cells, descriptor.c_shape(rows));
  args.c_sequence = tensor(given.c_sequence, base::policy_of(storage).cell_state,
                           descriptor.c_sequence_shape(time, rows));
  args.dropout = {given.seed, given.step, 0};
  check_alignment(plan, {{"x", &args.x},
                         {"h0", &args.h0},
                         {"c0", &args.c0},
                         {"y", &args.y},
                         {"hn", &args.hn},
                         {"cn", &args.cn},
                         {"c_sequence", &args.c_sequence}});
  return args;
}

recurrent::BackwardArgs backward_args(const sluice_recurrent& plan,
                                      const sluice_recurrent_forward_args& forward,
                                      const sluice_recurrent_backward_args& given) {
  const Descriptor& descriptor = plan.descriptor;
  const std::int64_t time = forward.time, rows = forward.rows;
  const DType storage = descriptor.dtype;
  recurrent::BackwardArgs args;
  args.forward = forward_args(plan, forward);
  args.dy = over_time(given.dy, storage, {time, rows, descriptor.y_width()},
                      {given.dy_time_stride, given.dy_row_stride}, "dy");
  args.dx = over_time(given.dx, storage, {time, rows, descriptor.input},
                      {given.dx_time_stride, given.dx_row_stride}, "dx");
  args.dhn = tensor(given.dhn, storage, descriptor.h_shape(rows));
  args.dh0 = tensor(given.dh0, storage, descriptor.h_shape(rows));
  args.dcn = tensor(given.dcn, plan.cells, descriptor.c_shape(rows));
  args.dc0 = tensor(given.dc0, plan.cells, descriptor.c_shape(rows));
  check_alignment(plan, {{"dy", &args.dy},
                         {"dx", &args.dx},
                         {"dhn", &args.dhn},
                         {"dh0", &args.dh0},
                         {"dcn", &args.dcn},
                         {"dc0", &args.dc0}});
  if (given.gradients != nullptr) args.gradients = weights_of(plan, given.gradients, "gradients");
  args.accumulate = given.accumulate != 0;
  return args;
}

std::unique_ptr<sluice_recurrent> create(const sluice_stream& stream,
                                         const sluice_recurrent_options& options) {
  Descriptor descriptor = descriptor_of(options);
  descriptor.validate();
  const base::DTypePolicy policy = base::policy_of(descriptor.dtype);
  const recurrent::CallerTensors tensors{
      dtype_or(options.weight_dtype, policy.master, "options.weight_dtype"),
      dtype_or(options.cell_dtype, policy.cell_state, "options.cell_dtype"), options.strided != 0};
  runtime::Context context(*stream.device, stream.stream());
  context.set_precision({descriptor.dtype, options.tf32 != 0, false});
  const char* implementation = options.implementation == nullptr ? "auto" : options.implementation;
  recurrent::Choice choice = recurrent::make_plan(context, descriptor, implementation);
  auto plan = std::make_unique<sluice_recurrent>(
      sluice_recurrent{context,
                       descriptor,
                       tensors.weights,
                       tensors.cells,
                       nullptr,
                       std::string(choice.plan->implementation()),
                       {},
                       choice.plan->packed_layout()});
  for (const recurrent::Declined& declined : choice.declined) {
    plan->explanation += fmt::format("{}{}: {}", plan->explanation.empty() ? "" : "\n",
                                     declined.name, declined.reason);
  }
  plan->plan = recurrent::adapt(descriptor, tensors, std::move(choice.plan));
  return plan;
}

}  // namespace
}  // namespace sluice::c_api

using namespace sluice::c_api;

sluice_status sluice_recurrent_create(sluice_stream* stream,
                                      const sluice_recurrent_options* options,
                                      sluice_recurrent** plan, sluice_error* error) {
  return guarded(error, [&] {
    require(stream, "stream");
    require(plan, "plan");
    *plan = nullptr;
    *plan = create(*stream, read(options, "options")).release();
  });
}

void sluice_recurrent_destroy(sluice_recurrent* plan) { delete plan; }

sluice_status sluice_recurrent_get_sizes(const sluice_recurrent* plan,
                                         sluice_recurrent_sizes* sizes, sluice_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    sluice_recurrent_sizes own{};
    own.packed = plan->plan->packed_bytes();
    own.workspace = plan->plan->workspace_bytes();
    own.reserve = plan->plan->reserve_bytes();
    write(own, sizes, "sizes");
  });
}

const char* sluice_recurrent_implementation(const sluice_recurrent* plan) {
  return plan == nullptr ? "" : plan->implementation.c_str();
}

const char* sluice_recurrent_explain(const sluice_recurrent* plan) {
  return plan == nullptr ? "" : plan->explanation.c_str();
}

const char* sluice_recurrent_packed_layout(const sluice_recurrent* plan) {
  return plan == nullptr ? "" : plan->packed_layout.c_str();
}

sluice_status sluice_recurrent_pack(sluice_recurrent* plan, const sluice_recurrent_weights* weights,
                                    std::int64_t count, const sluice_recurrent_memory* memory,
                                    sluice_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    require(weights, "weights");
    const std::int64_t wanted = plan->descriptor.layers * plan->descriptor.directions;
    SLUICE_CHECK(count == wanted, "{} sets of weights given, not {}: one a layer and direction",
                 count, wanted);
    plan->plan->pack(plan->context, weights_of(*plan, weights, "weights"),
                     memory_of(*plan, memory));
  });
}

sluice_status sluice_recurrent_forward(sluice_recurrent* plan,
                                       const sluice_recurrent_forward_args* args,
                                       const sluice_recurrent_memory* memory, sluice_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    plan->plan->forward(plan->context, forward_args(*plan, read(args, "args")),
                        memory_of(*plan, memory));
  });
}

sluice_status sluice_recurrent_backward(sluice_recurrent* plan,
                                        const sluice_recurrent_forward_args* args,
                                        const sluice_recurrent_backward_args* backward,
                                        const sluice_recurrent_memory* memory,
                                        sluice_error* error) {
  return guarded(error, [&] {
    require(plan, "plan");
    const auto own = backward_args(*plan, read(args, "args"), read(backward, "backward"));
    plan->plan->backward(plan->context, own, memory_of(*plan, memory));
  });
}
