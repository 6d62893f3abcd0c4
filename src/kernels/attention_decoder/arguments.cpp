#include "kernels/attention_decoder/arguments.h"

#include "base/check.h"

namespace sluice::kernels::attention_decoder {
namespace {

using base::Shape;

enum class Presence { kRequired, kOptional };
using enum Presence;

void check(const Tensor& tensor, std::string_view name, DType dtype, const Shape& shape,
           Presence presence) {
  if (!tensor) {
    // An empty tensor has no memory to point to.
    SLUICE_CHECK(presence == kOptional || shape.element_count() == 0,
                 "the attention decoder needs the tensor {} {}", name, shape.to_string());
    return;
  }
  SLUICE_CHECK(tensor.shape() == shape, "{} of the attention decoder has shape {}, not {}", name,
               tensor.shape().to_string(), shape.to_string());
  SLUICE_CHECK(tensor.dtype() == dtype, "{} of the attention decoder is {}, not {}", name,
               base::name_of(tensor.dtype()), base::name_of(dtype));
  SLUICE_CHECK(tensor.is_contiguous(), "{} of the attention decoder is not contiguous", name);
}

void check_absent(const Tensor& tensor, std::string_view name, std::string_view why) {
  SLUICE_CHECK(!tensor, "{} given to an attention decoder that has none: {}", name, why);
}

void check_extent(std::string_view what, std::int64_t extent, std::int64_t capacity) {
  SLUICE_CHECK(extent >= 0 && extent <= capacity,
               "a {} of {} given to an attention decoder planned for 0 to {}", what, extent,
               capacity);
}

/// A cell-state tensor: only the LSTM has one.
void check_cell_state(const Descriptor& d, const Tensor& tensor, std::string_view name,
                      std::int64_t rows, Presence presence) {
  if (d.cell != CellType::kLstm) {
    check_absent(tensor, name, fmt::format("its cell is {}", recurrent::name_of(d.cell)));
    return;
  }
  check(tensor, name, base::policy_of(d.dtype).cell_state, {d.layers, rows, d.hidden}, presence);
}

void check_cells(const Descriptor& d, const std::vector<recurrent::LayerWeights>& cells,
                 Presence presence) {
  SLUICE_CHECK(cells.size() == static_cast<std::size_t>(d.layers),
               "weights of {} layers given to an attention decoder of {}", cells.size(), d.layers);
  const DType master = base::policy_of(d.dtype).master;
  const std::int64_t sums = d.gates() * d.hidden;
  for (std::int64_t l = 0; l < d.layers; ++l) {
    const recurrent::LayerWeights& layer = cells[static_cast<std::size_t>(l)];
    check(layer.weight_ih, fmt::format("weight_ih_l{}", l), master, {sums, d.input_of(l)},
          presence);
    check(layer.weight_hh, fmt::format("weight_hh_l{}", l), master, {sums, d.hidden}, presence);
    check(layer.bias_ih, fmt::format("bias_ih_l{}", l), master, {sums}, presence);
    check(layer.bias_hh, fmt::format("bias_hh_l{}", l), master, {sums}, presence);
    check_absent(layer.weight_hr, "weight_hr", "no projection is planned for");
  }
}

void check_attention_weights(const Descriptor& d, const Weights& weights, Presence presence) {
  const DType master = base::policy_of(d.dtype).master;
  if (d.attention == AttentionType::kAdditive) {
    check(weights.query_weight, "query_weight", master, {d.key, d.hidden}, presence);
    check(weights.memory_weight, "memory_weight", master, {d.key, d.memory}, presence);
    check(weights.score_vector, "score_vector", master, {d.key}, presence);
    check_absent(weights.bilinear_weight, "bilinear_weight", "its attention is additive");
  } else {
    constexpr std::string_view kWhy = "its attention is multiplicative";
    check_absent(weights.query_weight, "query_weight", kWhy);
    check_absent(weights.memory_weight, "memory_weight", kWhy);
    check_absent(weights.score_vector, "score_vector", kWhy);
    check(weights.bilinear_weight, "bilinear_weight", master, {d.hidden, d.memory}, presence);
  }
  check(weights.output_weight, "output_weight", master, {d.output, d.memory + d.hidden}, presence);
  check(weights.output_bias, "output_bias", master, {d.output}, presence);
}

}  // namespace

void check_weights(const Descriptor& d, const Weights& weights) {
  check_cells(d, weights.cells, kRequired);
  check_attention_weights(d, weights, kRequired);
}

void check_forward(const Descriptor& d, const ForwardArgs& args) {
  const std::int64_t time = args.target_time, source = args.source_time, rows = args.rows;
  check_extent("target time", time, d.target_time);
  check_extent("source time", source, d.source_time);
  check_extent("number of rows", rows, d.rows);
  check(args.emb, "emb", d.dtype, {time, rows, d.embedding}, kRequired);
  check(args.memory, "memory", d.dtype, {source, rows, d.memory}, kRequired);
  check(args.source_lengths, "source_lengths", DType::kInt32, {rows}, kOptional);
  check(args.target_lengths, "target_lengths", DType::kInt32, {rows}, kOptional);
  check(args.h0, "h0", d.dtype, {d.layers, rows, d.hidden}, kOptional);
  check_cell_state(d, args.c0, "c0", rows, kOptional);
  check(args.a0, "a0", d.dtype, {rows, d.output}, kOptional);
  check(args.a, "a", d.dtype, {time, rows, d.output}, kRequired);
  check(args.alpha, "alpha", d.dtype, {time, rows, source}, kOptional);
  check(args.hn, "hn", d.dtype, {d.layers, rows, d.hidden}, kOptional);
  check_cell_state(d, args.cn, "cn", rows, kOptional);
  check(args.row_ids, "row_ids", DType::kInt32, {rows}, kOptional);
}

void check_backward(const Descriptor& d, const BackwardArgs& args) {
  SLUICE_CHECK(d.training, "backward of an attention decoder that was not planned for training");
  check_forward(d, args.forward);
  const ForwardArgs& forward = args.forward;
  const std::int64_t time = forward.target_time, rows = forward.rows;
  check(args.da, "da", d.dtype, {time, rows, d.output}, kRequired);
  check(args.dhn, "dhn", d.dtype, {d.layers, rows, d.hidden}, kOptional);
  check_cell_state(d, args.dcn, "dcn", rows, kOptional);
  check(args.d_emb, "d_emb", d.dtype, {time, rows, d.embedding}, kOptional);
  check(args.d_memory, "d_memory", d.dtype, {forward.source_time, rows, d.memory}, kOptional);
  check(args.dh0, "dh0", d.dtype, {d.layers, rows, d.hidden}, kOptional);
  check_cell_state(d, args.dc0, "dc0", rows, kOptional);
  check(args.da0, "da0", d.dtype, {rows, d.output}, kOptional);
  if (!args.gradients.cells.empty()) check_cells(d, args.gradients.cells, kOptional);
  check_attention_weights(d, args.gradients, kOptional);
}

void check_prepare(const Descriptor& d, const Plan& plan, const PrepareArgs& args) {
  const std::int64_t time = args.source_time, inputs = args.inputs;
  check_extent("source time", time, d.source_time);
  SLUICE_CHECK(inputs >= 0, "{} inputs given to an attention decoder", inputs);
  check(args.memory, "memory", d.dtype, {time, inputs, d.memory}, kRequired);
  check(args.source_lengths, "source_lengths", DType::kInt32, {inputs}, kOptional);
  check(args.keys, "keys", d.dtype, {inputs, time, plan.key_stride()}, kRequired);
  check(args.values, "values", d.dtype, {inputs, time, plan.value_stride()}, kRequired);
}

void check_step(const Descriptor& d, const Plan& plan, const StepArgs& args) {
  const std::int64_t time = args.source_time, rows = args.rows;
  check_extent("source time", time, d.source_time);
  check_extent("number of rows", rows, d.rows);
  SLUICE_CHECK(args.input_of_row || args.inputs == rows,
               "an attention decoder's step on {} rows and {} inputs needs input_of_row", rows,
               args.inputs);
  check(args.emb, "emb", d.dtype, {rows, d.embedding}, kRequired);
  check(args.keys, "keys", d.dtype, {args.inputs, time, plan.key_stride()}, kRequired);
  check(args.values, "values", d.dtype, {args.inputs, time, plan.value_stride()}, kRequired);
  check(args.source_lengths, "source_lengths", DType::kInt32, {args.inputs}, kOptional);
  check(args.input_of_row, "input_of_row", DType::kInt32, {rows}, kOptional);
  check(args.h, "h", d.dtype, {d.layers, rows, d.hidden}, kRequired);
  check(args.h_next, "h_next", d.dtype, {d.layers, rows, d.hidden}, kRequired);
  check_cell_state(d, args.c, "c", rows, kRequired);
  check_cell_state(d, args.c_next, "c_next", rows, kRequired);
  check(args.a, "a", d.dtype, {rows, d.output}, kRequired);
  check(args.a_next, "a_next", d.dtype, {rows, d.output}, kRequired);
  check(args.alpha, "alpha", d.dtype, {rows, time}, kOptional);
}

void check_memory(const Plan& plan, const Memory& memory, bool with_reserve) {
  const auto need = [](std::string_view name, const void* given, std::size_t bytes) {
    SLUICE_CHECK(given != nullptr || bytes == 0, "the attention decoder needs {} bytes of {}",
                 bytes, name);
  };
  need("packed weights", memory.packed, plan.packed_bytes());
  need("workspace", memory.workspace, plan.workspace_bytes());
  if (with_reserve) need("reserve", memory.reserve, plan.reserve_bytes());
}

}  // namespace sluice::kernels::attention_decoder
