#include "models/decoder_probe.h"

#include <fmt/format.h>

namespace sluice::models {

namespace attention = kernels::attention_decoder;

DecoderProbe::DecoderProbe(const Context& context, Probe* probe,
                           const layers::AttentionDecoder& decoder, attention::ForwardArgs& args)
    : probe_(probe), decoder_(&decoder) {
  if (probe_ == nullptr) return;
  const attention::Descriptor& d = decoder.architecture();
  const runtime::DType storage = args.emb.dtype();
  const auto give = [&](Tensor& tensor, runtime::DType dtype, const runtime::Shape& shape) {
    if (tensor) return;
    const auto count = static_cast<std::size_t>(shape.element_count());
    buffers_.emplace_back(context.device(), base::checked_mul(count, base::size_of(dtype)));
    tensor = buffers_.back().tensor(dtype, shape);
  };
  give(args.alpha, storage, {args.target_time, args.rows, args.source_time});
  give(args.hn, storage, {d.layers, args.rows, d.hidden});
  if (d.cell == attention::CellType::kLstm) {
    give(args.cn, base::policy_of(storage).cell_state, {d.layers, args.rows, d.hidden});
  }
  args_ = args;
}

void DecoderProbe::show(const Context& context) const {
  if (probe_ == nullptr) return;
  const attention::Descriptor& d = decoder_->architecture();
  // Queries and scores are sums of products above those of the cells, and so is the output.
  probe_->show(context, {.name = decoder_->name() + ".attention",
                         .value = args_.alpha,
                         .lengths = args_.target_lengths,
                         .sums = d.layers + 1});
  probe_->show(context,
               {.name = decoder_->name(), .value = args_.a, .lengths = args_.target_lengths});
  for (std::int64_t layer = 0; layer < d.layers; ++layer) {
    const auto show_state = [&](const char* what, const Tensor& states) {
      if (!states) return;
      probe_->show(context, {.name = fmt::format("{}.l{}.{}", decoder_->name(), layer, what),
                             .value = states.slice(0, layer, layer + 1),
                             .sums = 0});
    };
    show_state("h_n", args_.hn);
    show_state("c_n", args_.cn);
  }
  context.synchronize();
}

}  // namespace sluice::models
