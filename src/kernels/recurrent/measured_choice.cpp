#include "kernels/recurrent/measured_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "base/check.h"
#include "runtime/buffer.h"
#include "runtime/tuning.h"

namespace sluice::kernels::recurrent {
namespace {

using base::Shape;
using runtime::Buffer;

/// Memory and random numbers that the candidates of one problem share.
class Problem {
 public:
  Problem(const Context& context, const Descriptor& descriptor)
      : context_(context), descriptor_(descriptor) {
    descriptor_.dropout = 0;  // costs all the same
    const Descriptor& d = descriptor_;
    const DType master = base::policy_of(d.dtype).master;
    const std::int64_t stacks = d.layers * d.directions;
    args_.time = d.time;
    args_.rows = d.rows;
    args_.x = random(d.dtype, {d.time, d.rows, d.input});
    args_.y = random(d.dtype, {d.time, d.rows, d.y_width()});
    args_.hn = random(d.dtype, d.h_shape(d.rows));
    if (d.cell == CellType::kLstm) {
      args_.cn = random(base::policy_of(d.dtype).cell_state, {stacks, d.rows, d.hidden});
    }
    for (std::int64_t i = 0; i < stacks; ++i) {
      weights_.push_back(make_layer(master, i / d.directions));
    }
    if (!d.training) return;
    backward_.dy = random(d.dtype, args_.y.shape());
    backward_.dx = random(d.dtype, args_.x.shape());
    for (std::int64_t i = 0; i < stacks; ++i) {
      backward_.gradients.push_back(make_layer(master, i / d.directions));
    }
  }

  /// Of a training step: packing, forward and backward, captured where the device can, for so
  /// steps are run; else of forward alone, as it is queued.
  double milliseconds(const Candidate& candidate, double bound) {
    const std::unique_ptr<Plan> plan = candidate.create(descriptor_, context_.device());
    const Buffer packed(context_.device(), plan->packed_bytes());
    const Buffer workspace(context_.device(), plan->workspace_bytes());
    const Buffer reserve(context_.device(), plan->reserve_bytes());
    const Memory memory{packed.data(), workspace.data(), reserve.data()};
    runtime::Stream& stream = context_.stream();
    backward_.forward = args_;
    const auto queue = [&] {
      if (descriptor_.training) plan->pack(context_, weights_, memory);
      plan->forward(context_, args_, memory);
      if (descriptor_.training) plan->backward(context_, backward_, memory);
    };
    // Takes what must not be taken during a capture.
    plan->pack(context_, weights_, memory);
    queue();
    std::unique_ptr<runtime::Graph> graph;
    if (descriptor_.training && stream.can_capture()) graph = stream.capture(queue);
    const double best = least_milliseconds(
        [&] { return stream.milliseconds_of([&] { graph ? graph->launch(stream) : queue(); }); },
        bound);
    context_.synchronize();
    return best;
  }

 private:
  LayerWeights make_layer(DType master, std::int64_t layer) {
    const Descriptor& d = descriptor_;
    const std::int64_t gates = d.gates() * d.hidden, output = d.output_of(layer);
    LayerWeights weights{random(master, {gates, d.input_of(layer)}),
                         random(master, {gates, output}), random(master, {gates}),
                         random(master, {gates}), Tensor()};
    if (d.projects()) weights.weight_hr = random(master, {output, d.hidden});
    if (d.peepholes) weights.weight_peephole = random(master, {3, d.hidden});
    if (d.layer_norm) {
      weights.gain_ih = random(master, {gates});
      weights.gain_hh = random(master, {gates});
      weights.gain_c = random(master, {d.hidden});
      weights.shift_c = random(master, {d.hidden});
    }
    return weights;
  }

  // Small enough that no sum overflows, and not zero: some machines multiply zeros faster.
  Tensor random(DType dtype, const Shape& shape) {
    const std::size_t bytes =
        base::size_of(dtype) * static_cast<std::size_t>(shape.element_count());
    buffers_.emplace_back(context_.device(), bytes);
    std::vector<std::byte> host(bytes);
    const auto fill = [&]<typename T>(base::TypeTag<T>) {
      auto* values = reinterpret_cast<T*>(host.data());
      std::uniform_real_distribution<float> draw(-0.1f, 0.1f);
      for (std::int64_t i = 0; i < shape.element_count(); ++i) values[i] = T(draw(generator_));
    };
    if (dtype == DType::kFloat64) fill(base::TypeTag<double>{});
    if (dtype == DType::kFloat32) fill(base::TypeTag<float>{});
    if (dtype == DType::kBFloat16) fill(base::TypeTag<base::BFloat16>{});
    if (dtype == DType::kFloat16) fill(base::TypeTag<base::Float16>{});
    context_.stream().upload(buffers_.back().data(), host.data(), bytes);
    return buffers_.back().tensor(dtype, shape);
  }

  const Context& context_;
  Descriptor descriptor_;
  std::minstd_rand generator_;
  std::vector<Buffer> buffers_;
  std::vector<LayerWeights> weights_;
  ForwardArgs args_;
  BackwardArgs backward_;
};

std::vector<const Candidate*> accepting(const Context& context, const Descriptor& descriptor,
                                        std::vector<Declined>& declined) {
  std::vector<const Candidate*> accepted;
  for (const Candidate& candidate : candidates(context.device())) {
    if (candidate.peer) continue;
    if (auto reason = refusal(candidate, descriptor, context.device())) {
      declined.push_back({candidate.name, std::move(*reason)});
    } else {
      accepted.push_back(&candidate);
    }
  }
  return accepted;
}

/// Options of cells beyond the plain equations, each as a word; rates cost the same.
std::string extras_of(const Descriptor& d) {
  std::string extras;
  if (d.resets) extras += " resets";
  if (d.peepholes) extras += " peepholes";
  if (d.layer_norm) extras += " layer_norm";
  if (d.zoneout_h > 0) extras += " zoneout_h";
  if (d.zoneout_c > 0) extras += " zoneout_c";
  if (d.drops_recurrent()) extras += " recurrent_dropout";
  if (d.hard_sigmoid) extras += " hard_sigmoid";
  return extras;
}

}  // namespace

double least_milliseconds(const std::function<double()>& run, double bound) {
  // The first two runs take memory and capture graphs; what takes this many times the best so far
  // is not run again.
  constexpr int kWarmUps = 2, kRuns = 5;
  constexpr double kFar = 2;
  for (int i = 0; i < kWarmUps; ++i) run();
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRuns && !(least > kFar * bound && i > 0); ++i)
    least = std::min(least, run());
  return least;
}

std::string problem_of(const Context& context, const Descriptor& d) {
  return fmt::format(
      "{} layers={} directions={} input={} hidden={} projection={} time={} rows={} dtype={} "
      "tf32={} training={}{} on {}",
      name_of(d.cell), d.layers, d.directions, d.input, d.hidden, fmt::join(d.projections, ","),
      d.time, d.rows, base::name_of(d.dtype), context.tf32() ? 1 : 0, d.training ? 1 : 0,
      extras_of(d), context.device().model());
}

std::optional<Choice> measured_choice(const Context& context, const Descriptor& descriptor) {
  runtime::Tuning& tuning = *context.tuning();
  Choice choice;
  const std::vector<const Candidate*> accepted = accepting(context, descriptor, choice.declined);
  if (accepted.size() < 2) return std::nullopt;

  const std::string problem = problem_of(context, descriptor);
  if (tuning.find(problem) == nullptr) {
    try {
      Problem measured(context, descriptor);
      std::string_view fastest;
      double best = std::numeric_limits<double>::infinity();
      for (const Candidate* candidate : accepted) {
        const double milliseconds = measured.milliseconds(*candidate, best);
        if (milliseconds >= best) continue;
        best = milliseconds;
        fastest = candidate->name;
      }
      tuning.record(problem, fastest);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      tuning.record(problem, accepted.front()->name);
    }
  }
  const std::string& name = *tuning.find(problem);
  for (const Candidate* candidate : accepted) {
    if (candidate->name == name) {
      choice.plan = candidate->create(descriptor, context.device());
    } else {
      choice.declined.push_back({candidate->name, "it was slower when measured"});
    }
  }
  if (!choice.plan) return std::nullopt;
  return choice;
}

}  // namespace sluice::kernels::recurrent
