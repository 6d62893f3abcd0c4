#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/context.h"
#include "training/train_config.h"
#include "training/train_data.h"

namespace sluice::api {

/// OpenMP's threads for a rank of so many, in this thread until this goes: machine.threads or, if
/// that is 0, an equal part of those that one rank would take.
class RankThreadCount {
 public:
  RankThreadCount(const runtime::Context& context, const training::TrainConfig& config,
                  std::int64_t ranks);
  ~RankThreadCount();
  RankThreadCount(const RankThreadCount&) = delete;
  RankThreadCount& operator=(const RankThreadCount&) = delete;

  std::int64_t threads() const { return threads_; }

 private:
  int before_;  ///< 0: they stay
  std::int64_t threads_;
};

/// The ranks of a run but for rank 0, each in a thread of this process. Rank 0 is the thread that
/// makes this.
class RankThreads {
 public:
  /// A rank for each of `devices`, the first of which is rank 0's; each takes so many threads.
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

/// What `work` returns, which is rank 0's. If it throws, the other ranks end, too. `first` is null
/// where there are none.
template <typename Work>
auto as_first(distributed::Communicator* first, const Work& work) {
  if (first == nullptr) return work();
  try {
    return work();
  } catch (const Error& error) {
    first->abort(error);
    throw;
  } catch (const std::exception& error) {
    first->abort(Error(ErrorCode::kInternal, error.what()));
    throw;
  } catch (...) {
    first->abort(Error(ErrorCode::kInternal, "rank 0 was ended by its caller"));
    throw;
  }
}

}  // namespace sluice::api
