#include "layers/crf.h"

namespace sluice::layers {
namespace {

constexpr Initializer kSmall{0.1};

}  // namespace

Crf::Crf(Parameters& parameters, const std::string& prefix, std::int64_t labels)
    : labels_(labels),
      transitions_(parameters.declare(prefix + ".transitions", {labels, labels}, kSmall)),
      start_(parameters.declare(prefix + ".start", {labels}, kSmall)),
      end_(parameters.declare(prefix + ".end", {labels}, kSmall)) {}

kernels::crf::Chain Crf::chain(const Parameters& parameters) const {
  return {parameters.value(transitions_), parameters.value(start_), parameters.value(end_)};
}

kernels::crf::Chain Crf::gradient(const Parameters& parameters) const {
  return {parameters.gradient(transitions_), parameters.gradient(start_),
          parameters.gradient(end_)};
}

}  // namespace sluice::layers
