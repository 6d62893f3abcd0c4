#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "serving/piece_runs.h"
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

/// Steps of a sequence, and a function that takes the answers.
struct StackRequest {
  /// The sequence that goes on; 0: a sequence that begins and ends with this request.
  std::uint64_t sequence = 0;
  bool begin = false;              ///< the sequence begins here, anew if one of this name is open
  bool end = false;                ///< the sequence ends here
  std::vector<float> frames = {};  ///< [steps, features]
  std::vector<std::int32_t> tokens = {};  ///< [steps]
  Clock::time_point deadline = Clock::time_point::max();
  /// Called once, on the executor's thread. It must not throw or wait.
  std::function<void(StackReply)> reply = {};
};

/// Lets sequences join and leave a running batch at every piece of a few steps. Each round takes
/// one piece of each of the sequences that have waited longest, so a long request doesn't hold up
/// short ones. submit() and cancel() may be called by any thread, everything else by one thread,
/// the executor.
///
/// A sequence outside the batch gives up its slot when another one needs it. Its states then move
/// to the host. Idle sequences come first, then the one that ran last. If more sequences have
/// requests than there are slots, each round pays for such moves.
///
/// A request that is cancelled or expires before any of its steps has run leaves its sequence
/// where it stood. A request that is cut in the middle breaks its sequence off, and so does one
/// that was to begin or end it. Later requests to a broken sequence fail until one begins it anew.
class StackBatcher {
 public:
  struct Limits {
    std::int64_t requests = 1024;          ///< that wait or run
    std::int64_t waiting_steps = 1 << 20;  ///< of all requests that wait or run
    std::int64_t sequences = 4096;         ///< open ones; requests without a sequence don't count
    std::int64_t steps = 1 << 16;          ///< of a request
    std::int64_t vocabulary = 0;           ///< of a model on tokens
    Clock::duration idle = std::chrono::minutes(5);  ///< an idle sequence may then be forgotten
  };
  using Ticket = std::uint64_t;

  /// `runner` must outlive this.
  StackBatcher(PieceRuns& runner, const Limits& limits);
  /// Calls close().
  ~StackBatcher();
  StackBatcher(const StackBatcher&) = delete;
  StackBatcher& operator=(const StackBatcher&) = delete;

  /// Throws ErrorCode::kInvalidArgument for input that doesn't fit the model and for a sequence
  /// that is not open, kOutOfMemory where a limit is reached, and the error of close() after it.
  Ticket submit(StackRequest request);
  /// Does nothing if the request has ended. Cancelled and expired requests are answered in the
  /// next round, once the requests before them in their sequence have ended.
  void cancel(Ticket ticket);

  /// Waits until there is something to run, until `until` at most. Returns whether there is.
  bool wait(Clock::time_point until);
  /// Runs one round: a piece of each of the next sequences, and the replies to requests that end.
  /// Returns the number of pieces. An error ends the requests that it hits. ErrorCode::kDeviceLost
  /// also closes the batcher and is thrown on after all replies.
  std::int64_t run(const Context& context);
  /// Fails all requests with `error` and forgets all sequences. submit() throws `error` from now
  /// on. A second call does nothing.
  void close(const Error& error);

  std::int64_t requests() const;   ///< that wait or run
  std::int64_t sequences() const;  ///< that are open

 private:
  struct Job {
    Ticket ticket = 0;
    StackRequest request;
    std::int64_t steps = 0, given = 0;
    bool cancelled = false;
    StackReply result = {};
  };
  // Jobs and sequences change lists by splice(), which neither moves them nor throws.
  using Jobs = std::list<Job>;
  struct Sequence;
  using Sequences = std::list<Sequence>;
  struct Sequence {
    std::uint64_t name = 0;  ///< 0: of a request without a sequence
    Sequences* list = nullptr;
    Jobs jobs = {};
    std::int32_t slot = -1;
    io::TensorTable kept = {};  ///< the states, while they are on the host
    bool is_kept = false;
    bool is_open = false;    ///< the request submitted last doesn't end it
    bool is_broken = false;  ///< until a request begins it anew
    Clock::time_point used = {};
  };
  using Place = Sequences::iterator;
  /// A sequence in the batch of this round.
  struct Chosen {
    Sequence* sequence;
    Job* job;
    Piece piece;
    Sequence* victim;  ///< gives its slot; its states still have to move to the host
    std::optional<Error> error = {};
  };

  std::int64_t check(const StackRequest& request) const;
  /// The sequence of a request, or a new one in `made`.
  Place place_of(const StackRequest& request, Sequences& made);
  static void move_to(Sequences& list, Place place);
  void end_first_job(Sequence& sequence, StackReply::Outcome outcome, std::optional<Error> error,
                     Jobs& ended);
  /// Ends the first jobs of a sequence as long as they can't run.
  void drop_stale_jobs(Sequence& sequence, Jobs& ended);
  /// Files a sequence under the list that it belongs to, or forgets it if it is over.
  void file(Place place);
  void forget(Place place);
  void forget_idle(Clock::time_point now);
  Piece next_piece(const Sequence& sequence) const;
  bool take_slot(Place place, Place& searched, Sequence*& victim);
  /// Moves the next sequences to busy_ and gives each a slot.
  void choose(std::vector<Chosen>& chosen, Jobs& ended);
  /// Makes the slot of a chosen sequence ready for its piece.
  void move_states(const Context& context, Chosen& one);
  void run_pieces(const Context& context, std::vector<Chosen>& chosen);
  void settle(std::vector<Chosen>& chosen, Jobs& ended);

  PieceRuns& runner_;
  Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::unordered_map<std::uint64_t, Place> sequences_;  ///< by name
  std::unordered_map<Ticket, Job*> tickets_;
  Sequences ready_;   ///< with jobs, the one that has waited longest first
  Sequences busy_;    ///< that the executor works on outside the lock; only it may move them
  Sequences idle_;    ///< without jobs, in a slot, the one unused for longest first
  Sequences stored_;  ///< without jobs or a slot, in about the same order
  std::vector<std::int32_t> free_slots_;
  std::int64_t waiting_steps_ = 0;
  Ticket last_ticket_ = 0;
  std::optional<Error> closed_;
};

}  // namespace sluice::serving
