#pragma once

#include <iosfwd>
#include <string>

namespace sluice {

/// The demonstration: makes free-form dates in English and Chinese, trains a small model to write
/// them as ISO dates, measures exact match on days it never saw, answers a few inputs and shows
/// where its attention looked.
struct DemoRequest {
  std::string directory = "runs/demo";  ///< the checkpoint and the pictures; made anew
  unsigned long long seed = 1;
  bool quiet = false;  ///< no progress on standard error
};

struct DemoReport {
  double exact_match = 0;  ///< share of the test dates written without a fault
  double train_seconds = 0;
};

/// Writes its story to `out`. Throws Error.
DemoReport run_demo(const DemoRequest& request, std::ostream& out);

}  // namespace sluice
