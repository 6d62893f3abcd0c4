#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "bench/scaling/forecast.h"

namespace sluice::bench::scaling {

struct ScalingOptions {
  std::string shapes;                ///< shape file of seq2seq models
  std::vector<std::string> configs;  ///< and training configurations, whose batches are dealt
  std::vector<std::string> devices;  ///< as machine.devices
  std::vector<std::int64_t> counts;  ///< numbers of devices, the first so many; empty: 1, 2, 4, ...
  std::string dtype;                 ///< empty: as shapes and configurations say
  bool bfloat16_exchange = false;
  bool shard = false;
  std::int64_t repeats = 15;
  std::int64_t epoch = 1'100'000;  ///< examples of an epoch
  std::vector<std::int64_t> forecasts{8, 64, 512};
  Network network;
  std::string program;  ///< sluice, which measures each number of devices in processes of its own
  std::string json;     ///< file for the rows of bench train; empty: none
};

/// Steps of one shape or configuration on some devices.
struct ScalingRow {
  std::string name;
  std::int64_t ranks = 1;
  std::int64_t batch = 0;  ///< of all devices together; 0: a configuration's
  double milliseconds = 0;
  double examples_per_second = 0;
  double peak_mebibytes = 0;
  double parameters = 0;
  // Where there are several devices:
  double apart = 0;
  double all_reduce = 0;
};

/// Measures steps on each number of devices, with the batch of a shape on each and with that batch
/// for all together. Prints a table, with what share of a step the exchange takes, and a forecast
/// for more devices beside what was measured. Throws Error.
std::vector<ScalingRow> run_scaling_bench(const ScalingOptions& options, std::ostream& out);

}  // namespace sluice::bench::scaling
