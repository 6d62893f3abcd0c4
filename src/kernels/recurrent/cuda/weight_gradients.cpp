#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/sequence_kernels.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

/// One layer and direction.
struct Gradients {
  const Run& run;
  const std::int64_t lane;
  const std::int64_t depth;  ///< all steps and rows

  /// target += left^T [.., depth] * right [depth, ..].
  void add_product(const Tensor& target, const std::byte* left, std::int64_t left_stride,
                   const std::byte* right) const {
    if (!target) return;
    const std::int64_t rows = target.size(0), columns = target.size(1);
    multiply(run, lane, rows, columns, depth, {left, left_stride, true}, {right, columns},
             {target.data(), columns, DType::kFloat32, true});
  }

  void add_sums(const std::byte* values, std::int64_t stride, const Tensor& first,
                const Tensor& second) const {
    if (!first && !second) return;
    ColumnSums sums{};
    sums.values = values;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.gate_width;
    sums.partial = partial();
    sums.targets[0] = first.data_as<float>();
    sums.targets[1] = second.data_as<float>();
    add_column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

  /// target [H] += the sum of a gate's gradients [.., H] times the cell states that it sees.
  void add_peephole(float* target, const std::byte* values, std::int64_t stride,
                    const float* cells) const {
    ColumnSums sums{};
    sums.values = values;
    sums.factors = cells;
    sums.stride = stride;
    sums.depth = depth;
    sums.columns = run.engine.sizes.hidden;
    sums.partial = partial();
    sums.targets[0] = target;
    add_column_sums(run.engine.lanes[lane], run.engine.descriptor.dtype, sums);
  }

 private:
  float* partial() const {
    return run.workspace<float>(run.engine.workspace.backward.sums[static_cast<std::size_t>(lane)]);
  }
};

}  // namespace

void add_weight_gradients(const Run& run, const LayerWeights& gradients, std::int64_t layer,
                          std::int64_t direction, std::int64_t lane) {
  const Sizes& sizes = run.engine.sizes;
  const auto l = static_cast<std::size_t>(layer);
  const auto i = static_cast<std::size_t>(layer * sizes.directions + direction);
  const BackwardLayout& layout = run.engine.workspace.backward;
  const StateLayout& state = run.engine.reserve.states[i];
  const std::int64_t rows = run.args.rows, input_stride = sizes.directions * sizes.gate_width;
  const Gradients all{run, lane, run.args.time * rows};

  const std::byte* d_input =
      run.element(run.workspace<const std::byte>(layout.d_input[l]), direction * sizes.gate_width);
  const std::byte* d_recurrent =
      sizes.lstm ? d_input : run.workspace<const std::byte>(layout.d_recurrent[i]);
  const std::int64_t recurrent_stride = sizes.lstm ? input_stride : sizes.gate_width;
  // The state before time t is in row t, or in row t + 1 of the direction that comes from there.
  const std::byte* h_before =
      run.element(run.reserve<const std::byte>(sizes.drops ? state.h_dropped : state.h),
                  direction * rows * sizes.output);

  all.add_product(gradients.weight_ih, d_input, input_stride, run.input_of(layer));
  all.add_product(gradients.weight_hh, d_recurrent, recurrent_stride, h_before);
  if (sizes.projected) {
    all.add_product(gradients.weight_hr, run.workspace<const std::byte>(layout.dh_out[i]),
                    sizes.output, run.reserve<const std::byte>(state.h_full));
  }
  if (sizes.lstm) {
    all.add_sums(d_input, input_stride, gradients.bias_ih, gradients.bias_hh);
  } else {
    all.add_sums(d_input, input_stride, gradients.bias_ih, {});
    all.add_sums(d_recurrent, recurrent_stride, gradients.bias_hh, {});
  }
  if (auto* peepholes = gradients.weight_peephole.data_as<float>()) {
    const std::int64_t hidden = sizes.hidden;
    const float* c = run.reserve<const float>(state.c);
    const float* before = c + direction * rows * hidden;
    const float* fresh = sizes.fresh_cells ? run.reserve<const float>(state.c_fresh)
                                           : c + (1 - direction) * rows * hidden;
    all.add_peephole(peepholes, d_input, input_stride, before);
    all.add_peephole(peepholes + hidden, run.element(d_input, hidden), input_stride, before);
    all.add_peephole(peepholes + 2 * hidden, run.element(d_input, 3 * hidden), input_stride, fresh);
  }
}

}  // namespace sluice::kernels::recurrent::cuda
