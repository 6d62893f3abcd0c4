#pragma once

#include <string>

#include "kernels/crf/crf.h"
#include "layers/parameters.h"
#include "runtime/arena.h"

namespace sluice::layers {

/// The scores of a linear-chain CRF beside its emissions (kernels/crf): `<prefix>.transitions`
/// [labels, labels] from row to column, `.start` and `.end` [labels]. They start uniform in +-0.1.
class Crf {
 public:
  Crf(Parameters& parameters, const std::string& prefix, std::int64_t labels);

  std::int64_t labels() const { return labels_; }
  kernels::crf::Chain chain(const Parameters& parameters) const;
  /// All absent if the parameters have no gradients.
  kernels::crf::Chain gradient(const Parameters& parameters) const;

 private:
  std::int64_t labels_;
  ParameterId transitions_, start_, end_;
};

}  // namespace sluice::layers
