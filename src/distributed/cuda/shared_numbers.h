#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "distributed/communicator.h"

namespace sluice::distributed::cuda {

/// Numbers and a lock for each rank, in memory that processes of one machine share. Zero at first.
class SharedNumbers {
 public:
  /// All ranks must make it, with the same count. Throws ErrorCode::kUnsupported if they run on
  /// several machines, ErrorCode::kIo if the system gives them no memory.
  SharedNumbers(Communicator& ranks, std::size_t count);
  ~SharedNumbers();
  SharedNumbers(const SharedNumbers&) = delete;
  SharedNumbers& operator=(const SharedNumbers&) = delete;

  std::atomic<std::int64_t>& number(std::size_t which) const;
  /// Throws ErrorCode::kDevice if the process that held it has ended.
  void lock(std::int64_t rank) const;
  void unlock(std::int64_t rank) const;

 private:
  pthread_mutex_t& mutex_of(std::int64_t rank) const;
  void map(int file);
  void make_locks() const;

  std::int64_t ranks_;
  std::size_t count_;
  std::size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace sluice::distributed::cuda
