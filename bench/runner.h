#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bench/workload.h"

namespace sluice::bench {

inline constexpr std::string_view kCaptured = "+graph";

/// One implementation ready to run a shape's pass again and again.
class Runner {
 public:
  /// Packs the weights. `implementation` may end in "+graph": then each run is captured once and
  /// launched as a whole. Throws ErrorCode::kUnsupported with the reason if it declines the shape.
  Runner(const runtime::Context& context, const BenchShape& shape, Pass pass,
         std::string_view implementation, SharedTensors& tensors);
  ~Runner();
  Runner(Runner&&) noexcept;

  /// With "+graph" if captured.
  const std::string& implementation() const;
  /// Runs once and waits; milliseconds of the device. Forward: inference with the weights
  /// packed beforehand. Forward and backward: packing, forward, dx, dh0, dc0 and canonical dW.
  double run();
  /// Does for every copy of inputs and outputs what `run` does when it first meets it.
  void prepare();
  /// The same as `run`, as a step of a profile.
  void run_step(std::string_view name, std::int64_t number);
  /// Runs once with poisoned outputs and returns what came out.
  HostResults results();

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace sluice::bench
