#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "sluice/error.h"

namespace sluice::distributed::threads {

/// Where all ranks wait for each other, each with something to show.
template <typename Shown>
class Meeting {
 public:
  explicit Meeting(std::int64_t ranks) {
    for (std::vector<Shown>& all : shown_) all.resize(static_cast<std::size_t>(ranks));
  }

  /// Waits until every rank has come, and returns what each showed.
  std::vector<Shown> meet(std::int64_t rank, Shown shown) {
    std::unique_lock lock(mutex_);
    if (error_) throw Error(*error_);
    const std::int64_t round = round_;
    // A rank that is slow to leave reads one of the two while the next round fills the other.
    std::vector<Shown>& all = shown_[round % 2];
    all[static_cast<std::size_t>(rank)] = std::move(shown);
    if (++present_ == std::ssize(all)) {
      present_ = 0;
      ++round_;
      changed_.notify_all();
      return all;
    }
    changed_.wait(lock, [&] { return round_ != round || error_; });
    if (round_ == round) throw Error(*error_);
    return all;
  }

  void abort(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::vector<Shown>, 2> shown_;
  std::int64_t present_ = 0;
  std::int64_t round_ = 0;
  std::optional<Error> error_;
};

/// Locks on the memory of each rank, which one rank at a time holds.
class Locks {
 public:
  explicit Locks(std::int64_t ranks) : held_(static_cast<std::size_t>(ranks)) {}

  void lock(std::int64_t owner) {
    std::unique_lock lock(mutex_);
    const auto place = static_cast<std::size_t>(owner);
    changed_.wait(lock, [&] { return !held_[place] || error_; });
    if (error_) throw Error(*error_);
    held_[place] = true;
  }

  void unlock(std::int64_t owner) {
    const std::lock_guard lock(mutex_);
    held_[static_cast<std::size_t>(owner)] = false;
    changed_.notify_all();
  }

  void abort(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> held_;
  std::optional<Error> error_;
};

}  // namespace sluice::distributed::threads
