#pragma once

#include <vector>

#include "bench/train/on_devices.h"

namespace sluice::bench::train {

/// Steps on random pairs of a shape whose batch is that of a rank.
TrainWork work_of(const TrainShape& shape, const TrainBenchOptions& options, const Rank& rank);

/// The shapes with the batch of a rank.
std::vector<TrainShape> shapes_of(const TrainBenchOptions& options, const Rank& rank);

}  // namespace sluice::bench::train
