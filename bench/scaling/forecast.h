#pragma once

#include <cstdint>
#include <string>

namespace sluice::bench::scaling {

/// A cluster as a forecast sees it.
struct Network {
  std::int64_t host_devices = 8;  ///< of a host, which have the measured bandwidth among them
  double gigabytes = 50;          ///< per second and device, from host to host
  double microseconds = 10;       ///< until a message has come
};

/// Measurements of some ranks.
struct Measured {
  std::int64_t ranks = 2;
  double apart = 0;       ///< milliseconds of a step without an exchange
  double together = 0;    ///< and with one
  double all_reduce = 0;  ///< of a sum of all gradients alone
  double bytes = 0;       ///< of the gradients, as they travel
};

enum class Algorithm { kRing, kTree };

/// Milliseconds of an all-reduce of so many ranks. Within a host a ring has the bandwidth that was
/// measured. Between hosts each device moves its share of the sum, by a ring or by a tree.
double all_reduce_forecast(const Measured& measured, const Network& network, std::int64_t ranks,
                           Algorithm algorithm);

/// Milliseconds of a step of so many ranks, of which an exchange takes the share of its all-reduce
/// that was measured: less where few rows of embeddings travel.
double step_forecast(const Measured& measured, const Network& network, std::int64_t ranks,
                     Algorithm algorithm);

}  // namespace sluice::bench::scaling
