#pragma once

#include <vector>

#include "layers/attention_decoder.h"
#include "models/probe.h"
#include "runtime/buffer.h"

namespace sluice::models {

/// Shows a run of an attention decoder to a probe, as StackProbe does a stack's; does nothing if
/// there is none. Shown are "decoder.attention" [target steps, rows, source steps], the outputs
/// "decoder" and the final states of its cells, all of the run itself.
class DecoderProbe {
 public:
  /// Gives `args` room for attention and final states where it has none.
  DecoderProbe(const Context& context, Probe* probe, const layers::AttentionDecoder& decoder,
               kernels::attention_decoder::ForwardArgs& args);
  void show(const Context& context) const;

 private:
  Probe* probe_;
  const layers::AttentionDecoder* decoder_;
  kernels::attention_decoder::ForwardArgs args_;
  std::vector<runtime::Buffer> buffers_;
};

}  // namespace sluice::models
