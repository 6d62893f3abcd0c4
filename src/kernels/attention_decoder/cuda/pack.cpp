#include "kernels/attention_decoder/cuda/row_kernels.h"
#include "kernels/attention_decoder/cuda/run.h"

namespace sluice::kernels::attention_decoder::cuda {
namespace {

template <typename S>
class Packer {
 public:
  using W = Wide<S>;

  Packer(const Descriptor& d, const Weights& weights, const PackedWeights<S>& packed)
      : d_(d), w_(d), weights_(weights), packed_(packed) {}

  void run(Stream& stream) {
    for (std::int64_t l = 0; l < d_.layers; ++l) add_layer(l);
    add_attention();
    pack(stream, matrices_);
    pack(stream, vectors_);
  }

 private:
  /// A null source leaves zeros.
  void add_matrix(const W* source, std::int64_t stride, std::int64_t rows, std::int64_t width,
                  S* target, std::int64_t target_stride) {
    matrices_.push_back(
        {source, nullptr, stride, rows, width, target, target_stride, padded(rows), padded(width)});
  }
  void add_vector(const W* first, const W* second, std::int64_t width, W* target) {
    vectors_.push_back({first, second, 0, 1, width, target, 0, 1, padded(width)});
  }

  void add_layer(std::int64_t l) {
    const recurrent::LayerWeights& from = weights_.cells[static_cast<std::size_t>(l)];
    const PackedLayer<S>& to = packed_.layers[static_cast<std::size_t>(l)];
    const bool gru = d_.cell == CellType::kGru;
    const std::int64_t skipped = l == 0 ? d_.embedding : 0;  // emb's columns stand apart
    const std::int64_t input = d_.input_of(l), x = input - skipped;
    const W* weight_ih = data_of<const W>(from.weight_ih);
    const W* weight_hh = data_of<const W>(from.weight_hh);
    const W* bias_ih = data_of<const W>(from.bias_ih);
    const W* bias_hh = data_of<const W>(from.bias_hh);
    for (std::int64_t block = 0; block < w_.blocks; ++block) {
      // Of the GRU's n the third block is the input's part, the fourth the hidden one.
      const bool has_input = !gru || block < 3, has_hidden = !gru || block != 2;
      // The product of h before the reset has no part in n.
      const bool reads_h = has_hidden && !(resets_before(d_) && block == 2);
      const std::int64_t first = (gru ? std::min<std::int64_t>(block, 2) : block) * d_.hidden;
      S* target = to.joint + block * w_.hidden * w_.joint(l);
      add_matrix(has_input ? weight_ih + first * input + skipped : nullptr, input, d_.hidden, x,
                 target, w_.joint(l));
      add_matrix(reads_h ? weight_hh + first * d_.hidden : nullptr, d_.hidden, d_.hidden, d_.hidden,
                 target + w_.x(l), w_.joint(l));
      add_vector(has_input ? bias_ih + first : nullptr, has_hidden ? bias_hh + first : nullptr,
                 d_.hidden, to.bias + block * w_.hidden);
      if (l == 0 && has_input) {
        add_matrix(weight_ih + first * input, input, d_.hidden, d_.embedding,
                   packed_.emb + block * w_.hidden * w_.emb, w_.emb);
      }
    }
    if (!resets_before(d_)) return;
    add_matrix(weight_hh + 2 * d_.hidden * d_.hidden, d_.hidden, d_.hidden, d_.hidden, to.reset,
               w_.hidden);
  }

  void add_attention() {
    const bool additive = d_.attention == AttentionType::kAdditive;
    if (additive) {
      add_matrix(data_of<const W>(weights_.query_weight), d_.hidden, d_.key, d_.hidden,
                 packed_.query, w_.hidden);
      add_vector(data_of<const W>(weights_.score_vector), nullptr, d_.key, packed_.score_vector);
    }
    add_matrix(data_of<const W>(additive ? weights_.memory_weight : weights_.bilinear_weight),
               d_.memory, d_.key_width(), d_.memory, packed_.key, w_.memory);
    const W* output = data_of<const W>(weights_.output_weight);
    const std::int64_t stride = d_.memory + d_.hidden;
    add_matrix(output, stride, d_.output, d_.memory, packed_.output, w_.combined());
    add_matrix(output + d_.memory, stride, d_.output, d_.hidden, packed_.output + w_.memory,
               w_.combined());
    add_vector(data_of<const W>(weights_.output_bias), nullptr, d_.output, packed_.output_bias);
  }

  const Descriptor& d_;
  Widths w_;
  const Weights& weights_;
  const PackedWeights<S>& packed_;
  std::vector<PackJob<W, S>> matrices_;
  std::vector<PackJob<W, W>> vectors_;
};

}  // namespace

template <typename S>
void pack_weights(const Context& context, const Descriptor& d, const Weights& weights,
                  const Memory& memory) {
  const Run<S> run(context, d, memory);
  Packer<S>(d, weights, run.weights).run(context.stream());
}

template void pack_weights<double>(const Context&, const Descriptor&, const Weights&,
                                   const Memory&);
template void pack_weights<float>(const Context&, const Descriptor&, const Weights&, const Memory&);
template void pack_weights<__nv_bfloat16>(const Context&, const Descriptor&, const Weights&,
                                          const Memory&);
template void pack_weights<__half>(const Context&, const Descriptor&, const Weights&,
                                   const Memory&);

}  // namespace sluice::kernels::attention_decoder::cuda
