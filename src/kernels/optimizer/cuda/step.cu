#include <algorithm>

#include "base/dtype.h"
#include "kernels/optimizer/cuda/optimizer.h"
#include "runtime/cuda/launch.h"

namespace sluice::kernels::optimizer::cuda {
namespace {

constexpr int kBlock = 256;
/// Each begins with the same few numbers in double precision, so no more than fill a GPU.
constexpr unsigned kMostBlocks = 2048;

struct Clip {
  const double* sum_of_squares;  ///< or null
  double max_norm;
  const double* loss_scale;  ///< or null

  explicit Clip(const Clipping& clipping)
      : sum_of_squares(clipping.sum_of_squares.data_as<const double>()),
        max_norm(clipping.max_norm),
        loss_scale(clipping.loss_scale.data_as<const double>()) {}
  /// What gradients are multiplied by; NaN if the step must not be made.
  __device__ double factor() const {
    const double unscaled = loss_scale != nullptr ? 1 / loss_scale[kScale] : 1;
    if (sum_of_squares == nullptr) return unscaled;
    const double norm = ::sqrt(*sum_of_squares);
    if (!isfinite(norm)) return nan("");
    if (max_norm <= 0) return unscaled;
    return unscaled * ::fmin(1.0, max_norm / (norm + 1e-6));
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

  __device__ void operator()(Element<T>& e, T clip) const {
    const T gradient = clip * e.gradient + decay * e.parameter;
    e.first = beta1 * e.first + rest1 * gradient;
    e.second = beta2 * e.second + rest2 * gradient * gradient;
    e.parameter = shrink * e.parameter -
                  step_size * (e.first / (::sqrt(e.second) / root_correction + epsilon));
  }
};

/// What a step of Adam is made from when it runs.
struct AdamSource {
  const std::int32_t* step;
  const double* learning_rate;
  const double* loss_scale;  ///< or null
  double beta1, beta2, epsilon, weight_decay;
  bool decoupled;

  explicit AdamSource(const AdamArgs& args)
      : step(args.step.data_as<const std::int32_t>()),
        learning_rate(args.learning_rate.data_as<const double>()),
        loss_scale(args.clipping.loss_scale.data_as<const double>()),
        beta1(args.beta1),
        beta2(args.beta2),
        epsilon(args.epsilon),
        weight_decay(args.weight_decay),
        decoupled(args.decoupled_decay) {}

  template <typename T>
  __device__ Adam<T> numbers() const {
    const double rate = *learning_rate;
    const double steps = loss_scale != nullptr ? *step - loss_scale[kSkippedSteps] : *step;
    Adam<T> adam;
    adam.decay = static_cast<T>(decoupled ? 0 : weight_decay);
    adam.shrink = static_cast<T>(decoupled ? 1 - rate * weight_decay : 1);
    adam.beta1 = static_cast<T>(beta1);
    adam.rest1 = static_cast<T>(1 - beta1);
    adam.beta2 = static_cast<T>(beta2);
    adam.rest2 = static_cast<T>(1 - beta2);
    adam.step_size = static_cast<T>(rate / (1 - ::pow(beta1, steps)));
    adam.root_correction = static_cast<T>(::sqrt(1 - ::pow(beta2, steps)));
    adam.epsilon = static_cast<T>(epsilon);
    return adam;
  }
};

/// `first` is the momentum's buffer.
template <typename T>
struct Sgd {
  static constexpr bool kHasSecond = false;
  T decay, learning_rate, momentum;
  bool nesterov;

  __device__ void operator()(Element<T>& e, T clip) const {
    T change = clip * e.gradient + decay * e.parameter;
    if (momentum != T{0}) {
      e.first = momentum * e.first + change;
      change = nesterov ? change + momentum * e.first : e.first;
    }
    e.parameter -= learning_rate * change;
  }
};

struct SgdSource {
  const double* learning_rate;
  double momentum, weight_decay;
  bool nesterov;

  explicit SgdSource(const SgdArgs& args)
      : learning_rate(args.learning_rate.data_as<const double>()),
        momentum(args.momentum),
        weight_decay(args.weight_decay),
        nesterov(args.nesterov) {}

  template <typename T>
  __device__ Sgd<T> numbers() const {
    return {static_cast<T>(weight_decay), static_cast<T>(*learning_rate), static_cast<T>(momentum),
            nesterov};
  }
};

template <typename T>
struct Arenas {
  T* parameters;
  const T* gradients;
  T* first;   ///< or null
  T* second;  ///< or null
  std::int64_t count;
  Marks marks;

  /// Whether groups of four may be moved at once and have one mark.
  bool aligned() const {
    const auto bits = [](const T* data) { return reinterpret_cast<std::uintptr_t>(data); };
    return ((bits(parameters) | bits(gradients) | bits(first) | bits(second)) % 16) == 0 &&
           marks.begin % 4 == 0;
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
  Values p = load(a.parameters), g{}, m{}, v{};
  if (a.marks.is_marked(i)) g = load(a.gradients);
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

template <typename T, typename Source>
__global__ void __launch_bounds__(kBlock)
    step_kernel(Arenas<T> a, bool aligned, Source source, Clip clip) {
  using Step = decltype(source.template numbers<T>());
  __shared__ double factor;
  __shared__ Step shared_step;
  if (threadIdx.x == 0) {
    factor = clip.factor();
    shared_step = source.template numbers<T>();
  }
  __syncthreads();
  if (isnan(factor)) return;
  const auto scale = static_cast<T>(factor);
  const Step step = shared_step;
  const std::int64_t first = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlock;
  const std::int64_t groups = aligned ? a.count / 4 : 0;
  for (std::int64_t g = first; g < groups; g += stride) step_elements<4>(a, 4 * g, step, scale);
  for (std::int64_t i = 4 * groups + first; i < a.count; i += stride) {
    step_elements<1>(a, i, step, scale);
  }
}

template <typename T, typename Source>
void launch_step(Stream& stream, const Arenas<T>& arenas, const Source& source,
                 const Clipping& clipping) {
  const unsigned blocks = runtime::cuda::blocks_for((arenas.count + 3) / 4, kBlock);
  runtime::cuda::launch(stream, "step the parameters", step_kernel<T, Source>,
                        std::min(blocks, kMostBlocks), kBlock, 0, arenas, arenas.aligned(), source,
                        Clip(clipping));
}

}  // namespace

void adam_step(Stream& stream, const AdamArgs& args) {
  base::dispatch_master(args.parameters.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Arenas<T> arenas{args.parameters.data_as<T>(),   args.gradients.data_as<const T>(),
                           args.first_moment.data_as<T>(), args.second_moment.data_as<T>(),
                           args.parameters.size(0),        Marks(args.marks)};
    launch_step(stream, arenas, AdamSource(args), args.clipping);
  });
}

void sgd_step(Stream& stream, const SgdArgs& args) {
  base::dispatch_master(args.parameters.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* buffer = args.momentum == 0 ? nullptr : args.momentum_buffer.data_as<T>();
    const Arenas<T> arenas{args.parameters.data_as<T>(),
                           args.gradients.data_as<const T>(),
                           buffer,
                           nullptr,
                           args.parameters.size(0),
                           Marks(args.marks)};
    launch_step(stream, arenas, SgdSource(args), args.clipping);
  });
}

}  // namespace sluice::kernels::optimizer::cuda
