#pragma once

#include <sluice.h>

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "description.h"

namespace sluice::jax {

/// The status and the message of a function of sluice.h that failed.
class Failure : public std::runtime_error {
 public:
  Failure(sluice_status what, const char* message) : std::runtime_error(message), status(what) {}
  const sluice_status status;
};

/// Calls a function of sluice.h with a place for its error; throws a Failure.
template <class Function>
void check(const Function& function) {
  sluice_error error = SLUICE_INIT(sluice_error);
  const sluice_status status = function(&error);
  if (status != SLUICE_OK) throw Failure(status, error.message);
}

struct Plan {
  sluice_recurrent* handle = nullptr;
  sluice_recurrent_sizes sizes = SLUICE_INIT(sluice_recurrent_sizes);

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { sluice_recurrent_destroy(handle); }
};

/// One of Sluice's streams, with the plans that were made for it. One thread uses it at a time.
class Stream {
 public:
  /// On XLA's stream of a GPU, or, if that is null, of the CPU.
  Stream(sluice_device* device, void* cuda_stream);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();

  /// XLA compiles a call for one extent, so a plan is for just that.
  Plan& plan(const Description& description);

 private:
  static constexpr std::size_t kMostPlans = 256;  // each takes some kilobytes of the host

  bool on_gpu_;
  sluice_stream* stream_ = nullptr;
  std::list<std::pair<std::string, Plan>> plans_;  ///< the one used last comes first
  std::unordered_map<std::string_view, decltype(plans_)::iterator> by_key_;
};

/// Streams for one stream of XLA's. XLA's threads run calls on the CPU at the same time, so there
/// are as many as calls ever met. Calls on one stream of a GPU wait for each other.
class StreamPool {
 public:
  StreamPool(sluice_device* device, void* cuda_stream)
      : device_(device), cuda_stream_(cuda_stream) {}

  /// Has a stream until it goes.
  class Loan {
   public:
    explicit Loan(StreamPool& pool) : pool_(pool), stream_(pool.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(stream_)); }
    Stream& operator*() { return *stream_; }

   private:
    StreamPool& pool_;
    std::unique_ptr<Stream> stream_;
  };

 private:
  std::unique_ptr<Stream> take();
  void give_back(std::unique_ptr<Stream> stream);

  sluice_device* device_;
  void* cuda_stream_;  ///< null: the CPU
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Stream>> idle_;  ///< the one used last comes last: its memory is warm
  bool made_ = false;
};

/// The pool of the CPU.
StreamPool& cpu_pool();
/// The pool of a stream of a GPU. Pools stay as long as the process: XLA does too.
StreamPool& cuda_pool(std::int32_t device, void* stream);

}  // namespace sluice::jax
