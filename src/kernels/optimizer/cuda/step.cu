#include <cmath>

#include "base/dtype.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

constexpr int kBlock = 256;

template <typename T>
struct alignas(16) Group {
  T at[4];
};

struct Clip {
  const double* sum_of_squares;  ///< or null
  double max_norm;

  explicit Clip(const Clipping& clipping)
      : sum_of_squares(clipping.sum_of_squares.data_as<const double>()),
        max_norm(clipping.max_norm) {}
  /// What gradients are multiplied by; NaN if the step must not be made.
  __device__ double factor() const {
    if (sum_of_squares == nullptr) return 1;
    const double norm = ::sqrt(*sum_of_squares);
    if (!isfinite(norm)) return nan("");
    if (max_norm <= 0) return 1;
    return ::fmin(1.0, max_norm / (norm + 1e-6));
  }
};

/// Numbers of one element that a step reads and writes.
template <typename T>
struct Element {
  T parameter, gradient, first, second;
};

template <typename T>
struct Adam {
  static constexpr bool kHasSecond = true;
  T decay, shrink, beta1, rest1, beta2, rest2, step_size, root_correction, epsilon;

  explicit Adam(const AdamArgs& args)
      : decay(static_cast<T>(args.decoupled_decay ? 0 : args.weight_decay)),
        shrink(
            static_cast<T>(args.decoupled_decay ? 1 - args.learning_rate * args.weight_decay : 1)),
        beta1(static_cast<T>(args.beta1)),
        rest1(static_cast<T>(1 - args.beta1)),
        beta2(static_cast<T>(args.beta2)),
        rest2(static_cast<T>(1 - args.beta2)),
        epsilon(static_cast<T>(args.epsilon)) {
    const auto steps = static_cast<double>(args.step);
    step_size = static_cast<T>(args.learning_rate / (1 - std::pow(args.beta1, steps)));
    root_correction = static_cast<T>(std::sqrt(1 - std::pow(args.beta2, steps)));
  }

  __device__ void operator()(Element<T>& e, T clip) const {
    const T gradient = clip * e.gradient + decay * e.parameter;
    e.first = beta1 * e.first + rest1 * gradient;
    e.second = beta2 * e.second + rest2 * gradient * gradient;
    e.parameter = shrink * e.parameter -
                  step_size * (e.first / (::sqrt(e.second) / root_correction + epsilon));
  }
};

/// `first` is the momentum's buffer.
template <typename T>
struct Sgd {
  static constexpr bool kHasSecond = false;
  T decay, learning_rate, momentum;
  bool nesterov;

  explicit Sgd(const SgdArgs& args)
      : decay(static_cast<T>(args.weight_decay)),
        learning_rate(static_cast<T>(args.learning_rate)),
        momentum(static_cast<T>(args.momentum)),
        nesterov(args.nesterov) {}

  __device__ void operator()(Element<T>& e, T clip) const {
    T change = clip * e.gradient + decay * e.parameter;
    if (momentum != T{0}) {
      e.first = momentum * e.first + change;
      change = nesterov ? change + momentum * e.first : e.first;
    }
    e.parameter -= learning_rate * change;
  }
};

template <typename T>
struct Arenas {
  T* parameters;
  const T* gradients;
  T* first;   ///< or null
  T* second;  ///< or null
  std::int64_t count;

  bool aligned() const {
    const auto bits = [](const T* data) { return reinterpret_cast<std::uintptr_t>(data); };
    return ((bits(parameters) | bits(gradients) | bits(first) | bits(second)) % 16) == 0;
  }
};

/// kWidth elements from i on, of which all are there.
template <int kWidth, typename T, typename Step>
__device__ void step_elements(const Arenas<T>& a, std::int64_t i, const Step& step, T clip) {
  struct alignas(kWidth * sizeof(T) < 16 ? kWidth * sizeof(T) : 16) Values {
    T at[kWidth];
  };
  const auto load = [i](const T* from) { return *reinterpret_cast<const Values*>(from + i); };
  const auto store = [i](T* to, const Values& values) {
    *reinterpret_cast<Values*>(to + i) = values;
  };
  Values p = load(a.parameters), m{}, v{};
  const Values g = load(a.gradients);
  const bool has_first = a.first != nullptr;
  if (has_first) m = load(a.first);
  if constexpr (Step::kHasSecond) v = load(a.second);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) {
    Element<T> e{p.at[j], g.at[j], m.at[j], v.at[j]};
    step(e, clip);
    p.at[j] = e.parameter;
    m.at[j] = e.first;
    v.at[j] = e.second;
  }
  store(a.parameters, p);
  if (has_first) store(a.first, m);
  if constexpr (Step::kHasSecond) store(a.second, v);
}

template <typename T, typename Step>
__global__ void __launch_bounds__(kBlock)
    step_kernel(Arenas<T> a, bool aligned, Step step, Clip clip) {
  __shared__ double factor;
  if (threadIdx.x == 0) factor = clip.factor();
  __syncthreads();
  if (isnan(factor)) return;
  const auto scale = static_cast<T>(factor);
  const std::int64_t first = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlock;
  const std::int64_t groups = aligned ? a.count / 4 : 0;
  for (std::int64_t g = first; g < groups; g += stride) step_elements<4>(a, 4 * g, step, scale);
  for (std::int64_t i = 4 * groups + first; i < a.count; i += stride) {
    step_elements<1>(a, i, step, scale);
  }
}

template <typename T, typename Step>
void launch_step(Stream& stream, const Arenas<T>& arenas, const Step& step,
                 const Clipping& clipping) {
  runtime::cuda::launch(stream, "step the parameters", step_kernel<T, Step>,
                        runtime::cuda::blocks_for((arenas.count + 3) / 4, kBlock), kBlock, 0,
                        arenas, arenas.aligned(), step, Clip(clipping));
}

}  // namespace

void adam_step(Stream& stream, const AdamArgs& args) {
  base::dispatch_master(args.parameters.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Arenas<T> arenas{args.parameters.data_as<T>(), args.gradients.data_as<const T>(),
                           args.first_moment.data_as<T>(), args.second_moment.data_as<T>(),
                           args.parameters.size(0)};
    launch_step(stream, arenas, Adam<T>(args), args.clipping);
  });
}

void sgd_step(Stream& stream, const SgdArgs& args) {
  base::dispatch_master(args.parameters.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* buffer = args.momentum == 0 ? nullptr : args.momentum_buffer.data_as<T>();
    const Arenas<T> arenas{args.parameters.data_as<T>(), args.gradients.data_as<const T>(), buffer,
                           nullptr, args.parameters.size(0)};
    launch_step(stream, arenas, Sgd<T>(args), args.clipping);
  });
}

}  // namespace sluice::kernels::optimizer::cuda
