// Handlers of XLA's custom calls, for jax.ffi: pack, forward and backward of a recurrent stack on
// the CPU and on NVIDIA GPUs. python/sluice/jax/_calls.py makes the calls.
//
// All memory is XLA's: packed weights and what backward needs are results of one call and arguments
// of the next, the workspace is a result that nobody reads. A handler only queues work.
#include <xla/ffi/api/ffi.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "description.h"
#include "streams.h"

namespace sluice::jax {
namespace {

namespace ffi = xla::ffi;

/// Weights of a layer and direction; bit i of an item of the attribute `weights` says that the i-th
/// is there. KINDS in python/sluice/_weights.py has the same order.
constexpr std::array kWeights{
    &sluice_recurrent_weights::weight_ih, &sluice_recurrent_weights::weight_hh,
    &sluice_recurrent_weights::bias_ih,   &sluice_recurrent_weights::bias_hh,
    &sluice_recurrent_weights::weight_hr, &sluice_recurrent_weights::weight_peephole,
    &sluice_recurrent_weights::gain_ih,   &sluice_recurrent_weights::gain_hh,
    &sluice_recurrent_weights::gain_c,    &sluice_recurrent_weights::shift_c};

/// Optional arguments, as bits of the attribute `given`, in the order of the arguments.
enum Given : std::int64_t {
  kH0 = 1,
  kC0 = 2,
  kLengths = 4,
  kResetsGiven = 8,
  kRowIds = 16,
  kDy = 32,
  kDhn = 64,
  kDcn = 128
};

/// Results of backward, as bits of the attribute `wanted`, in the order of the results.
enum Wanted : std::int64_t { kDx = 1, kDh0 = 2, kDc0 = 4, kGradients = 8 };

ffi::AnyBuffer buffer_of(const ffi::AnyBuffer& argument) { return argument; }
ffi::AnyBuffer buffer_of(ffi::Result<ffi::AnyBuffer> result) { return *result; }

/// Arguments or results of a call, taken one after the other.
template <class Remaining>
class Buffers {
 public:
  explicit Buffers(const Remaining& all) : all_(all) {}

  ffi::AnyBuffer take() {
    auto next = all_.template get<ffi::AnyBuffer>(next_++);
    if (!next) throw std::invalid_argument("the call has too few arguments or results");
    return buffer_of(*next);
  }
  void* data() { return take().untyped_data(); }
  void* data_if(bool there) { return there ? data() : nullptr; }
  /// The packed weights, reserve or workspace of a plan, which needs `bytes`.
  void* memory(std::size_t bytes, const char* name) {
    const ffi::AnyBuffer buffer = take();
    if (buffer.size_bytes() < bytes) {
      throw std::invalid_argument("the call was traced for another device: it has " +
                                  std::to_string(buffer.size_bytes()) + " bytes for the " + name +
                                  ", and this device needs " + std::to_string(bytes));
    }
    return bytes == 0 ? nullptr : buffer.untyped_data();
  }

 private:
  const Remaining& all_;
  std::size_t next_ = 0;
};
using Arguments = Buffers<ffi::RemainingArgs>;
using Results = Buffers<ffi::RemainingRets>;

/// One call of a handler.
struct Call {
  Description description;
  Plan& plan;
  ffi::Span<const std::int64_t> weight_bits;
  std::int64_t given, wanted;
  Arguments arguments;
  Results results;
  sluice_recurrent_memory memory = SLUICE_INIT(sluice_recurrent_memory);

  template <class Source>
  std::vector<sluice_recurrent_weights> weights(Source& source) {
    std::vector<sluice_recurrent_weights> all;
    for (const std::int64_t bits : weight_bits) {
      all.push_back(SLUICE_INIT(sluice_recurrent_weights));
      for (std::size_t i = 0; i < kWeights.size(); ++i) {
        all.back().*kWeights[i] = source.data_if((bits >> i & 1) != 0);
      }
    }
    return all;
  }
  void take_workspace() { memory.workspace = results.memory(plan.sizes.workspace, "workspace"); }
};

struct Strides {
  std::int64_t time = 0, row = 0;
};

/// The strides of a tensor [rows, time, width]; zero if the plan has no strides.
Strides strides_of(const Description& description, std::int64_t width) {
  if (description[kStrided] == 0) return {};
  return {width, description[kTime] * width};
}

/// Arguments of forward but for x and its outputs.
sluice_recurrent_forward_args forward_args(Call& call) {
  const Description& d = call.description;
  sluice_recurrent_forward_args args = SLUICE_INIT(sluice_recurrent_forward_args);
  args.time = d[kTime];
  args.rows = d[kRows];
  const Strides x = strides_of(d, d[kInput]), y = strides_of(d, d.y_width());
  args.x_time_stride = x.time;
  args.x_row_stride = x.row;
  args.y_time_stride = y.time;
  args.y_row_stride = y.row;
  return args;
}

void take_given(Call& call, sluice_recurrent_forward_args& args) {
  const auto take = [&](Given bit) { return call.arguments.data_if((call.given & bit) != 0); };
  args.h0 = take(kH0);
  args.c0 = take(kC0);
  args.lengths = static_cast<const std::int32_t*>(take(kLengths));
  args.resets = static_cast<const std::int32_t*>(take(kResetsGiven));
  args.row_ids = static_cast<const std::int32_t*>(take(kRowIds));
}

/// weights -> packed, workspace.
void pack(Call& call) {
  const std::vector<sluice_recurrent_weights> weights = call.weights(call.arguments);
  call.memory.packed = call.results.memory(call.plan.sizes.packed, "packed weights");
  call.take_workspace();
  call.memory.reserve = call.memory.packed;  // pack wants one, and leaves it as it is
  check([&](sluice_error* error) {
    return sluice_recurrent_pack(call.plan.handle, weights.data(), call.description.stacks(),
                                 &call.memory, error);
  });
}

/// x, packed, given -> y, hn, cn of an LSTM, reserve in training, workspace.
void forward(Call& call) {
  sluice_recurrent_forward_args args = forward_args(call);
  args.x = call.arguments.data();
  call.memory.packed = call.arguments.memory(call.plan.sizes.packed, "packed weights");
  take_given(call, args);
  args.y = call.results.data();
  args.hn = call.results.data();
  args.cn = call.results.data_if(call.description.is_lstm());
  if (call.description[kTraining] != 0) {
    call.memory.reserve = call.results.memory(call.plan.sizes.reserve, "reserve");
  }
  call.take_workspace();
  check([&](sluice_error* error) {
    return sluice_recurrent_forward(call.plan.handle, &args, &call.memory, error);
  });
}

/// reserve, x, packed, y, hn, cn of an LSTM, given -> reserve (the same memory), wanted, workspace.
void backward(Call& call) {
  const Description& d = call.description;
  sluice_recurrent_forward_args args = forward_args(call);
  call.arguments.take();
  args.x = call.arguments.data();
  call.memory.packed = call.arguments.memory(call.plan.sizes.packed, "packed weights");
  args.y = call.arguments.data();
  args.hn = call.arguments.data();
  args.cn = call.arguments.data_if(d.is_lstm());
  take_given(call, args);

  sluice_recurrent_backward_args backward = SLUICE_INIT(sluice_recurrent_backward_args);
  const auto given = [&](Given bit) { return call.arguments.data_if((call.given & bit) != 0); };
  backward.dy = given(kDy);
  backward.dhn = given(kDhn);
  backward.dcn = given(kDcn);
  call.memory.reserve = call.results.memory(call.plan.sizes.reserve, "reserve");
  const auto wanted = [&](Wanted bit) { return call.results.data_if((call.wanted & bit) != 0); };
  backward.dx = wanted(kDx);
  backward.dh0 = wanted(kDh0);
  backward.dc0 = wanted(kDc0);
  std::vector<sluice_recurrent_weights> gradients;
  if ((call.wanted & kGradients) != 0) {
    gradients = call.weights(call.results);
    backward.gradients = gradients.data();
  }
  backward.dx_time_stride = args.x_time_stride;
  backward.dx_row_stride = args.x_row_stride;
  backward.dy_time_stride = args.y_time_stride;
  backward.dy_row_stride = args.y_row_stride;
  call.take_workspace();
  check([&](sluice_error* error) {
    return sluice_recurrent_backward(call.plan.handle, &args, &backward, &call.memory, error);
  });
}

ffi::ErrorCode code_of(sluice_status status) {
  switch (status) {
    case SLUICE_INVALID_ARGUMENT:
      return ffi::ErrorCode::kInvalidArgument;
    case SLUICE_UNSUPPORTED:
      return ffi::ErrorCode::kUnimplemented;
    case SLUICE_OUT_OF_MEMORY:
      return ffi::ErrorCode::kResourceExhausted;
    case SLUICE_DEVICE:
      return ffi::ErrorCode::kUnavailable;
    default:
      return ffi::ErrorCode::kInternal;
  }
}

using Numbers = ffi::Span<const std::int64_t>;
using Rates = ffi::Span<const double>;

template <auto kStage>
ffi::Error run(StreamPool& (*pool_of)(std::int32_t, void*), std::int32_t device, void* cuda_stream,
               const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results,
               Numbers numbers, Rates rates, std::string_view implementation, Numbers weights,
               std::string_view version, std::int64_t given, std::int64_t wanted) {
  try {
    const Description description({numbers.begin(), numbers.size()}, {rates.begin(), rates.size()},
                                  implementation, version);
    StreamPool::Loan stream(pool_of(device, cuda_stream));
    Call call{description, (*stream).plan(description), weights,         given,
              wanted,      Arguments(arguments),        Results(results)};
    kStage(call);
    return ffi::Error::Success();
  } catch (const Failure& failure) {
    return {code_of(failure.status), std::string("Sluice: ") + failure.what()};
  } catch (const std::exception& error) {
    return ffi::Error::InvalidArgument(std::string("Sluice: ") + error.what());
  }
}

template <auto kStage>
ffi::Error run_on_cpu(ffi::RemainingArgs arguments, ffi::RemainingRets results, Numbers numbers,
                      Rates rates, std::string_view implementation, Numbers weights,
                      std::string_view version, std::int64_t given, std::int64_t wanted) {
  return run<kStage>([](std::int32_t, void*) -> StreamPool& { return cpu_pool(); }, 0, nullptr,
                     arguments, results, numbers, rates, implementation, weights, version, given,
                     wanted);
}

template <auto kStage>
ffi::Error run_on_cuda(void* stream, std::int32_t device, ffi::RemainingArgs arguments,
                       ffi::RemainingRets results, Numbers numbers, Rates rates,
                       std::string_view implementation, Numbers weights, std::string_view version,
                       std::int64_t given, std::int64_t wanted) {
  return run<kStage>(cuda_pool, device, stream, arguments, results, numbers, rates, implementation,
                     weights, version, given, wanted);
}

auto with_attributes(auto binding) {
  return std::move(binding)
      .RemainingArgs()
      .RemainingRets()
      .template Attr<Numbers>("numbers")
      .template Attr<Rates>("rates")
      .template Attr<std::string_view>("implementation")
      .template Attr<Numbers>("weights")
      .template Attr<std::string_view>("version")
      .template Attr<std::int64_t>("given")
      .template Attr<std::int64_t>("wanted");
}

auto cpu_binding() { return with_attributes(ffi::Ffi::Bind()); }

// XLA does not capture these calls in its command buffers: Sluice's plans can be captured from the
// second run on, and XLA may capture the first.
auto cuda_binding() {
  return with_attributes(
      ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>());
}

}  // namespace

#pragma GCC visibility push(default)
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_pack_cpu, run_on_cpu<pack>, cpu_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_forward_cpu, run_on_cpu<forward>, cpu_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_backward_cpu, run_on_cpu<backward>, cpu_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_pack_cuda, run_on_cuda<pack>, cuda_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_forward_cuda, run_on_cuda<forward>, cuda_binding());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sluice_jax_backward_cuda, run_on_cuda<backward>, cuda_binding());
#pragma GCC visibility pop

}  // namespace sluice::jax
