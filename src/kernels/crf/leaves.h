#pragma once

#include "kernels/crf/crf.h"

namespace sluice::kernels::crf {

using runtime::Stream;

/// The operations of crf.h on one kind of device: arguments are checked already, and each is queued
/// on the stream.
struct Leaves {
  void (*negative_log_likelihood)(Stream& stream, const LossArgs& args);
  void (*best_labels)(Stream& stream, const BestLabelsArgs& args);
};

}  // namespace sluice::kernels::crf
