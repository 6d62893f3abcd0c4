#include "layers/embedding.h"

#include <cmath>

#include "runtime/span.h"

namespace sluice::layers {

Embedding::Embedding(Parameters& parameters, const std::string& prefix, std::int64_t vocabulary,
                     std::int64_t width, std::optional<ParameterId> shared)
    : name_(prefix),
      vocabulary_(vocabulary),
      width_(width),
      weight_(shared ? *shared
                     : parameters.declare(prefix + ".weight", {vocabulary, width},
                                          {std::sqrt(3 / static_cast<double>(width))})) {
  if (!shared) parameters.set_marked(weight_, true);
}

void Embedding::forward(const Context& context, const Parameters& parameters, const Tensor& tokens,
                        const Tensor& y, const Dropout& dropout) const {
  const runtime::Span span(context, name_, "forward");
  kernels::embedding::gather(context, parameters.value(weight_), tokens, y, dropout);
}

void Embedding::backward(const Context& context, const Parameters& parameters, const Tensor& tokens,
                         const Tensor& dy, const Dropout& dropout) const {
  const runtime::Span span(context, name_, "backward");
  // Token 0 is padding.
  kernels::embedding::gather_backward(context, {.tokens = tokens,
                                                .d_out = dy,
                                                .d_table = parameters.gradient(weight_),
                                                .padding = 0,
                                                .marks = parameters.gradient_marks(weight_),
                                                .dropout = dropout});
}

}  // namespace sluice::layers
