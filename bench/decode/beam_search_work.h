#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/decode/beam_shape.h"
#include "decoding/search.h"
#include "runtime/context.h"

namespace sluice::bench::decode {

/// A shape's model and search on a device.
class BeamSearchWork {
 public:
  /// `context` must outlive it.
  BeamSearchWork(const runtime::Context& context, const BeamShape& shape);
  ~BeamSearchWork();

  /// Queues a whole search, which waits for nothing.
  void run();
  /// Waits: what the last run found, for each input its hypotheses, best first.
  std::vector<std::vector<decoding::Hypothesis>> found() const;
  std::int64_t parameters() const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace sluice::bench::decode
