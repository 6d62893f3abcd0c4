#pragma once

#include <optional>
#include <string>

#include "kernels/embedding/embedding.h"
#include "layers/parameters.h"

namespace sluice::layers {

/// Rows of `<prefix>.weight` [vocabulary, width] looked up by token. They start uniform in
/// +-sqrt(3/width), variance 1/width. The row of token 0 (padding) learns nothing here.
class Embedding {
 public:
  /// `shared`: another layer's weight of that shape to use instead of one of its own.
  Embedding(Parameters& parameters, const std::string& prefix, std::int64_t vocabulary,
            std::int64_t width, std::optional<ParameterId> shared = {});

  std::int64_t vocabulary() const { return vocabulary_; }
  std::int64_t width() const { return width_; }
  ParameterId weight() const { return weight_; }

  using Dropout = kernels::embedding::Dropout;

  /// tokens int32 [n] ([time, rows] with dropout), each in [0, vocabulary), -> y [n, width].
  void forward(const Context& context, const Parameters& parameters, const Tensor& tokens,
               const Tensor& y, const Dropout& dropout = {}) const;
  /// Adds to the gradient of the rows used; deterministic. With dropout dy may be overwritten.
  void backward(const Context& context, const Parameters& parameters, const Tensor& tokens,
                const Tensor& dy, const Dropout& dropout = {}) const;

 private:
  std::string name_;
  std::int64_t vocabulary_;
  std::int64_t width_;
  ParameterId weight_;
};

}  // namespace sluice::layers
