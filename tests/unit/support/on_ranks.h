#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "distributed/threads/thread_ranks.h"

namespace sluice::testing {

/// Runs `work` once for each of so many ranks, each in a thread of its own. What a rank throws ends
/// the others. Returns what each of them threw, by rank; nothing of those that came to their end.
inline std::vector<std::string> on_ranks(
    std::int64_t count, const std::function<void(distributed::Communicator&)>& work) {
  const auto ranks = distributed::threads::make_ranks(count);
  std::vector<std::string> thrown(static_cast<std::size_t>(count));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(*ranks[rank]);
      } catch (const Error& error) {
        thrown[rank] = error.what();
        ranks[rank]->abort(error);
      } catch (const std::exception& error) {
        thrown[rank] = error.what();
        ranks[rank]->abort(Error(ErrorCode::kInternal, error.what()));
      }
    });
  }
  threads.clear();
  return thrown;
}

/// Of ranks none of which failed.
inline std::vector<std::string> no_errors(std::int64_t count) {
  return std::vector<std::string>(static_cast<std::size_t>(count));
}

}  // namespace sluice::testing
