#pragma once

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/context.h"
#include "sluice/warnings.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::api {

/// Sets the number of OpenMP's threads that each of several ranks in this process takes:
/// machine.threads or, if that is 0, an equal part of the present number. Restores it at the end.
class RankThreadCount {
 public:
  RankThreadCount(const runtime::Context& context, const training::TrainConfig& config,
                  std::int64_t ranks);
  ~RankThreadCount();
  RankThreadCount(const RankThreadCount&) = delete;
  RankThreadCount& operator=(const RankThreadCount&) = delete;

  std::int64_t threads() const { return threads_; }

 private:
  int before_;
  std::int64_t threads_;
};

/// All ranks of a run but rank 0, each in a thread of this process. Rank 0 is the thread that makes
/// this.
class RankThreads {
 public:
  /// Starts a rank with `threads` threads for each of `devices` but the first, which is rank 0's.
  RankThreads(const training::TrainConfig& config, const std::vector<std::string>& devices,
              const training::TrainData& data, std::int64_t threads);
  /// Waits for the other ranks.
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  distributed::Communicator& first() { return *ranks_.front(); }

 private:
  std::vector<std::unique_ptr<distributed::Communicator>> ranks_;
  std::vector<std::jthread> threads_;
};

/// Drops warnings: rank 0 has the same ones.
const WarningHandler& no_warnings();

}  // namespace sluice::api
