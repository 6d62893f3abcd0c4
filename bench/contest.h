#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/recurrent_bench.h"
#include "bench/runner.h"
#include "profiling/session.h"

namespace sluice::bench {

/// All turns of one shape and pass.
class Contest {
 public:
  Contest(const RecurrentBenchOptions& options, const BenchShape& shape, Pass pass,
          profiling::Session& profile);
  Contest(const Contest&) = delete;
  Contest& operator=(const Contest&) = delete;
  ~Contest();

  /// Tells who declines.
  std::vector<BenchResult> run(std::ostream& out);
  const runtime::Context& context() const { return context_; }

 private:
  void enter(std::ostream& out);
  std::optional<std::string> enter(const std::string& name);
  void add(Runner runner);
  void take_turns();
  std::optional<std::string> hopeless(double milliseconds);
  double short_run(const std::string& peer);
  base::WatchedItems watch(std::string_view doing, std::int64_t items) const;
  /// Further turns, so that the timed ones are not slowed by being recorded.
  void profile_turns(const std::vector<std::string>& implementations);
  bool asks_oracle() const;
  double flops() const;

  const RecurrentBenchOptions& options_;
  profiling::Session& profile_;
  BenchShape shape_;
  Pass pass_;
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
  HostData data_;
  SharedTensors tensors_;
  std::vector<Runner> runners_;
  std::vector<std::vector<double>> times_;  // [runner][turn]
  std::unique_ptr<SharedTensors> short_tensors_;
  std::optional<double> fastest_peer_;
};

}  // namespace sluice::bench
