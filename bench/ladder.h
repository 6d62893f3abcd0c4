#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "bench/recurrent_bench.h"

namespace sluice::bench {

struct LadderOptions {
  std::string shapes;           ///< instead of the workload `ladder`: the first line of this file
  std::string device = "cuda";  ///< whose implementations are the variants
  std::string dtype = "float32";
  std::string passes = "all";  ///< "all", "forward" or "forward+backward"
  std::int64_t repeats = 7;
  std::string json;          ///< file for the results; empty: none
  ProfileRequest profile{};  ///< as of bench lstm
};

/// A way of running the recurrent layers, and what it has that the one before lacks.
struct Variant {
  std::string_view name;
  std::string_view adds;
};

/// In the order of the ladder: those of a GPU, then those of a CPU.
const std::vector<Variant>& variants();

/// The order in which a device's implementations are listed: known variants, other own ones, peers;
/// a peer also captured (see kCaptured) where the device captures.
std::vector<std::string> ladder_order(const runtime::Device& device);

/// Runs the device's implementations on one workload and prints milliseconds, GFLOP/s and the
/// speed-up over the first variant. Those that decline are listed with their reason. Throws Error.
std::vector<BenchResult> run_ladder(const LadderOptions& options, std::ostream& out);

}  // namespace sluice::bench
