#include "serving/stack_batcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace sluice::serving {
namespace {

void append(PieceAnswer& answer, PieceAnswer more) {
  answer.values.insert(answer.values.end(), more.values.begin(), more.values.end());
  answer.labels.insert(answer.labels.end(), more.labels.begin(), more.labels.end());
}

}  // namespace

StackBatcher::StackBatcher(PieceRunner& runner, const Limits& limits)
    : runner_(runner), limits_(limits) {
  for (auto slot = static_cast<std::int32_t>(runner.capacity().slots); slot > 0; --slot) {
    free_slots_.push_back(slot - 1);
  }
}

std::int64_t StackBatcher::requests() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(tickets_);
}

std::int64_t StackBatcher::sequences() const {
  const std::scoped_lock lock(mutex_);
  return std::ssize(sequences_);
}

// The steps of a request.
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

StackBatcher::Ticket StackBatcher::submit(StackRequest request) {
  const std::int64_t steps = check(request);
  const std::scoped_lock lock(mutex_);
  if (std::ssize(tickets_) >= limits_.requests) {
    base::fail(ErrorCode::kOutOfMemory, "{} requests wait already; try again later",
               limits_.requests);
  }
  const Ticket ticket = last_ticket_ + 1;
  const bool is_alone = request.sequence == 0;
  if (is_alone) request.begin = request.end = true;
  const Key key{is_alone ? ticket : request.sequence, is_alone};
  auto found = sequences_.find(key);
  if (!request.begin) {
    SLUICE_CHECK(found != sequences_.end() && found->second.is_open,
                 "there is no sequence {} to go on with; begin it with its first request",
                 request.sequence);
  }
  if (found == sequences_.end()) {
    forget_idle(Clock::now());
    if (std::ssize(sequences_) >= limits_.sequences) {
      base::fail(ErrorCode::kOutOfMemory, "{} sequences are open already; end some, or try later",
                 limits_.sequences);
    }
    found = sequences_.try_emplace(key).first;
  }
  Sequence& sequence = found->second;
  if (sequence.jobs.empty()) ready_.push_back(key);
  sequence.is_open = !request.end;
  sequence.used = Clock::now();
  sequence.jobs.push_back({.ticket = ticket, .request = std::move(request), .steps = steps});
  last_ticket_ = ticket;
  tickets_.emplace(ticket, key);
  work_.notify_one();
  return ticket;
}

void StackBatcher::cancel(Ticket ticket) {
  const std::scoped_lock lock(mutex_);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return;
  for (Job& job : sequences_.at(found->second).jobs) job.cancelled |= job.ticket == ticket;
  work_.notify_one();
}

bool StackBatcher::wait(Clock::time_point until) {
  std::unique_lock lock(mutex_);
  return work_.wait_until(lock, until, [this] { return !ready_.empty(); });
}

void StackBatcher::end_first_job(Sequence& sequence, StackReply reply, std::vector<Ended>& ended) {
  Job& job = sequence.jobs.front();
  const bool is_done = reply.outcome == StackReply::Outcome::kDone;
  if (!is_done && (job.given > 0 || job.request.begin || job.request.end)) {
    sequence.is_broken = true;
  }
  tickets_.erase(job.ticket);
  ended.push_back({std::move(job.request.reply), std::move(reply)});
  sequence.jobs.pop_front();
}

void StackBatcher::drop_stale_jobs(Sequence& sequence, std::vector<Ended>& ended) {
  using Outcome = StackReply::Outcome;
  const Clock::time_point now = Clock::now();
  while (!sequence.jobs.empty()) {
    const Job& job = sequence.jobs.front();
    if (job.cancelled) {
      end_first_job(sequence, {.outcome = Outcome::kCancelled}, ended);
    } else if (job.request.deadline <= now) {
      end_first_job(sequence, {.outcome = Outcome::kExpired}, ended);
    } else if (sequence.is_broken && !job.request.begin) {
      const Error error(
          ErrorCode::kInvalidArgument,
          fmt::format("sequence {} was broken off by a request that did not run to its end; begin "
                      "it anew",
                      job.request.sequence));
      end_first_job(sequence, {.outcome = Outcome::kFailed, .error = error}, ended);
    } else {
      return;
    }
  }
}

// A sequence without jobs that nothing can go on with.
bool StackBatcher::forget_if_over(const Key& key, Sequence& sequence) {
  if (!sequence.jobs.empty() || (sequence.is_open && !sequence.is_broken)) return false;
  if (sequence.slot >= 0) free_slots_.push_back(sequence.slot);
  sequences_.erase(key);
  return true;
}

void StackBatcher::forget_idle(Clock::time_point now) {
  std::erase_if(sequences_, [&](const auto& entry) {
    const Sequence& sequence = entry.second;
    if (!sequence.jobs.empty() || now - sequence.used < limits_.idle) return false;
    if (sequence.slot >= 0) free_slots_.push_back(sequence.slot);
    return true;
  });
}

// Where there is none, the sequence that had nothing to do for longest gives its own.
bool StackBatcher::take_slot(const Context& context, Sequence& sequence) {
  if (sequence.slot >= 0) return true;
  if (free_slots_.empty()) {
    Sequence* oldest = nullptr;
    for (auto& [key, other] : sequences_) {
      if (other.slot < 0 || other.runs || !other.jobs.empty()) continue;
      if (oldest == nullptr || other.used < oldest->used) oldest = &other;
    }
    if (oldest == nullptr) return false;
    oldest->kept = runner_.state(context, oldest->slot);
    oldest->is_kept = true;
    free_slots_.push_back(std::exchange(oldest->slot, -1));
  }
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
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

std::vector<StackBatcher::Chosen> StackBatcher::choose(const Context& context,
                                                       std::vector<Ended>& ended) {
  std::vector<Chosen> chosen;
  std::deque<Key> waiting;
  for (; !ready_.empty(); ready_.pop_front()) {
    const Key key = ready_.front();
    Sequence& sequence = sequences_.at(key);
    drop_stale_jobs(sequence, ended);
    if (sequence.jobs.empty()) {
      forget_if_over(key, sequence);
      continue;
    }
    if (std::ssize(chosen) == runner_.capacity().rows || !take_slot(context, sequence)) {
      waiting.push_back(key);
      continue;
    }
    sequence.runs = true;
    chosen.push_back({key, &sequence, next_piece(sequence)});
  }
  ready_ = std::move(waiting);
  return chosen;
}

void StackBatcher::leave(const std::vector<Chosen>& chosen) {
  for (const Chosen& one : chosen) {
    one.sequence->runs = false;
    one.sequence->used = Clock::now();
    if (!one.sequence->jobs.empty()) {
      ready_.push_back(one.key);
    } else {
      forget_if_over(one.key, *one.sequence);
    }
  }
}

void StackBatcher::settle(const std::vector<Chosen>& chosen, std::vector<PieceAnswer> answers,
                          std::vector<Ended>& ended) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Sequence& sequence = *chosen[i].sequence;
    Job& job = sequence.jobs.front();
    if (chosen[i].piece.first) sequence.is_broken = false;
    append(job.answer, std::move(answers[i]));
    job.given += chosen[i].piece.steps;
    if (job.given < job.steps) continue;
    end_first_job(sequence, {.answer = std::move(job.answer)}, ended);
  }
}

void StackBatcher::fail(const std::vector<Chosen>& chosen, const Error& error,
                        std::vector<Ended>& ended) {
  for (const Chosen& one : chosen) {
    one.sequence->jobs.front().given = 1;  // who knows how far it ran
    end_first_job(*one.sequence, {.outcome = StackReply::Outcome::kFailed, .error = error}, ended);
  }
}

std::int64_t StackBatcher::run(const Context& context) {
  std::vector<Ended> ended;
  std::vector<Chosen> chosen;
  std::optional<Error> lost;
  {
    const std::scoped_lock lock(mutex_);
    chosen = choose(context, ended);
  }
  // Only this thread takes sequences that run away or moves what they hold.
  try {
    std::vector<Piece> pieces;
    for (const Chosen& one : chosen) {
      Sequence& sequence = *one.sequence;
      if (std::exchange(sequence.is_kept, false)) {
        if (!one.piece.first) runner_.set_state(context, sequence.slot, sequence.kept);
        sequence.kept = {};
      }
      pieces.push_back(one.piece);
    }
    std::vector<PieceAnswer> answers = runner_.run(context, pieces);
    const std::scoped_lock lock(mutex_);
    settle(chosen, std::move(answers), ended);
    leave(chosen);
  } catch (const Error& error) {
    const std::scoped_lock lock(mutex_);
    fail(chosen, error, ended);
    leave(chosen);
    if (error.code() == ErrorCode::kDeviceLost) lost = error;
  }
  for (Ended& one : ended) {
    if (one.call) one.call(std::move(one.reply));
  }
  if (lost) throw *lost;
  return std::ssize(chosen);
}

}  // namespace sluice::serving
