#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "runtime/buffer.h"
#include "runtime/profiler.h"
#include "unit/kernels_recurrent/stack_case.h"
#include "unit/support/on_device.h"

namespace sluice::kernels::recurrent::testing {
namespace {

using runtime::Buffer;
using runtime::Shape;
using Vector = std::vector<double>;

/// Device memory that starts as NaN and lives as long as this.
class Bench {
 public:
  explicit Bench(const RunOptions& options)
      : device_(runtime::open_device(options.device)), context_(*device_) {
    context_.set_precision({DType::kFloat32, options.tf32});
  }

  const Context& context() const { return context_; }

  void* poisoned(std::size_t bytes) {
    buffers_.emplace_back(*device_, bytes);
    void* data = buffers_.back().data();
    sluice::testing::poison(context_, data, bytes);
    return data;
  }

  /// `skips`: elements by which it begins behind an aligned address.
  Tensor poisoned(DType dtype, const Shape& shape, std::int64_t skips = 0) {
    const std::size_t size = base::size_of(dtype), skipped = static_cast<std::size_t>(skips) * size;
    auto* data = static_cast<std::byte*>(
        poisoned(static_cast<std::size_t>(shape.element_count()) * size + skipped));
    return {data + skipped, dtype, shape};
  }

  /// Absent if there are no values.
  template <typename T>
  Tensor put(const Vector& values, const Shape& shape, std::int64_t skips = 0) {
    if (values.empty()) return {};
    std::vector<T> stored;
    for (const double value : values) stored.push_back(narrowed<T>(value));
    const Tensor tensor = poisoned(base::dtype_of<T>(), shape, skips);
    context_.upload<T>(tensor, stored);
    return tensor;
  }

  Tensor put(const std::vector<std::int32_t>& values) {
    return put(values, {static_cast<std::int64_t>(values.size())});
  }
  Tensor put(const std::vector<std::int32_t>& values, const Shape& shape) {
    if (values.empty()) return {};
    const Tensor tensor = poisoned(DType::kInt32, shape);
    context_.upload<std::int32_t>(tensor, values);
    return tensor;
  }

  /// Adds the names of the kernels that the device runs from here to end_recording().
  void begin_recording(std::vector<std::string>& names) {
    const auto sink = [&names](const runtime::Profile& profile) {
      for (const std::string& fault : profile.device.faults) ADD_FAILURE() << fault;
      for (const runtime::DeviceWork& piece : profile.device.work) {
        names.push_back(profile.device.names.at(piece.name));
      }
    };
    profiler_ = std::make_unique<runtime::Profiler>(device_->trace(true), 1, 1, sink);
    context_.set_profiler(profiler_.get());
    profiler_->begin_step(context_, "run", 1);
  }
  void end_recording() { profiler_->end_step(context_); }

  void write(const std::int32_t* to, std::int32_t value) {
    context_.stream().upload(const_cast<std::int32_t*>(to), &value, sizeof value);
  }

  template <typename T>
  Vector get(const Tensor& tensor) const {
    Vector result;
    for (const T value : context_.download<T>(tensor)) result.push_back(widened(value));
    return result;
  }

 private:
  template <typename T>
  static T narrowed(double value) {
    if constexpr (sizeof(T) == 2) return T(static_cast<float>(value));
    return static_cast<T>(value);
  }
  static double widened(base::BFloat16 value) { return static_cast<float>(value); }
  static double widened(base::Float16 value) { return static_cast<float>(value); }
  static double widened(double value) { return value; }

  std::unique_ptr<runtime::Device> device_;
  std::unique_ptr<runtime::Profiler> profiler_;
  Context context_;
  std::vector<Buffer> buffers_;
};

/// Overwrites what lies past each row's end in values [time, rows, width].
Vector with_garbage(Vector values, const StackCase& stack, double garbage) {
  const auto places = static_cast<std::size_t>(stack.time * stack.rows);
  const std::size_t width = values.size() / places;
  for (std::size_t i = 0; i < values.size() && !stack.input.lengths.empty(); ++i) {
    const std::size_t place = i / width, rows = static_cast<std::size_t>(stack.rows);
    const auto t = static_cast<int>(place / rows);
    if (t >= stack.input.lengths[place % rows]) values[i] = garbage;
  }
  return values;
}

/// Whatever stands past a row's end.
std::vector<std::int32_t> resets_with_garbage(const StackCase& stack) {
  if (stack.input.resets.empty()) return {};
  const Vector values =
      with_garbage({stack.input.resets.begin(), stack.input.resets.end()}, stack, 1);
  return {values.begin(), values.end()};
}

template <typename S>
std::vector<LayerWeights> upload_weights(Bench& bench, const Descriptor& d,
                                         const std::vector<oracle::Weights>& weights) {
  std::vector<LayerWeights> tensors;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t layer = static_cast<std::int64_t>(i) / d.directions;
    const std::int64_t hidden = d.hidden_of(layer), sums = d.gates() * hidden;
    const std::int64_t input = d.input_of(layer), output = d.output_of(layer);
    tensors.push_back(
        {bench.put<S>(weights[i].weight_ih, {sums, input}),
         bench.put<S>(weights[i].weight_hh, {sums, output}),
         bench.put<S>(weights[i].bias_ih, {sums}), bench.put<S>(weights[i].bias_hh, {sums}),
         bench.put<S>(weights[i].weight_hr, {output, hidden}),
         bench.put<S>(weights[i].peephole, {3, hidden}), bench.put<S>(weights[i].gain_ih, {sums}),
         bench.put<S>(weights[i].gain_hh, {sums}), bench.put<S>(weights[i].gain_c, {hidden}),
         bench.put<S>(weights[i].shift_c, {hidden})});
  }
  return tensors;
}

template <typename T, typename S>
ForwardArgs forward_args(Bench& bench, const StackCase& stack) {
  const Descriptor& d = stack.descriptor;
  const DType storage = d.dtype, wide = base::policy_of(storage).cell_state;
  const Shape h = d.h_shape(stack.rows), c = d.c_shape(stack.rows);
  ForwardArgs args;
  args.time = stack.time;
  args.rows = stack.rows;
  args.x =
      bench.put<T>(with_garbage(stack.input.x, stack, 1000), {stack.time, stack.rows, d.input});
  args.lengths = bench.put({stack.input.lengths.begin(), stack.input.lengths.end()});
  args.h0 = bench.put<T>(stack.input.h0, h);
  args.c0 = bench.put<S>(stack.input.c0, c);
  args.y = bench.poisoned(storage, {stack.time, stack.rows, d.y_width()}, stack.y_skips);
  if (stack.want_states) args.hn = bench.poisoned(storage, h);
  if (stack.want_states && d.cell == CellType::kLstm) args.cn = bench.poisoned(wide, c);
  if (stack.in_place) {
    args.hn = args.h0;
    args.cn = args.c0;
  }
  if (stack.want_c_sequence) {
    args.c_sequence = bench.poisoned(wide, d.c_sequence_shape(stack.time, stack.rows));
  }
  args.row_ids = bench.put(stack.row_ids);
  args.resets = bench.put(resets_with_garbage(stack), {stack.time, stack.rows});
  const Tensor step = bench.put(std::vector<std::int32_t>{0});
  args.dropout = {stack.dropout.seed, step.data_as<const std::int32_t>(), stack.dropout.stream};
  return args;
}

template <typename T, typename S>
BackwardArgs backward_args(Bench& bench, const StackCase& stack, const ForwardArgs& forward) {
  const Descriptor& d = stack.descriptor;
  const DType storage = d.dtype, wide = base::policy_of(storage).cell_state;
  const Shape h = d.h_shape(stack.rows), c = d.c_shape(stack.rows);
  BackwardArgs args;
  args.forward = forward;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  args.dy =
      bench.put<T>(stack.flow.dy.empty() ? stack.flow.dy : with_garbage(stack.flow.dy, stack, nan),
                   {stack.time, stack.rows, d.y_width()}, stack.dy_skips);
  args.dhn = bench.put<T>(stack.flow.dhn, h);
  args.dcn = bench.put<S>(stack.flow.dcn, c);
  if (stack.want_dx) args.dx = bench.poisoned(storage, {stack.time, stack.rows, d.input});
  if (stack.want_states) args.dh0 = bench.poisoned(storage, h);
  if (stack.want_states && d.cell == CellType::kLstm) args.dc0 = bench.poisoned(wide, c);
  if (stack.want_gradients) {
    args.gradients = upload_weights<S>(bench, d, stack.gradients_before);
  }
  return args;
}

template <typename T>
void collect(const Bench& bench, Tensors& tensors, const std::string& name, const Tensor& tensor) {
  if (tensor) tensors[name] = bench.get<T>(tensor);
}

template <typename S>
void collect_gradients(const Bench& bench, Tensors& tensors,
                       const std::vector<LayerWeights>& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::string suffix = fmt::format(".{}", i);
    collect<S>(bench, tensors, "weight_ih" + suffix, gradients[i].weight_ih);
    collect<S>(bench, tensors, "weight_hh" + suffix, gradients[i].weight_hh);
    collect<S>(bench, tensors, "bias_ih" + suffix, gradients[i].bias_ih);
    collect<S>(bench, tensors, "bias_hh" + suffix, gradients[i].bias_hh);
    collect<S>(bench, tensors, "weight_hr" + suffix, gradients[i].weight_hr);
    collect<S>(bench, tensors, "weight_peephole" + suffix, gradients[i].weight_peephole);
    collect<S>(bench, tensors, "gain_ih" + suffix, gradients[i].gain_ih);
    collect<S>(bench, tensors, "gain_hh" + suffix, gradients[i].gain_hh);
    collect<S>(bench, tensors, "gain_c" + suffix, gradients[i].gain_c);
    collect<S>(bench, tensors, "shift_c" + suffix, gradients[i].shift_c);
  }
}

/// What gradients are added to, once more.
template <typename S>
void restore_gradients(Bench& bench, const StackCase& stack,
                       const std::vector<LayerWeights>& gradients) {
  if (gradients.empty()) return;
  const std::vector<LayerWeights> before =
      upload_weights<S>(bench, stack.descriptor, stack.gradients_before);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (Tensor LayerWeights::*tensor : kLayerTensors) {
      if (gradients[i].*tensor) bench.context().copy(gradients[i].*tensor, before[i].*tensor);
    }
  }
}

/// What a run leaves can't pass for what the next one does then. States that take the place of the
/// first ones are inputs, too.
void poison_outputs(const Bench& bench, const StackCase& stack, const ForwardArgs& forward,
                    const BackwardArgs& backward) {
  std::vector<Tensor> outputs{forward.y, forward.c_sequence, backward.dx, backward.dh0,
                              backward.dc0};
  if (!stack.in_place) outputs.insert(outputs.end(), {forward.hn, forward.cn});
  for (const Tensor& output : outputs) {
    if (output) sluice::testing::poison(bench.context(), output.data(), output.byte_size());
  }
}

template <typename T, typename S>
Tensors run_once(Bench& bench, Plan& plan, const Memory& memory, const StackCase& stack,
                 const RunOptions& options) {
  const Context& context = bench.context();
  ForwardArgs forward = forward_args<T, S>(bench, stack);
  BackwardArgs backward;
  if (stack.descriptor.training) backward = backward_args<T, S>(bench, stack, forward);
  const auto forget = [&] {
    if (!options.poison_workspace) return;
    sluice::testing::poison(context, memory.workspace, plan.workspace_bytes());
  };
  for (int round = 1; round <= options.rounds; ++round) {
    // The last round's step is the one asked for.
    const auto step = static_cast<std::int32_t>(stack.dropout.step) + options.rounds - round;
    bench.write(forward.dropout.step, step);
    if (round == options.rounds && round > 1) poison_outputs(bench, stack, forward, backward);
    forget();
    plan.forward(context, forward, memory);
    forget();
    if (!stack.descriptor.training) continue;
    backward.forward = forward;
    backward.accumulate = stack.accumulate || round <= options.adding_rounds;
    if (round > 1) restore_gradients<S>(bench, stack, backward.gradients);
    plan.backward(context, backward, memory);
  }
  Tensors tensors;
  collect<T>(bench, tensors, "y", forward.y);
  collect<T>(bench, tensors, "hn", forward.hn);
  collect<S>(bench, tensors, "cn", forward.cn);
  collect<S>(bench, tensors, "c_sequence", forward.c_sequence);
  collect<T>(bench, tensors, "dx", backward.dx);
  collect<T>(bench, tensors, "dh0", backward.dh0);
  collect<S>(bench, tensors, "dc0", backward.dc0);
  collect_gradients<S>(bench, tensors, backward.gradients);
  return tensors;
}

template <typename T, typename S>
std::vector<Tensors> run_typed(const std::vector<StackCase>& stacks, const RunOptions& options) {
  Bench bench(options);
  const Context& context = bench.context();
  const StackCase& first = stacks.front();
  const auto plan = make_plan(context, first.descriptor, options.implementation).plan;
  const Memory memory{bench.poisoned(plan->packed_bytes()), bench.poisoned(plan->workspace_bytes()),
                      bench.poisoned(plan->reserve_bytes())};
  plan->pack(context, upload_weights<S>(bench, first.descriptor, first.weights), memory);
  std::vector<Tensors> results;
  if (options.kernels != nullptr) bench.begin_recording(*options.kernels);
  for (const StackCase& stack : stacks) {
    results.push_back(run_once<T, S>(bench, *plan, memory, stack, options));
  }
  if (options.kernels != nullptr) bench.end_recording();
  return results;
}

}  // namespace

Tensors run(const StackCase& stack, const RunOptions& options) {
  return run_all({stack}, options).front();
}

std::vector<Tensors> run_all(const std::vector<StackCase>& stacks, const RunOptions& options) {
  const DType dtype = stacks.front().descriptor.dtype;
  if (dtype == DType::kFloat64) return run_typed<double, double>(stacks, options);
  if (dtype == DType::kFloat32) return run_typed<float, float>(stacks, options);
  if (dtype == DType::kFloat16) return run_typed<base::Float16, float>(stacks, options);
  return run_typed<base::BFloat16, float>(stacks, options);
}

}  // namespace sluice::kernels::recurrent::testing
