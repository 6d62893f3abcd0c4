#include <algorithm>
#include <cmath>
#include <optional>

#include "base/dtype.h"
#include "kernels/optimizer/cpu/optimizer.h"

namespace sluice::kernels::optimizer::cpu {
namespace {

/// What gradients are multiplied by; nothing if the step must not be made.
std::optional<double> gradient_factor(const Clipping& clipping) {
  const auto* loss_scale = clipping.loss_scale.data_as<const double>();
  const double unscaled = loss_scale != nullptr ? 1 / loss_scale[kScale] : 1;
  if (!clipping.sum_of_squares) return unscaled;
  const double norm = std::sqrt(clipping.sum_of_squares.data_as<const double>()[0]);
  if (!std::isfinite(norm)) return std::nullopt;
  if (clipping.max_norm <= 0) return unscaled;
  return unscaled * std::min(1.0, clipping.max_norm / (norm + 1e-6));
}

/// Steps taken, the one that goes on included.
double steps_of(const AdamArgs& args) {
  const double steps = args.step.data_as<const std::int32_t>()[0];
  const auto* loss_scale = args.clipping.loss_scale.data_as<const double>();
  return loss_scale != nullptr ? steps - loss_scale[kSkippedSteps] : steps;
}

template <typename T>
constexpr T kZeros[kElementsPerMark] = {};

/// Calls body(begin, count, gradients of those elements) for pieces of [0, count) that have one
/// mark, from OpenMP threads, which take as many elements at a time as a block of the norm has.
template <typename T, typename Body>
void parallel_pieces(std::int64_t count, const T* gradients, const Marks& marks, const Body& body) {
#pragma omp parallel for schedule(static) if (count > kNormBlock)
  for (std::int64_t block = 0; block < count; block += kNormBlock) {
    const std::int64_t end = std::min(block + kNormBlock, count);
    for (std::int64_t begin = block; begin < end;) {
      const std::int64_t next = std::min(marks.end_of_chunk(begin), end);
      body(begin, next - begin, marks.is_marked(begin) ? gradients + begin : kZeros<T>);
      begin = next;
    }
  }
}

template <typename T>
struct Adam {
  T* parameters;
  T* first;
  T* second;
  T factor, decay, shrink, beta1, rest1, beta2, rest2, step_size, root_correction, epsilon;

  Adam(const AdamArgs& args, double gradient_factor)
      : parameters(args.parameters.data_as<T>()),
        first(args.first_moment.data_as<T>()),
        second(args.second_moment.data_as<T>()),
        factor(static_cast<T>(gradient_factor)),
        decay(static_cast<T>(args.decoupled_decay ? 0 : args.weight_decay)),
        beta1(static_cast<T>(args.beta1)),
        rest1(static_cast<T>(1 - args.beta1)),
        beta2(static_cast<T>(args.beta2)),
        rest2(static_cast<T>(1 - args.beta2)),
        epsilon(static_cast<T>(args.epsilon)) {
    const double learning_rate = args.learning_rate.data_as<const double>()[0];
    const double steps = steps_of(args);
    shrink = static_cast<T>(args.decoupled_decay ? 1 - learning_rate * args.weight_decay : 1);
    step_size = static_cast<T>(learning_rate / (1 - std::pow(args.beta1, steps)));
    root_correction = static_cast<T>(std::sqrt(1 - std::pow(args.beta2, steps)));
  }

  void operator()(std::int64_t begin, std::int64_t count, const T* gradients) const {
    // Through local pointers the compiler sees that no store changes them; the arenas are apart.
    T* __restrict p = parameters + begin;
    const T* __restrict g = gradients;
    T* __restrict m = first + begin;
    T* __restrict v = second + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const T gradient = factor * g[i] + decay * p[i];
      m[i] = beta1 * m[i] + rest1 * gradient;
      v[i] = beta2 * v[i] + rest2 * gradient * gradient;
      p[i] = shrink * p[i] - step_size * (m[i] / (std::sqrt(v[i]) / root_correction + epsilon));
    }
  }
};

template <typename T>
struct Sgd {
  T* parameters;
  T* buffer;  // or null
  T factor, decay, learning_rate, momentum;
  bool nesterov;

  Sgd(const SgdArgs& args, double gradient_factor)
      : parameters(args.parameters.data_as<T>()),
        buffer(args.momentum == 0 ? nullptr : args.momentum_buffer.data_as<T>()),
        factor(static_cast<T>(gradient_factor)),
        decay(static_cast<T>(args.weight_decay)),
        learning_rate(static_cast<T>(args.learning_rate.data_as<const double>()[0])),
        momentum(static_cast<T>(args.momentum)),
        nesterov(args.nesterov) {}

  void operator()(std::int64_t begin, std::int64_t count, const T* gradients) const {
    T* p = parameters + begin;
    T* b = buffer != nullptr ? buffer + begin : nullptr;
    for (std::int64_t i = 0; i < count; ++i) {
      T change = factor * gradients[i] + decay * p[i];
      if (b != nullptr) {
        b[i] = momentum * b[i] + change;
        change = nesterov ? change + momentum * b[i] : b[i];
      }
      p[i] -= learning_rate * change;
    }
  }
};

/// Step is Adam or Sgd, Args its arguments.
template <template <typename> class Step, typename Args>
void launch_step(Stream& stream, const Args& args) {
  base::dispatch_master(args.parameters.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    stream.launch([args] {
      const std::optional<double> factor = gradient_factor(args.clipping);
      if (!factor) return;
      parallel_pieces(args.parameters.size(0), args.gradients.template data_as<const T>(),
                      Marks(args.marks), Step<T>(args, *factor));
    });
  });
}

}  // namespace

void adam_step(Stream& stream, const AdamArgs& args) { launch_step<Adam>(stream, args); }

void sgd_step(Stream& stream, const SgdArgs& args) { launch_step<Sgd>(stream, args); }

}  // namespace sluice::kernels::optimizer::cpu
