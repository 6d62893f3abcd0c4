#include <algorithm>

#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/scaled_inputs.h"
#include "runtime/span.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// The input products of all directions for the steps of a piece; or for all of the first layer's,
/// whose input is there from the beginning, unless steps would have to wait for them.
void multiply_inputs(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  const Engine& engine = run.engine;
  const Sizes& sizes = engine.sizes;
  if (engine.rung.inputs != InputProducts::kCombined) return;
  const std::int64_t time = run.args.time, rows = run.args.rows;
  const bool at_once = layer == 0 && !engine.rung.persistent();
  if ((at_once && piece.begin > 0) || run.joins_input(layer)) return;
  const Piece part = at_once ? Piece{0, time} : piece;
  if (scales_input(engine.descriptor, engine.rung, layer) &&
      (has_scaled_weights_alone(engine.descriptor, engine.rung) || run.context.tf32())) {
    return multiply_scaled_input(run, lane, layer, part, run.input_products(layer, part));
  }
  const PackedMatrix& matrix = engine.packed.layers[static_cast<std::size_t>(layer)].weight_ih;
  multiply(run, lane, part.size() * rows, matrix.rows, matrix.columns,
           {run.element(run.input_of(layer), part.begin * rows * matrix.columns), matrix.columns},
           forward_factor(run, matrix),
           {run.input_products(layer, part), sizes.directions * sizes.gate_width, DType::kFloat32});
}

/// Whether launches leave multiprocessors for work that has a lane for itself.
bool has_room_beside(const Run& run) {
  return run.engine.rung.forward == Residence::kClusterWgmma &&
         run.product_lane_of(0) != run.lane_of(0, 0);
}
/// Whether the mask of the layer's output is drawn there.
bool draws_beside(const Run& run, std::int64_t layer) {
  return run.drops(layer) && run.kept(layer, 0) != nullptr && has_room_beside(run);
}

/// Dropout of what the layer hands to the one above, of the piece's times.
void drop_output(const Run& run, std::int64_t lane, std::int64_t layer, const Piece& piece) {
  if (!run.drops(layer)) return;
  const std::int64_t step = run.args.rows * run.engine.descriptor.input_of(layer + 1);
  std::byte* output = run.element(run.output_of(layer), piece.begin * step);
  if (draws_beside(run, layer)) {
    return run.drop_by_mask(run.engine.lanes[lane], layer, output, piece.begin, piece.size());
  }
  run.drop(run.engine.lanes[lane], layer, output, piece.begin, piece.size());
}

/// The steps of a piece, once their input products are there. A layer's mask is drawn while its
/// first launch runs; the caller's work overlaps with the top layer's last launch.
void run_piece(const Run& run, std::int64_t layer, const Piece& piece) {
  Engine& engine = run.engine;
  if (!engine.rung.persistent()) return run_steps(run, layer, piece);
  const std::int64_t lane = run.lane_of(layer, 0), products = run.product_lane_of(layer);
  const bool last = layer + 1 == engine.sizes.layers && piece.end == run.args.time;
  const bool draws = piece.begin == 0 && draws_beside(run, layer);
  const bool offers = last && run.args.overlap_work && has_room_beside(run);
  run_persistent_layer(run, layer, piece,
                       {lane, layer, 1, draws || offers ? engine.lanes.begun() : nullptr});
  if (draws || offers) engine.lanes.follow_begun(products);
  if (draws) run.draw_mask(engine.lanes[products], layer);
  if (offers) run_beside(run, products, *run.args.overlap_work);
}

void run_layer(const Run& run, std::int64_t layer, const Piece& piece) {
  Engine& engine = run.engine;
  const std::int64_t lane = run.lane_of(layer, 0);
  // Streamed products of this layer begin when its input is there.
  if (engine.rung.inputs == InputProducts::kStreamed) engine.lanes.follow(1, 0);
  const std::int64_t products = run.product_lane_of(layer);
  const std::int64_t each = launch_steps(engine.descriptor, engine.rung, layer, run.args.time);
  for (std::int64_t begin = piece.begin; begin < piece.end; begin += each) {
    const Piece part{begin, std::min(begin + each, piece.end)};
    // Its products take the place of those that the launch before has read.
    if (begin > piece.begin) engine.lanes.follow(products, lane);
    multiply_inputs(run, products, layer, part);
    // The next piece's products take the place of those that the piece before this one has read.
    engine.lanes.follow(products, lane);
    engine.lanes.follow(lane, products);
    run_piece(run, layer, part);
  }
  if (layer + 1 == engine.sizes.layers) return;
  const std::int64_t above = run.product_lane_of(layer + 1);
  engine.lanes.follow(above, lane);
  drop_output(run, above, layer, piece);
}

/// Layers in two halves of the sequence, each on a lane of its own: the second half of a layer runs
/// beside the first one of the layer above, on half of the GPU each. Each half's input products
/// have their own half of the buffer.
void run_halves(const Run& run) {
  Engine& engine = run.engine;
  const std::int64_t time = run.args.time, middle = (time + 1) / 2;
  const std::int64_t layers = engine.sizes.layers;
  prepare_launches(run, 1);
  multiply_inputs(run, 0, 0, {0, time});
  engine.lanes.follow(0, 1);
  for (std::int64_t launch = 0; launch < 2 * layers; ++launch) {
    const std::int64_t layer = launch / 2, lane = launch % 2;
    const runtime::LayerSpan span(run.context.profiler(), layer);
    const Piece half = lane == 0 ? Piece{0, middle} : Piece{middle, time};
    if (layer > 0) multiply_inputs(run, lane, layer, half);
    if (lane == 1) engine.lanes.follow(1, 0);
    const bool alone = launch == 0 || launch + 1 == 2 * layers;
    run_persistent_layer(run, layer, half, {lane, launch, alone ? 1 : 2});
    drop_output(run, lane, layer, half);
  }
}

}  // namespace

void run_forward(Engine& engine, const Context& context, const ForwardArgs& args,
                 const Memory& memory) {
  const Run run{engine, context, args, memory};
  engine.lanes.begin(context);
  if (takes_halves(engine.descriptor, engine.rung, args.time)) {
    run_halves(run);
  } else if (joins_layers(run)) {
    {
      const runtime::LayerSpan span(context.profiler(), 0);
      multiply_inputs(run, 0, 0, {0, args.time});
    }
    run_stack_steps(run);
  } else {
    prepare_launches(run, 0);
    for_pieces(engine, args.time, true, [&](std::int64_t layer, const Piece& piece) {
      const runtime::LayerSpan span(context.profiler(), layer);
      run_layer(run, layer, piece);
    });
  }
  engine.lanes.join();
}

}  // namespace sluice::kernels::recurrent::cuda
