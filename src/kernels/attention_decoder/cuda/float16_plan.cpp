#include "kernels/attention_decoder/cuda/float16_plan.h"

#include "base/check.h"
#include "kernels/attention_decoder/arguments.h"
#include "kernels/attention_decoder/cuda/float16_kernels.h"
#include "kernels/attention_decoder/cuda/persistent/launch.h"
#include "kernels/attention_decoder/cuda/plan.h"
#include "kernels/attention_decoder/cuda/run.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

using base::Shape;

Tensor take(Carver& carver, DType dtype, const Shape& shape) {
  const auto size = static_cast<std::int64_t>(base::size_of(dtype));
  return {carver.take<std::byte>(shape.element_count() * size), dtype, shape};
}

Tensor take_half(Carver& carver, const Shape& shape) {
  return take(carver, DType::kFloat16, shape);
}

/// What backward reads of a forward run beside the steps' own.
struct Kept {
  Tensor emb, a;

  Kept(const Descriptor& d, const Extents& run, Carver& carver)
      : emb(take_half(carver, {run.target_time, run.rows, d.embedding})),
        a(take_half(carver, {run.target_time, run.rows, d.output})) {}
};

struct ForwardHalves {
  Tensor memory, h0, a0, alpha, hn;

  ForwardHalves(const Descriptor& d, const Extents& run, Carver& carver)
      : memory(take_half(carver, {run.source_time, run.rows, d.memory})),
        h0(take_half(carver, {d.layers, run.rows, d.hidden})),
        a0(take_half(carver, {run.rows, d.output})),
        alpha(take_half(carver, {run.target_time, run.rows, run.source_time})),
        hn(take_half(carver, {d.layers, run.rows, d.hidden})) {}
};

struct BackwardHalves {
  GradientScale* scale;
  Tensor da, dhn, dcn, d_emb, d_memory, dh0, da0;

  BackwardHalves(const Descriptor& d, const Extents& run, Carver& carver)
      : scale(carver.take<GradientScale>(1)),
        da(take_half(carver, {run.target_time, run.rows, d.output})),
        dhn(take_half(carver, {d.layers, run.rows, d.hidden})),
        dcn(take(carver, DType::kFloat32, {d.layers, run.rows, d.hidden})),
        d_emb(take_half(carver, {run.target_time, run.rows, d.embedding})),
        d_memory(take_half(carver, {run.source_time, run.rows, d.memory})),
        dh0(take_half(carver, {d.layers, run.rows, d.hidden})),
        da0(take_half(carver, {run.rows, d.output})) {}
};

/// `there`, if the caller has given its own.
Tensor only_with(const Tensor& own, const Tensor& there) { return own ? there : Tensor(); }

Extents extents_of(const ForwardArgs& args) {
  return {args.target_time, args.source_time, args.rows};
}

class Float16Plan final : public Plan {
 public:
  Float16Plan(const Descriptor& d, std::string_view name, bool in_one_launch)
      : d_(d),
        steps_of_(in_float16(d)),
        persistent_(in_one_launch),
        steps_(make_plan<__half>(steps_of_, name, persistent_)) {
    const Extents capacity{d.target_time, d.source_time, d.rows};
    Carver kept, forward, backward;
    Kept(d, capacity, kept);
    ForwardHalves(d, capacity, forward);
    BackwardHalves(d, capacity, backward);
    reserve_bytes_ = steps_->reserve_bytes() + kept.used();
    workspace_bytes_ = steps_->workspace_bytes() + std::max(forward.used(), backward.used());
  }

  std::string_view implementation() const override { return steps_->implementation(); }
  std::size_t packed_bytes() const override { return steps_->packed_bytes(); }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::size_t reserve_bytes() const override { return reserve_bytes_; }
  std::int64_t key_stride() const override { return steps_->key_stride(); }
  std::int64_t value_stride() const override { return steps_->value_stride(); }

  void pack(const Context& context, const Weights& weights, const Memory& memory) override {
    steps_->pack(context, weights, memory);
  }

  void forward(const Context& context, const ForwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_forward(d_, args);
    const ForwardArgs halves = forward_halves(args, memory);
    convert(context.stream(), {{args.emb, halves.emb},
                               {args.memory, halves.memory},
                               {args.h0, halves.h0},
                               {args.a0, halves.a0}});
    run_forward<__half>(context, steps_of_, halves, memory, persistent_);
    convert(context.stream(),
            {{halves.a, args.a}, {halves.alpha, args.alpha}, {halves.hn, args.hn}});
  }

  void backward(const Context& context, const BackwardArgs& args, const Memory& memory) override {
    check_memory(*this, memory, true);
    check_backward(d_, args);
    runtime::Stream& stream = context.stream();
    const Extents run = extents_of(args.forward);
    Carver carver = behind(memory.workspace, steps_->workspace_bytes());
    const BackwardHalves own(d_, run, carver);
    BackwardArgs halves = args;
    halves.forward = forward_halves(args.forward, memory);
    halves.da = own.da;
    halves.dhn = only_with(args.dhn, own.dhn);
    halves.dcn = only_with(args.dcn, own.dcn);
    halves.d_emb = only_with(args.d_emb, own.d_emb);
    halves.d_memory = only_with(args.d_memory, own.d_memory);
    halves.dh0 = only_with(args.dh0, own.dh0);
    halves.da0 = only_with(args.da0, own.da0);

    const auto states = [&](const Tensor& x) {
      return GradientLines{data_of<const float>(x), d_.layers, run.rows, d_.hidden, nullptr};
    };
    find_largest(stream,
                 {{data_of<const float>(args.da), run.target_time, run.rows, d_.output,
                   data_of<const std::int32_t>(args.forward.target_lengths)},
                  states(args.dhn),
                  states(args.dcn)},
                 own.scale);
    convert(stream, {{args.da, halves.da}, {args.dhn, halves.dhn}, {args.dcn, halves.dcn}},
            Rescaling::kUp, own.scale);
    run_backward<__half>(context, steps_of_, halves, memory, &own.scale->down, persistent_);
    convert(stream,
            {{halves.d_emb, args.d_emb},
             {halves.d_memory, args.d_memory},
             {halves.dh0, args.dh0},
             {args.dc0, args.dc0},
             {halves.da0, args.da0}},
            Rescaling::kDown, own.scale);
  }

  void prepare_memory(const Context&, const PrepareArgs&, const Memory&) override {
    refuse_steps();
  }
  void step(const Context&, const StepArgs&, const Memory&) override { refuse_steps(); }

 private:
  [[noreturn]] static void refuse_steps() {
    base::fail(ErrorCode::kUnsupported,
               "an attention decoder's plan for training in TF32 has no single steps; make one for "
               "inference");
  }

  static Carver behind(void* base, std::size_t bytes) {
    return Carver(static_cast<std::byte*>(base) + bytes);
  }

  /// The same run with tensors of float16.
  ForwardArgs forward_halves(const ForwardArgs& args, const Memory& memory) const {
    const Extents run = extents_of(args);
    Carver reserve = behind(memory.reserve, steps_->reserve_bytes());
    Carver workspace = behind(memory.workspace, steps_->workspace_bytes());
    const Kept kept(d_, run, reserve);
    const ForwardHalves own(d_, run, workspace);
    ForwardArgs halves = args;
    halves.emb = kept.emb;
    halves.a = kept.a;
    halves.memory = own.memory;
    halves.h0 = only_with(args.h0, own.h0);
    halves.a0 = only_with(args.a0, own.a0);
    halves.alpha = only_with(args.alpha, own.alpha);
    halves.hn = only_with(args.hn, own.hn);
    return halves;
  }

  Descriptor d_, steps_of_;
  bool persistent_;
  std::unique_ptr<Plan> steps_;
  std::size_t workspace_bytes_ = 0;
  std::size_t reserve_bytes_ = 0;
};

}  // namespace

std::optional<std::string> refuse_float16(const Descriptor& d) {
  if (!d.tf32 || !d.training) return "it trains in TF32, and nothing else";
  // A GRU hands its state on from step to step, as float32.
  if (d.cell == CellType::kLstm) return std::nullopt;
  return fmt::format(
      "it has cells whose state float16 would not round on its way, as the LSTM's, "
      "not {}",
      recurrent::name_of(d.cell));
}

Descriptor in_float16(const Descriptor& d) {
  Descriptor inner = d;
  inner.dtype = DType::kFloat16;
  inner.tf32 = false;
  return inner;
}

std::unique_ptr<Plan> make_float16_plan(const Descriptor& descriptor, std::string_view name,
                                        bool in_one_launch) {
  return std::make_unique<Float16Plan>(descriptor, name, in_one_launch);
}

}  // namespace sluice::kernels::attention_decoder::cuda
