#include "bench/scaling/forecast.h"

#include <algorithm>
#include <cmath>

namespace sluice::bench::scaling {
namespace {

/// The share of a sum's bytes that each rank sends in a ring of so many.
double ring_share(double ranks) { return 2 * (ranks - 1) / ranks; }

}  // namespace

double all_reduce_forecast(const Measured& measured, const Network& network, std::int64_t ranks,
                           Algorithm algorithm) {
  const auto count = static_cast<double>(ranks);
  const auto host = static_cast<double>(std::min(ranks, network.host_devices));
  const double full = measured.all_reduce / ring_share(static_cast<double>(measured.ranks));
  const double inside = full * ring_share(host);
  const double hosts = std::ceil(count / host);
  if (hosts <= 1) return inside;
  const double share = measured.bytes / host / (network.gigabytes * 1e6);
  const double latency = network.microseconds * 1e-3;
  const double between = algorithm == Algorithm::kRing
                             ? ring_share(hosts) * share + 2 * (hosts - 1) * latency
                             : 2 * share + 2 * std::ceil(std::log2(hosts)) * latency;
  return inside + between;
}

double step_forecast(const Measured& measured, const Network& network, std::int64_t ranks,
                     Algorithm algorithm) {
  // Noise may make steps with an exchange the faster ones.
  const double taken = std::max(0.0, measured.together - measured.apart) / measured.all_reduce;
  return measured.apart + taken * all_reduce_forecast(measured, network, ranks, algorithm);
}

}  // namespace sluice::bench::scaling
