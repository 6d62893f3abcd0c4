#pragma once

#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/train/train_bench.h"
#include "distributed/nccl_part.h"
#include "distributed/process_ranks.h"
#include "distributed/threads/thread_ranks.h"
#include "training/ranks/devices.h"

namespace sluice::bench::train {

/// One of the devices that train together.
struct Rank {
  distributed::Communicator* ranks = nullptr;  ///< null: there is one
  std::string device;  ///< empty: as shape or configuration say, where there is one
  std::int64_t threads = 0;

  std::int64_t count() const { return ranks == nullptr ? 1 : ranks->size(); }
};

/// Rank 1 and those after it measure along and say nothing.
template <typename Measure>
void measure_along(TrainBenchOptions options, const Rank& rank, const Measure& measure) {
  options.json.clear();
  std::ostringstream nobody;
  measure(options, rank, nobody);
}

template <typename Measure>
auto measure_in_threads(const TrainBenchOptions& options, std::ostream& out,
                        const Measure& measure) {
  const auto ranks = distributed::threads::make_ranks(std::ssize(options.devices));
  const std::int64_t threads = std::max<std::int64_t>(1, omp_get_max_threads() / std::ssize(ranks));
  const auto rank_at = [&](std::size_t i) { return Rank{&*ranks[i], options.devices[i], threads}; };
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    others.emplace_back([&, i] {
      try {
        measure_along(options, rank_at(i), measure);
      } catch (...) {
        ranks[i]->abort(distributed::error_of(std::current_exception()));
      }
    });
  }
  return distributed::as_rank(&*ranks[0], [&] { return measure(options, rank_at(0), out); });
}

/// The devices as a run is told them.
inline training::TrainConfig config_of(const TrainBenchOptions& options) {
  training::TrainConfig config;
  if (!options.device.empty()) config.device = options.device;
  config.devices = fmt::format("{}", fmt::join(options.devices, ","));
  config.distributed.mode = options.async_seconds > 0 ? "async" : "sync";
  return config;
}

template <typename Measure>
auto measure_in_process(const TrainBenchOptions& options, distributed::Communicator& process,
                        std::ostream& out, const Measure& measure)
    -> decltype(measure(options, Rank(), out)) {
  Rank rank{&process, training::devices_here(config_of(options), &process).front()};
  std::unique_ptr<runtime::Device> gpu;
  std::unique_ptr<distributed::Communicator> on_gpu;
  if (rank.device.starts_with("cuda")) {
    gpu = runtime::open_device(rank.device);
    on_gpu = distributed::join_nccl(*gpu, process);
    rank.ranks = &*on_gpu;
  }
  if (process.rank() == 0) return measure(options, rank, out);
  measure_along(options, rank, measure);
  return {};
}

/// Runs measure(options, rank, out) on each of the devices, which are ranks; returns what the first
/// does, and in other processes nothing.
template <typename Measure>
auto measure_on_devices(const TrainBenchOptions& options, std::ostream& out,
                        const Measure& measure) {
  distributed::Communicator* process = distributed::rank_of_process();
  if (options.devices.empty() && process == nullptr) return measure(options, Rank(), out);
  SLUICE_CHECK(!options.profile.is_asked_for(), "a profile is of one device: leave --devices out");
  if (process == nullptr) {
    TrainBenchOptions ranked = options;
    ranked.devices = training::devices_of(config_of(options));
    if (ranked.devices.size() == 1) {
      return measure(ranked, Rank{nullptr, ranked.devices.front()}, out);
    }
    if (!ranked.devices.front().starts_with("cuda"))
      return measure_in_threads(ranked, out, measure);
    process = distributed::start_others(ranked.devices, options.command);
  }
  return distributed::as_rank(process,
                              [&] { return measure_in_process(options, *process, out, measure); });
}

}  // namespace sluice::bench::train
