#include "bench/runner.h"

#include <map>
#include <set>

#include "bench/host_numbers.h"
#include "runtime/span.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;
using runtime::Buffer;
using runtime::Context;
using runtime::Tensor;

struct Runner::Content {
  Context context;
  Pass pass;
  SharedTensors* tensors;
  std::unique_ptr<recurrent::Plan> plan;
  Buffer packed, workspace, reserve;
  recurrent::Memory memory;

  recurrent::ForwardArgs forward_args(const SharedTensors::Set& set) const {
    recurrent::ForwardArgs args;
    args.time = shape.time;
    args.rows = shape.batch;
    args.x = set.x;
    args.lengths = set.lengths;
    args.resets = set.resets;
    args.h0 = set.h0;
    args.c0 = set.c0;
    args.y = set.y;
    args.hn = set.hn;
    args.cn = set.cn;
    return args;
  }
  void run(const SharedTensors::Set& set);
  void queue(const SharedTensors::Set& set);
  /// The next set, with all that is only made once behind it.
  const SharedTensors::Set& prepared_set();
  double run_timed(const SharedTensors::Set& set);

  BenchShape shape;
  std::string name;
  bool captured = false;
  std::map<const SharedTensors::Set*, std::unique_ptr<runtime::Graph>> graphs;
  std::set<const SharedTensors::Set*> seen = {};
};

const SharedTensors::Set& Runner::Content::prepared_set() {
  const SharedTensors::Set& set = tensors->next();
  // What is made for a set's addresses in its first two runs, such as a graph, is no part of a
  // run's time.
  if (context.stream().can_capture() && seen.insert(&set).second) {
    for (int i = 0; i < 2; ++i) queue(set);
  }
  return set;
}

double Runner::Content::run_timed(const SharedTensors::Set& set) {
  return context.stream().milliseconds_of([&] { queue(set); });
}

/// Captures when a set is seen for the first time.
void Runner::Content::queue(const SharedTensors::Set& set) {
  if (!captured) return run(set);
  std::unique_ptr<runtime::Graph>& graph = graphs[&set];
  if (!graph) graph = context.stream().capture([&] { run(set); });
  graph->launch(context.stream());
}

void Runner::Content::run(const SharedTensors::Set& set) {
  const recurrent::ForwardArgs args = forward_args(set);
  const std::string_view cell = recurrent::name_of(shape.cell);
  const auto forward = [&] {
    const runtime::Span span(context, cell, "forward");
    plan->forward(context, args, memory);
  };
  if (pass == Pass::kForward) return forward();
  {
    const runtime::Span span(context, cell, "pack");
    plan->pack(context, tensors->weights(), memory);
  }
  forward();
  recurrent::BackwardArgs backward;
  backward.forward = args;
  backward.dy = set.dy;
  backward.dhn = set.dhn;
  backward.dcn = set.dcn;
  backward.dx = set.dx;
  backward.dh0 = set.dh0;
  backward.dc0 = set.dc0;
  backward.gradients = tensors->gradients();
  backward.accumulate = false;
  const runtime::Span span(context, cell, "backward");
  plan->backward(context, backward, memory);
}

Runner::Runner(const Context& context, const BenchShape& shape, Pass pass,
               std::string_view implementation, SharedTensors& tensors) {
  const bool captured = implementation.ends_with(kCaptured);
  if (captured) implementation.remove_suffix(kCaptured.size());
  recurrent::Choice choice = recurrent::make_plan(
      context, shape.descriptor(pass == Pass::kForwardBackward), implementation);
  const recurrent::Plan& plan = *choice.plan;
  Buffer packed(context.device(), plan.packed_bytes());
  Buffer workspace(context.device(), plan.workspace_bytes());
  Buffer reserve(context.device(), plan.reserve_bytes());
  const recurrent::Memory memory{packed.data(), workspace.data(), reserve.data()};
  content_.reset(new Content{context,
                             pass,
                             &tensors,
                             std::move(choice.plan),
                             std::move(packed),
                             std::move(workspace),
                             std::move(reserve),
                             memory,
                             shape,
                             std::string(plan.implementation()),
                             captured,
                             {}});
  if (captured) content_->name += kCaptured;
  content_->plan->pack(context, tensors.weights(), memory);
}

Runner::~Runner() = default;
Runner::Runner(Runner&&) noexcept = default;

const std::string& Runner::implementation() const { return content_->name; }

double Runner::run() { return content_->run_timed(content_->prepared_set()); }

void Runner::prepare() {
  for (std::size_t i = 0; i < content_->tensors->count(); ++i) content_->prepared_set();
}

void Runner::run_step(std::string_view name, std::int64_t number) {
  const SharedTensors::Set& set = content_->prepared_set();
  runtime::run_step(content_->context, name, number, [&] { content_->run_timed(set); });
}

HostResults Runner::results() {
  const SharedTensors::Set& set = content_->tensors->next();
  const Context& context = content_->context;
  for (const Tensor& tensor : {set.y, set.hn, set.cn, set.dx, set.dh0, set.dc0}) {
    poison(context, tensor);
  }
  content_->tensors->poison_gradients(context);
  content_->queue(set);
  return content_->tensors->download(context, set);
}

}  // namespace sluice::bench
