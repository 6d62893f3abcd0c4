#include "serving/stack_batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"

namespace sluice::serving {
namespace {

/// Runs `body` and returns its exception as an Error.
template <typename Body>
std::optional<Error> error_of(Body&& body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::kOutOfMemory, "out of memory on the host");
  } catch (const std::exception& error) {
    return Error(ErrorCode::kInternal, fmt::format("an unexpected exception: {}", error.what()));
  } catch (...) {
    return Error(ErrorCode::kInternal, "an unexpected exception of an unknown type");
  }
}

template <typename Jobs>
void deliver(Jobs& ended) {
  for (auto& job : ended) {
    if (job.request.reply) job.request.reply(std::move(job.result));
  }
}

}  // namespace

StackBatcher::StackBatcher(PieceRuns& runner, const Limits& limits)
    : runner_(runner), limits_(limits) {
  SLUICE_CHECK(limits.waiting_steps >= limits.steps,
               "a request of {} steps would never run, since {} steps may wait; allow more",
               limits.steps, limits.waiting_steps);
  for (auto slot = static_cast<std::int32_t>(runner.capacity().slots); slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
}

StackBatcher::~StackBatcher() {
  static_cast<void>(error_of([this] {
    close({ErrorCode::kOutOfMemory, "the server closes, so this request was not answered"});
  }));
}

std::int64_t StackBatcher::requests() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(tickets_);
}

std::int64_t StackBatcher::sequences() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(sequences_);
}

// Returns the steps of a request.
std::int64_t StackBatcher::check(const StackRequest& request) const {
  const std::int64_t features = runner_.features();
  const std::int64_t numbers = std::ssize(request.frames), tokens = std::ssize(request.tokens);
  SLUICE_CHECK(features == 0 ? numbers == 0 : tokens == 0,
               "the model reads {}, but the request has {}", features == 0 ? "tokens" : "frames",
               features == 0 ? "frames" : "tokens");
  SLUICE_CHECK(features == 0 || numbers % features == 0,
               "{} numbers are no whole frames of {} features", numbers, features);
  const std::int64_t steps = features == 0 ? tokens : numbers / features;
  SLUICE_CHECK(steps >= 1 && steps <= limits_.steps, "a request has {} steps; it may have 1 to {}",
               steps, limits_.steps);
  for (const std::int32_t token : request.tokens) {
    SLUICE_CHECK(token >= 0 && token < limits_.vocabulary,
                 "there is no token {}; the vocabulary has {}", token, limits_.vocabulary);
  }
  return steps;
}

StackBatcher::Place StackBatcher::place_of(const StackRequest& request, Sequences& made) {
  const auto found = sequences_.find(request.sequence);
  SLUICE_CHECK(request.begin || (found != sequences_.end() && found->second->is_open),
               "there is no sequence {} to go on with; begin it with its first request",
               request.sequence);
  if (found != sequences_.end()) return found->second;
  if (request.sequence != 0) {
    forget_idle(Clock::now());
    if (std::ssize(sequences_) >= limits_.sequences) {
      base::fail(ErrorCode::kOutOfMemory, "{} sequences are open already; end some, or try later",
                 limits_.sequences);
    }
  }
  made.push_back({.name = request.sequence, .list = &made});
  return made.begin();
}

StackBatcher::Ticket StackBatcher::submit(StackRequest given) {
  const std::int64_t steps = check(given);
  if (given.sequence == 0) given.begin = given.end = true;
  Jobs jobs;
  jobs.push_back({.request = std::move(given), .steps = steps});
  Job& job = jobs.front();
  const StackRequest& request = job.request;

  const std::scoped_lock lock(mutex_);
  if (closed_) throw *closed_;
  if (std::ssize(tickets_) >= limits_.requests) {
    base::fail(ErrorCode::kOutOfMemory, "{} requests wait already; try again later",
               limits_.requests);
  }
  if (waiting_steps_ + steps > limits_.waiting_steps) {
    base::fail(ErrorCode::kOutOfMemory,
               "{} steps wait already, and {} more would exceed {}; try again later",
               waiting_steps_, steps, limits_.waiting_steps);
  }
  Sequences made;
  const Place place = place_of(request, made);
  job.ticket = last_ticket_ + 1;
  tickets_.emplace(job.ticket, &job);
  if (place->list == &made && place->name != 0) {
    try {
      sequences_.emplace(place->name, place);
    } catch (...) {
      tickets_.erase(job.ticket);
      throw;
    }
  }
  // Nothing throws from here on.
  if (place->jobs.empty() && place->list != &busy_) move_to(ready_, place);
  place->is_open = !request.end;
  place->used = Clock::now();
  place->jobs.splice(place->jobs.end(), jobs);
  waiting_steps_ += steps;
  work_.notify_one();
  return ++last_ticket_;
}

// The executor needs no call: it doesn't wait as long as there are requests.
void StackBatcher::cancel(Ticket ticket) {
  const std::scoped_lock lock(mutex_);
  const auto found = tickets_.find(ticket);
  if (found != tickets_.end()) found->second->cancelled = true;
}

bool StackBatcher::wait(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  return work_.wait_until(lock, until, [this] { return !ready_.empty(); });
}

void StackBatcher::move_to(Sequences& list, Place place) {
  list.splice(list.end(), *place->list, place);
  place->list = &list;
}

void StackBatcher::end_first_job(Sequence& sequence, StackReply::Outcome outcome,
                                 std::optional<Error> error, Jobs& ended) {
  Job& job = sequence.jobs.front();
  if (outcome != StackReply::Outcome::kDone) {
    if (job.given > 0 || job.request.begin || job.request.end) sequence.is_broken = true;
    job.result.answer = {};
  }
  job.result.outcome = outcome;
  job.result.error = std::move(error);
  tickets_.erase(job.ticket);
  waiting_steps_ -= job.steps;
  ended.splice(ended.end(), sequence.jobs, sequence.jobs.begin());
}

void StackBatcher::drop_stale_jobs(Sequence& sequence, Jobs& ended) {
  using Outcome = StackReply::Outcome;
  const Clock::time_point now = Clock::now();
  while (!sequence.jobs.empty()) {
    const Job& job = sequence.jobs.front();
    if (job.cancelled) {
      end_first_job(sequence, Outcome::kCancelled, {}, ended);
    } else if (job.request.deadline <= now) {
      end_first_job(sequence, Outcome::kExpired, {}, ended);
    } else if (sequence.is_broken && !job.request.begin) {
      const Error error(
          ErrorCode::kInvalidArgument,
          fmt::format("sequence {} was broken off by a request that did not run to its end; begin "
                      "it anew",
                      sequence.name));
      end_first_job(sequence, Outcome::kFailed, error, ended);
    } else {
      return;
    }
  }
}

void StackBatcher::file(Place place) {
  if (!place->jobs.empty()) {
    move_to(ready_, place);
  } else if (!place->is_open || place->is_broken) {
    forget(place);
  } else {
    move_to(place->slot >= 0 ? idle_ : stored_, place);
  }
}

void StackBatcher::forget(Place place) {
  if (place->slot >= 0) free_slots_.push_back(place->slot);
  sequences_.erase(place->name);
  place->list->erase(place);
}

void StackBatcher::forget_idle(Clock::time_point now) {
  for (Sequences* list : {&idle_, &stored_}) {
    while (!list->empty() && now - list->front().used >= limits_.idle) forget(list->begin());
  }
}

// `victim` is set if its states have to move first. Sequences of ready_ from `searched` on have no
// slot to give.
bool StackBatcher::take_slot(Place place, Place& searched, Sequence*& victim) {
  if (place->slot >= 0) return true;
  if (!free_slots_.empty()) {
    place->slot = free_slots_.back();
    free_slots_.pop_back();
    return true;
  }
  if (!idle_.empty()) {
    victim = &idle_.front();
    move_to(busy_, idle_.begin());
  }
  while (victim == nullptr) {
    if (searched == std::next(place)) return false;
    --searched;
    if (searched->slot >= 0) victim = &*searched;
  }
  place->slot = std::exchange(victim->slot, -1);
  return true;
}

Piece StackBatcher::next_piece(const Sequence& sequence) const {
  const Job& job = sequence.jobs.front();
  const std::int64_t steps = std::min(job.steps - job.given, runner_.capacity().time);
  Piece piece{.slot = sequence.slot, .first = job.given == 0 && job.request.begin, .steps = steps};
  const auto part = [&](const auto& all, std::int64_t width) {
    return std::span(all).subspan(static_cast<std::size_t>(job.given * width),
                                  static_cast<std::size_t>(steps * width));
  };
  if (runner_.features() == 0) {
    piece.tokens = part(job.request.tokens, 1);
  } else {
    piece.frames = part(job.request.frames, runner_.features());
  }
  return piece;
}

void StackBatcher::choose(std::vector<Chosen>& chosen, Jobs& ended) {
  const std::int64_t rows = runner_.capacity().rows;
  const std::scoped_lock lock(mutex_);
  chosen.reserve(static_cast<std::size_t>(std::min(rows, std::ssize(ready_))));
  for (auto next = ready_.begin(); next != ready_.end();) {
    const Place place = next++;
    drop_stale_jobs(*place, ended);
    if (place->jobs.empty()) file(place);
  }
  // No slot becomes free below, so nothing from `searched` on can get one in this round.
  Place searched = ready_.end();
  for (auto next = ready_.begin(); next != searched && std::ssize(chosen) < rows;) {
    const Place place = next++;
    Sequence* victim = nullptr;
    if (!take_slot(place, searched, victim)) continue;
    chosen.push_back({&*place, &place->jobs.front(), next_piece(*place), victim});
    move_to(busy_, place);
  }
}

void StackBatcher::move_states(const Context& context, Chosen& one) {
  if (one.victim != nullptr) {
    Sequence& victim = *one.victim;
    if (!victim.is_kept && !victim.is_broken) {
      victim.kept = runner_.state(context, one.piece.slot);
      victim.is_kept = true;
    }
    one.victim = nullptr;
  }
  Sequence& sequence = *one.sequence;
  if (!sequence.is_kept) return;
  if (!one.piece.first) runner_.set_state(context, one.piece.slot, sequence.kept);
  sequence.is_kept = false;
  sequence.kept = {};
}

void StackBatcher::run_pieces(const Context& context, std::vector<Chosen>& chosen) {
  const std::optional<Error> error = error_of([&] {
    std::vector<Piece> pieces;
    for (const Chosen& one : chosen) {
      if (!one.error) pieces.push_back(one.piece);
    }
    if (pieces.empty()) return;
    const std::vector<PieceAnswer> answers = runner_.run(context, pieces);
    SLUICE_ASSERT(answers.size() == pieces.size());
    auto answer = answers.begin();
    for (Chosen& one : chosen) {
      if (!one.error) one.job->result.answer.append(*answer++);
    }
  });
  for (Chosen& one : chosen) {
    if (one.error) continue;
    // After a failed run the states in the slot are undefined.
    one.sequence->is_broken = error.has_value();
    one.error = error;
  }
}

void StackBatcher::settle(std::vector<Chosen>& chosen, Jobs& ended) {
  using Outcome = StackReply::Outcome;
  const std::scoped_lock lock(mutex_);
  for (Chosen& one : chosen) {
    Sequence& sequence = *one.sequence;
    sequence.used = Clock::now();
    // The states of the victim are still in its slot.
    if (one.victim != nullptr) one.victim->slot = std::exchange(sequence.slot, -1);
    if (one.error) {
      end_first_job(sequence, Outcome::kFailed, one.error, ended);
      continue;
    }
    one.job->given += one.piece.steps;
    if (one.job->given == one.job->steps) end_first_job(sequence, Outcome::kDone, {}, ended);
  }
  while (!busy_.empty()) file(busy_.begin());
}

std::int64_t StackBatcher::run(const Context& context) {
  Jobs ended;
  std::vector<Chosen> chosen;
  std::optional<Error> thrown = error_of([&] { choose(chosen, ended); });
  // Only this thread changes the slots and states of sequences that are busy or ready, so it needs
  // no lock while the device works.
  for (Chosen& one : chosen) {
    one.error = thrown ? thrown : error_of([&] { move_states(context, one); });
  }
  run_pieces(context, chosen);
  settle(chosen, ended);
  deliver(ended);
  const auto is_lost = [](const Chosen& one) {
    return one.error && one.error->code() == ErrorCode::kDeviceLost;
  };
  if (const auto lost = std::ranges::find_if(chosen, is_lost); lost != chosen.end()) {
    thrown = lost->error;
    close(*thrown);
  }
  if (thrown) throw *thrown;
  return std::ssize(chosen);
}

void StackBatcher::close(const Error& error) {
  Jobs ended;
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    closed_ = error;
    for (; !ready_.empty(); forget(ready_.begin())) {
      Sequence& sequence = ready_.front();
      while (!sequence.jobs.empty()) {
        end_first_job(sequence, StackReply::Outcome::kFailed, error, ended);
      }
    }
    for (Sequences* list : {&idle_, &stored_}) {
      while (!list->empty()) forget(list->begin());
    }
  }
  deliver(ended);
}

}  // namespace sluice::serving
