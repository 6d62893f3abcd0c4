#include <algorithm>
#include <functional>
#include <vector>

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/scaled_gradients.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// Where the gradient of a layer's input goes, [time, rows, input].
std::byte* gradient_of_input(const Run& run, const BackwardArgs& args, std::int64_t layer) {
  if (layer == 0) return static_cast<std::byte*>(args.dx.data());
  const BackwardLayout& layout = run.engine.workspace.backward;
  return run.at<std::byte>(layout.dy[static_cast<std::size_t>(layer - 1)]);
}

/// The gradient of the layer's input for the turns of a piece: what the layer below gets as dy. Of
/// dx, which no steps wait for, all turns at once, unless launches leave room for a product beside
/// them.
void input_gradient(const Run& run, std::int64_t lane, const BackwardArgs& args, std::int64_t layer,
                    const Piece& turns) {
  const Engine& engine = run.engine;
  if (layer == 0 && !args.dx) return;
  const std::int64_t time = run.args.time;
  const bool at_once = layer == 0 && !engine.rung.persistent();
  if (at_once && turns.end < time) return;
  const Piece part = at_once ? Piece{0, time} : turns;
  const auto l = static_cast<std::size_t>(layer);
  const std::int64_t rows = run.args.rows, first = time - part.end;
  const PackedMatrix& matrix = engine.packed.layers[l].weight_ih;
  const BackwardLayout& layout = engine.workspace.backward;
  std::byte* base = gradient_of_input(run, args, layer);
  std::byte* to = run.element(base, first * rows * matrix.columns);
  if (ScaledGradients::by_row(run)) {
    ScaledGradients::multiply_input_weights(run, lane, layer, {first, time - part.begin}, {0, rows},
                                            reinterpret_cast<float*>(base));
  } else {
    const std::byte* gates =
        run.element(run.at<const std::byte>(layout.d_input[l]), first * rows * matrix.rows);
    multiply(run, lane, part.size() * rows, matrix.columns, matrix.rows, {gates, matrix.rows},
             backward_factor(run, matrix), {to, matrix.columns, engine.descriptor.dtype});
  }
  if (layer > 0 && run.drops(layer - 1)) {
    run.drop_by_mask(run.engine.lanes[lane], layer - 1, to, first, part.size());
  }
}

/// A piece of one of the layers that run at the same time, or kernels of a step.
void run_piece(const Run& run, const BackwardArgs& args, std::int64_t layer, const Piece& turns) {
  Engine& engine = run.engine;
  const std::int64_t lane = run.lane_of(layer, 0), products = run.product_lane_of(layer);
  if (engine.rung.persistent_backward()) {
    run_persistent_layer(run, args, layer, turns);
  } else {
    run_steps_back(run, args, layer, turns);
  }
  if (spreads_gradients(engine.descriptor, engine.rung)) {
    engine.lanes.follow(kInputWeightLane, lane);
    engine.lanes.follow(kOtherWeightLane, lane);
  }
  engine.lanes.follow(products, lane);
  input_gradient(run, products, args, layer, turns);
  if (layer > 0) engine.lanes.follow(run.lane_of(layer - 1, 0), products);
  if (turns.end == run.args.time) weight_gradients(run, args, layer);
}

/// Turns of a launch whose input's gradient is multiplied while it takes the others.
std::int64_t early_turns(const Run& run) {
  constexpr std::int64_t kFewestRows = 1024;  // of a product
  const std::int64_t turns = run.args.time / 2;
  return turns * run.args.rows >= kFewestRows && can_await_turns(run) ? turns : 0;
}

/// Of a layer with several launches: the gradient of its input for the rows of the launch that
/// begins with row `first`, a product a step. Dropout comes when all rows are there.
void input_gradient_of_launch(const Run& run, std::int64_t lane, const BackwardArgs& args,
                              std::int64_t layer, std::int64_t first) {
  if (layer == 0 && !args.dx) return;
  const std::int64_t rows = run.args.rows, count = std::min(launch_rows(run), rows - first);
  std::byte* base = gradient_of_input(run, args, layer);
  if (ScaledGradients::by_row(run)) {
    return ScaledGradients::multiply_input_weights(run, lane, layer, {0, run.args.time},
                                                   {first, count}, reinterpret_cast<float*>(base));
  }
  const auto l = static_cast<std::size_t>(layer);
  const PackedMatrix& matrix = run.engine.packed.layers[l].weight_ih;
  const auto* gates = run.at<const std::byte>(run.engine.workspace.backward.d_input[l]);
  multiply(run, lane, count, matrix.columns, matrix.rows,
           {run.element(gates, first * matrix.rows), matrix.rows}, backward_factor(run, matrix),
           {run.element(base, first * matrix.columns), matrix.columns, run.engine.descriptor.dtype},
           {run.args.time, rows * matrix.rows, rows * matrix.columns});
}
std::int64_t first_row_of_last_launch(const Run& run) {
  const std::int64_t each = launch_rows(run);
  return (run.args.rows - 1) / each * each;
}
/// Whether launches leave gate gradients scaled, each for some of the rows.
bool has_scaled_launches(const Run& run) {
  return ScaledGradients::by_row(run) && launch_rows(run) < run.args.rows;
}
/// Whether that of a layer's last launch is multiplied beside the first launch of the layer below,
/// which is for other rows; without dropout, that is.
bool defers_last_rows(const Run& run, std::int64_t layer) {
  return has_scaled_launches(run) && layer > 0 && !run.drops(layer - 1);
}

/// A layer's launches after the first, each for some of the rows. Beside them the input's gradient
/// of the rows of the launch before is multiplied.
void run_other_launches(const Run& run, const BackwardArgs& args, std::int64_t layer) {
  Lanes& lanes = run.engine.lanes;
  const std::int64_t steps = run.lane_of(0, 0), products = run.product_lane_of(0);
  const std::int64_t time = run.args.time, rows = run.args.rows, each = launch_rows(run);
  if (layer + 1 < run.engine.sizes.layers && defers_last_rows(run, layer + 1)) {
    lanes.follow_mark(steps);
  }
  for (std::int64_t first = each; first < rows; first += each) {
    lanes.follow(products, steps);
    run_persistent_layer(run, args, layer, {0, time}, lanes.begun(),
                         static_cast<int>(first / each));
    lanes.follow_begun(products);
    input_gradient_of_launch(run, products, args, layer, first - each);
  }
  const std::int64_t last = first_row_of_last_launch(run);
  if (layer == 0) {
    lanes.follow(products, steps);
    return input_gradient_of_launch(run, products, args, layer, last);
  }
  // The next launch writes where products of the weight gradients have read.
  lanes.follow(steps, products);
  if (defers_last_rows(run, layer)) return;
  input_gradient_of_launch(run, steps, args, layer, last);
  run.drop_by_mask(lanes[steps], layer - 1, gradient_of_input(run, args, layer), 0, time);
}

/// A layer's launches, each for some of the rows. A product that is not over when a launch ends
/// takes the multiprocessors that the next launch needs at once. So parts of the weight gradients
/// of the layer above are dealt out to the launches and run beside them; beside the top layer's,
/// the caller's work and the gradient of the input for the rows of the launch before.
void run_launches_of_rows(const Run& run, const BackwardArgs& args, std::int64_t layer) {
  Lanes& lanes = run.engine.lanes;
  const std::int64_t steps = run.lane_of(0, 0), products = run.product_lane_of(0);
  const std::int64_t each = launch_rows(run), last = first_row_of_last_launch(run);
  const bool top = layer + 1 == run.engine.sizes.layers;
  std::vector<std::function<void()>> parts;
  if (!top) parts = weight_gradient_parts(run, args, layer + 1);
  const auto launches = static_cast<std::size_t>(last / each + 1);
  std::size_t part = 0;
  for (std::size_t i = 0; i < launches; ++i) {
    lanes.follow(products, steps);
    const runtime::LayerSpan span(run.context.profiler(), layer);
    run_persistent_layer(run, args, layer, {0, run.args.time}, lanes.begun(), static_cast<int>(i));
    lanes.follow_begun(products);
    if (top && i == 0 && args.overlap_work) run_beside(run, products, *args.overlap_work);
    if (top && i > 0) {
      input_gradient_of_launch(run, products, args, layer, static_cast<std::int64_t>(i - 1) * each);
    }
    const runtime::LayerSpan above(run.context.profiler(), layer + 1);
    const std::size_t end = (parts.size() * (i + 1) + launches - 1) / launches;
    while (part < end) parts[part++]();
  }
  const runtime::LayerSpan span(run.context.profiler(), layer);
  if (layer == 0) lanes.follow(products, steps);
  const std::int64_t lane = layer > 0 ? steps : products;
  if (top) {
    input_gradient_of_launch(run, lane, args, layer, last);
  } else {
    input_gradient(run, lane, args, layer, {0, run.args.time});
  }
  if (layer == 0) return;
  // The next launch writes where products of the weight gradients have read.
  lanes.follow(steps, products);
  if (top) {
    run.drop_by_mask(lanes[steps], layer - 1, gradient_of_input(run, args, layer), 0,
                     run.args.time);
  }
}

/// Layers of a launch each, one after the other. On the multiprocessors that a launch leaves free
/// run what no launch waits for, the products of the weight gradients of the layer above, and the
/// first part of what the next one waits for.
void run_launches(const Run& run, const BackwardArgs& args) {
  Engine& engine = run.engine;
  Lanes& lanes = engine.lanes;
  const std::int64_t steps = run.lane_of(0, 0), products = run.product_lane_of(0);
  const std::int64_t time = run.args.time, top = engine.sizes.layers - 1;
  const bool several = launch_rows(run) < run.args.rows, scaled = has_scaled_launches(run);
  for (std::int64_t layer = top; layer >= 0; --layer) {
    if (several && !scaled) {
      run_launches_of_rows(run, args, layer);
      continue;
    }
    const std::int64_t early = layer > 0 || args.dx ? early_turns(run) : 0;
    // Of the top layer's launches nothing else makes use.
    const bool offers = layer == top && early == 0 && args.overlap_work;
    const bool beside = layer < top || early > 0 || offers;
    {
      const runtime::LayerSpan span(run.context.profiler(), layer);
      if (beside) lanes.follow(products, steps);
      run_persistent_layer(run, args, layer, {0, time}, beside ? lanes.begun() : nullptr,
                           scaled ? 0 : -1);
      if (beside) lanes.follow_begun(products);
    }
    if (offers) run_beside(run, products, *args.overlap_work);
    if (layer < top && defers_last_rows(run, layer + 1)) {
      const runtime::LayerSpan span(run.context.profiler(), layer + 1);
      input_gradient_of_launch(run, products, args, layer + 1, first_row_of_last_launch(run));
      lanes.mark(products);
    }
    if (layer < top) {
      const runtime::LayerSpan span(run.context.profiler(), layer + 1);
      weight_gradients(run, args, layer + 1);
    }
    const runtime::LayerSpan span(run.context.profiler(), layer);
    if (scaled) {
      run_other_launches(run, args, layer);
      continue;
    }
    if (early > 0) {
      await_turns(run, products, early);
      input_gradient(run, products, args, layer, {0, early});
    }
    if (layer == 0) lanes.follow(products, steps);
    input_gradient(run, layer > 0 ? steps : products, args, layer, {early, time});
    // The next launch writes where products of the weight gradients have read.
    if (layer > 0) lanes.follow(steps, products);
  }
  const runtime::LayerSpan span(run.context.profiler(), 0);
  weight_gradients(run, args, 0);
}

}  // namespace

void run_backward(Engine& engine, const Context& context, const BackwardArgs& args,
                  const Memory& memory) {
  const Run run{engine, context, args.forward, memory};
  engine.lanes.begin(context);
  if (engine.rung.persistent_backward() && !is_layered(engine.descriptor, engine.rung)) {
    run_launches(run, args);
  } else {
    for_pieces(engine, args.forward.time, false, [&](std::int64_t layer, const Piece& turns) {
      const runtime::LayerSpan span(context.profiler(), layer);
      run_piece(run, args, layer, turns);
    });
  }
  engine.lanes.join();
}

}  // namespace sluice::kernels::recurrent::cuda
