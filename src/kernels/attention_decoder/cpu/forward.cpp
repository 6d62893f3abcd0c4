#include "kernels/attention_decoder/cpu/forward.h"

namespace sluice::kernels::attention_decoder::cpu {
namespace {

template <typename T>
Product<T> embedding_product(const Descriptor& d, const PackedWeights<T>& weights, const T* emb,
                             T* pre) {
  return {emb,
          d.embedding,
          d.embedding,
          d.hidden,
          d.gates(),
          weights.layers[0].input,
          weights.layers[0].bias,
          false,
          pre};
}

}  // namespace

template <typename T>
int Decoder<T>::threads_for_steps(const Extents& extents) const {
  const std::int64_t cells = d.gates() * d.hidden * (d.output + d.hidden) +
                             (d.layers - 1) * d.gates() * d.hidden * 2 * d.hidden;
  const std::int64_t attention = extents.source_time * (4 * d.key_width() + d.memory);
  const std::int64_t row = cells + d.output * (d.memory + d.hidden) + attention;
  return threads_for(extents.rows * row, std::min(threads, omp_get_max_threads()));
}

template <typename T>
void prepare_memory(const Descriptor& d, const Leaf<T>& leaf, const PackedWeights<T>& weights,
                    const Extents& extents, const T* memory, const std::int32_t* source_lengths,
                    T* values, T* keys) {
  const std::int64_t time = extents.source_time, rows = extents.rows, width = padded(d.memory);
#pragma omp parallel for schedule(static) if (rows * time * width > 65536)
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = source_lengths != nullptr ? source_lengths[row] : time;
    for (std::int64_t s = 0; s < time; ++s) {
      T* target = values + (row * time + s) * width;
      const std::int64_t used = s < length ? d.memory : 0;
      std::copy_n(memory + (s * rows + row) * d.memory, used, target);
      std::fill(target + used, target + width, T(0));
    }
  }
  multiply_all(leaf, {values, width, d.memory, d.key_width(), 1, weights.key, nullptr, false, keys},
               rows * time);
}

template <typename T>
void run_forward(const Decoder<T>& decoder, const ForwardArgs& args, const Memory& memory) {
  const Descriptor& d = decoder.d;
  const Leaves<T>& leaf = decoder.leaf;
  Carver packed(memory.packed), workspace(memory.workspace), reserve(memory.reserve);
  const Extents extents{args.target_time, args.source_time, args.rows};
  const PackedWeights<T> weights = carve_packed(d, *leaf.cells, packed);
  ForwardRun<T> run{d, leaf, weights, {}, {}};
  run.scratch = carve_forward<T>(d, extents, workspace);
  run.trace = carve_trace<T>(d, extents, d.training, true, d.training ? reserve : workspace);
  run.keys = run.trace.keys;
  run.values = run.trace.values;
  run.source_lengths = args.source_lengths.data_as<const std::int32_t>();
  run.target_lengths = args.target_lengths.data_as<const std::int32_t>();
  run.a0 = args.a0.data_as<const T>();
  run.a = args.a.data_as<T>();
  run.alpha_out = args.alpha.data_as<T>();
  run.row_ids = args.row_ids.data_as<const std::int32_t>();
  run.dropout = args.dropout;

  prepare_memory(d, *leaf.cells, weights, extents, args.memory.data_as<const T>(),
                 run.source_lengths, run.trace.values, run.trace.keys);
  multiply_all(*leaf.cells,
               embedding_product(d, weights, args.emb.data_as<const T>(), run.scratch.pre),
               extents.target_time * extents.rows);
#pragma omp parallel num_threads(decoder.threads_for_steps(extents))
  {
    const Share share = decoder.share(extents);
    run.load_state(share, args.h0.data_as<const T>(), args.c0.data_as<const T>());
    share.barrier();
    for (std::int64_t t = 0; t < extents.target_time; ++t) run.step(share, t);
    run.store_state(share, args.hn.data_as<T>(), args.cn.data_as<T>());
  }
}

template <typename T>
void run_step(const Decoder<T>& decoder, const StepArgs& args, const Memory& memory) {
  const Descriptor& d = decoder.d;
  const Leaves<T>& leaf = decoder.leaf;
  Carver packed(memory.packed), workspace(memory.workspace);
  const Extents extents{1, args.source_time, args.rows};
  const PackedWeights<T> weights = carve_packed(d, *leaf.cells, packed);
  ForwardRun<T> run{d, leaf, weights, {}, {}};
  run.scratch = carve_forward<T>(d, extents, workspace);
  run.trace = carve_trace<T>(d, extents, false, false, workspace);
  run.keys = args.keys.data_as<const T>();
  run.values = args.values.data_as<const T>();
  run.source_lengths = args.source_lengths.data_as<const std::int32_t>();
  run.input_of_row = args.input_of_row.data_as<const std::int32_t>();
  run.a0 = args.a.data_as<const T>();
  run.a = args.a_next.data_as<T>();
  run.alpha_out = args.alpha.data_as<T>();

  const Product<T> embedding =
      embedding_product(d, weights, args.emb.data_as<const T>(), run.scratch.pre);
#pragma omp parallel num_threads(decoder.threads_for_steps(extents))
  {
    const Share share = decoder.share(extents);
    run.load_state(share, args.h.data_as<const T>(), args.c.data_as<const T>());
    share.barrier();
    multiply(*leaf.cells, embedding, share.rows(), share.panels(d.hidden));
    run.step(share, 0);
    run.store_state(share, args.h_next.data_as<T>(), args.c_next.data_as<T>());
  }
}

template struct Decoder<double>;
template struct Decoder<float>;
template void prepare_memory(const Descriptor&, const Leaf<double>&, const PackedWeights<double>&,
                             const Extents&, const double*, const std::int32_t*, double*, double*);
template void prepare_memory(const Descriptor&, const Leaf<float>&, const PackedWeights<float>&,
                             const Extents&, const float*, const std::int32_t*, float*, float*);
template void run_forward(const Decoder<double>&, const ForwardArgs&, const Memory&);
template void run_forward(const Decoder<float>&, const ForwardArgs&, const Memory&);
template void run_step(const Decoder<double>&, const StepArgs&, const Memory&);
template void run_step(const Decoder<float>&, const StepArgs&, const Memory&);

}  // namespace sluice::kernels::attention_decoder::cpu
