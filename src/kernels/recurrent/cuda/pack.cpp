#include "kernels/recurrent/cuda/engine.h"
#include "kernels/recurrent/cuda/pack_kernels.h"
#include "kernels/recurrent/cuda/resident_weights.h"
#include "kernels/recurrent/cuda/scaled_weights.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/cuda_device.h"

namespace sluice::kernels::recurrent::cuda {
namespace {

struct Packing {
  const Engine& engine;
  cudaStream_t stream;
  std::byte* packed;
  PackList list = {};

  /// Packs a canonical matrix as rows [first, ..) of a packed one, and of its transpose if it has
  /// one; or, unless `plain`, of that alone.
  void pack(const Tensor& source, const PackedMatrix& matrix, std::int64_t first,
            bool plain = true) {
    const std::int64_t bytes = engine.sizes.storage;
    PackMatrix args{};
    args.from = source.data_as<const float>();
    args.rows = source.size(0);
    args.columns = source.size(1);
    if (plain) args.to = packed + matrix.plain + first * matrix.columns * bytes;
    args.to_stride = matrix.columns;
    if (matrix.has_transpose) {
      args.transposed = packed + matrix.transposed + first * bytes;
      args.transposed_stride = matrix.rows;
    }
    if (args.to || args.transposed) list.add(args);
  }

  void pack_recurrent(const Tensor& source, const PackedMatrix& matrix) {
    if (!engine.rung.persistent()) {
      if (!scales_steps(engine.descriptor, engine.rung)) pack(source, matrix, 0);
      return;
    }
    const bool training = engine.descriptor.training;
    const bool backward = training && engine.rung.persistent_backward();
    pack_resident_weights(stream, engine.descriptor, engine.rung, source.data_as<const float>(),
                          {packed + matrix.plain, backward ? packed + matrix.transposed : nullptr,
                           reinterpret_cast<float*>(packed + matrix.largest)});
    if (training && !backward) pack(source, matrix, 0, false);
  }

  void copy(const Tensor& source, std::size_t to) const {
    const auto bytes = static_cast<std::size_t>(source.shape().element_count()) * sizeof(float);
    runtime::cuda::check(
        cudaMemcpyAsync(packed + to, source.data(), bytes, cudaMemcpyDeviceToDevice, stream),
        "copy the weights of a recurrent layer");
  }

  void pack_input(const Tensor& source, std::int64_t l, std::int64_t d) {
    const PackedMatrix& matrix = engine.packed.layers[static_cast<std::size_t>(l)].weight_ih;
    const bool plain = reads_plain_input(engine.descriptor, engine.rung, l);
    pack(source, matrix, d * engine.sizes.gate_width, plain);
  }

  void pack_direction(const LayerWeights& weights, std::int64_t l, std::int64_t d) {
    const Sizes& sizes = engine.sizes;
    const PackedLayer& layer = engine.packed.layers[static_cast<std::size_t>(l)];
    const PackedDirection& direction = layer.directions[static_cast<std::size_t>(d)];
    pack_input(weights.weight_ih, l, d);
    pack_recurrent(weights.weight_hh, direction.weight_hh);
    if (sizes.projected) pack(weights.weight_hr, direction.weight_hr, 0);
    if (engine.descriptor.peepholes) copy(weights.weight_peephole, direction.peepholes);
    if (sizes.norms) {
      copy(weights.gain_ih, direction.gain_ih);
      copy(weights.gain_hh, direction.gain_hh);
      copy(weights.gain_c, direction.gain_c);
      copy(weights.shift_c, direction.shift_c);
    }
    PackBias bias{};
    bias.bias_ih = weights.bias_ih.data_as<const float>();
    bias.bias_hh = weights.bias_hh.data_as<const float>();
    bias.gates = sizes.gates;
    bias.hidden = sizes.hidden;
    bias.to = reinterpret_cast<float*>(packed + layer.bias) + d * sizes.gate_width;
    if (sizes.hidden_bias) bias.bias_hn = reinterpret_cast<float*>(packed + direction.bias_hn);
    list.add(bias);
  }
};

}  // namespace

void run_pack(Engine& engine, const Context& context, const std::vector<LayerWeights>& weights,
              const Memory& memory) {
  Packing packing{engine, runtime::cuda::handle_of(context.stream()),
                  static_cast<std::byte*>(memory.packed)};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto directions = static_cast<std::size_t>(engine.sizes.directions);
    packing.pack_direction(weights[i], static_cast<std::int64_t>(i / directions),
                           static_cast<std::int64_t>(i % directions));
  }
  scale_weights(packing.stream, engine, weights, packing.packed);
  packing.list.queue(packing.stream, engine.descriptor.dtype);
}

}  // namespace sluice::kernels::recurrent::cuda
