#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serving/piece_runner.h"
#include "sluice/error.h"

namespace sluice::serving {

using Clock = std::chrono::steady_clock;

/// The end of a request.
struct StackReply {
  enum class Outcome {
    kDone,
    kCancelled,
    kExpired,  ///< its deadline passed
    kFailed,   ///< with `error`
  };
  Outcome outcome = Outcome::kDone;
  PieceAnswer answer = {};  ///< to all steps, if done
  std::optional<Error> error = {};
};

/// Steps of a sequence, and who wants the answers.
struct StackRequest {
  /// The sequence that goes on; 0: a sequence that begins and ends with this request.
  std::uint64_t sequence = 0;
  bool begin = false;  ///< the sequence begins with it, anew if there is one of this name
  bool end = false;    ///< and ends with it
  std::vector<float> frames = {};         ///< [steps, features]
  std::vector<std::int32_t> tokens = {};  ///< [steps]
  Clock::time_point deadline = Clock::time_point::max();
  /// Called once, on the executor's thread. It must not throw or wait.
  std::function<void(StackReply)> reply = {};
};

/// Lets sequences join and leave a running batch at every piece of a few steps. Each round takes
/// one piece of each of those sequences that have waited longest, so that a long request doesn't
/// hold up short ones. Sequences beyond the runner's slots are kept on the host: those go there
/// that have had nothing to do for longest. submit() and cancel() may be called by any thread,
/// everything else by one, the executor.
///
/// A request that is cancelled or expires before any step of it has run leaves its sequence where
/// it stood. One that is cut in the middle breaks the sequence off, and so does one that was to
/// begin or to end it: requests that go on with it fail.
class StackBatcher {
 public:
  struct Limits {
    std::int64_t requests = 1024;                    ///< that wait or run
    std::int64_t sequences = 4096;                   ///< that are remembered
    std::int64_t steps = 1 << 16;                    ///< of a request
    std::int64_t vocabulary = 0;                     ///< of a model on tokens
    Clock::duration idle = std::chrono::minutes(5);  ///< then a sequence is forgotten
  };
  using Ticket = std::uint64_t;

  /// `runner` must outlive this.
  StackBatcher(PieceRunner& runner, const Limits& limits);

  /// Throws ErrorCode::kInvalidArgument for input that doesn't fit the model and for a sequence
  /// that is not there, kOutOfMemory where a limit is reached: nothing waits then.
  Ticket submit(StackRequest request);
  /// Nothing happens if the request has ended.
  void cancel(Ticket ticket);

  /// Waits until there is something to run, until `until` at most. Returns whether there is.
  bool wait(Clock::time_point until);
  /// Runs a piece of each of the next sequences and calls back for requests that end. Returns the
  /// number of pieces. An error of the run ends the requests in it; ErrorCode::kDeviceLost is
  /// thrown on after that.
  std::int64_t run(const Context& context);

  std::int64_t requests() const;   ///< that wait or run
  std::int64_t sequences() const;  ///< that are remembered

 private:
  struct Job {
    Ticket ticket = 0;
    StackRequest request;
    std::int64_t steps = 0, given = 0;
    bool cancelled = false;
    PieceAnswer answer = {};
  };
  struct Sequence {
    std::deque<Job> jobs = {};
    std::int32_t slot = -1;
    io::TensorTable kept = {};  ///< the states, while they are on the host
    bool is_kept = false;
    bool is_open = false;    ///< the request submitted last doesn't end it
    bool is_broken = false;  ///< until a request begins it anew
    bool runs = false;       ///< in the batch at work
    Clock::time_point used = {};
  };
  /// The name, and whether it is that of a request without a sequence.
  using Key = std::pair<std::uint64_t, bool>;
  struct Ended {
    std::function<void(StackReply)> call;
    StackReply reply;
  };
  /// A sequence in a batch.
  struct Chosen {
    Key key;
    Sequence* sequence;
    Piece piece;
  };

  std::int64_t check(const StackRequest& request) const;
  void end_first_job(Sequence& sequence, StackReply reply, std::vector<Ended>& ended);
  /// Ends those first jobs of a sequence that can't run.
  void drop_stale_jobs(Sequence& sequence, std::vector<Ended>& ended);
  bool forget_if_over(const Key& key, Sequence& sequence);
  void forget_idle(Clock::time_point now);
  bool take_slot(const Context& context, Sequence& sequence);
  Piece next_piece(const Sequence& sequence) const;
  std::vector<Chosen> choose(const Context& context, std::vector<Ended>& ended);
  void settle(const std::vector<Chosen>& chosen, std::vector<PieceAnswer> answers,
              std::vector<Ended>& ended);
  void fail(const std::vector<Chosen>& chosen, const Error& error, std::vector<Ended>& ended);
  void leave(const std::vector<Chosen>& chosen);

  PieceRunner& runner_;
  Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::map<Key, Sequence> sequences_;
  std::unordered_map<Ticket, Key> tickets_;
  std::deque<Key> ready_;  ///< those with jobs, longest waiting first
  std::vector<std::int32_t> free_slots_;
  Ticket last_ticket_ = 0;
};

}  // namespace sluice::serving
