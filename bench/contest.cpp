#include "bench/contest.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <sstream>

#include "base/largest.h"
#include "bench/reference.h"
#include "bench/statistics.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

constexpr profiling::StepRange kProfiledTurns{1, 3};
constexpr std::int64_t kShortSteps = 32;

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> list;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) list.push_back(name);
  return list;
}

// The implementation of that name, captured or not; null if the device has none.
const recurrent::Candidate* find_candidate(const runtime::Device& device, std::string_view name) {
  if (name.ends_with(kCaptured)) name.remove_suffix(kCaptured.size());
  for (const recurrent::Candidate& candidate : recurrent::candidates(device)) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

bool is_peer(const runtime::Device& device, std::string_view implementation) {
  const recurrent::Candidate* candidate = find_candidate(device, implementation);
  return candidate != nullptr && candidate->peer;
}

// Bytes of the device that a shape takes with the implementation that is chosen by itself.
std::size_t bytes_of(const runtime::Context& context, const BenchShape& shape, Pass pass) {
  const auto choice =
      recurrent::make_plan(context, shape.descriptor(pass == Pass::kForwardBackward));
  const recurrent::Plan& plan = *choice.plan;
  return SharedTensors::bytes(context, shape, pass) + plan.packed_bytes() + plan.workspace_bytes() +
         plan.reserve_bytes();
}

// Before numbers for it are drawn on the host, which takes longer and more.
void require_memory(const runtime::Context& context, const BenchShape& shape, Pass pass) {
  const std::size_t free = context.device().free_bytes(), needed = bytes_of(context, shape, pass);
  if (needed <= free) return;
  BenchShape smaller = shape;
  const std::int64_t batch = base::largest_that_fits(shape.batch, [&](std::int64_t rows) {
    smaller.batch = rows;
    return bytes_of(context, smaller, pass) <= free;
  });
  base::fail(ErrorCode::kOutOfMemory, "shape {} takes {} MiB for {}, and {} has {} MiB free; {}",
             shape.name, needed >> 20, name_of(pass), context.device().name(), free >> 20,
             batch == 0 ? "leave it out" : fmt::format("batch={} would fit", batch));
}

runtime::Context make_context(runtime::Device& device, const BenchShape& shape) {
  runtime::Context context(device);
  context.set_precision({shape.dtype, shape.tf32, shape.int8});
  return context;
}

HostData drawn(const runtime::Context& context, const BenchShape& shape, Pass pass) {
  require_memory(context, shape, pass);
  return HostData(shape);
}

void warm_up(Runner& runner) {
  for (int i = 0; i < 2; ++i) runner.run();
}

}  // namespace

Contest::Contest(const RecurrentBenchOptions& options, const BenchShape& shape, Pass pass,
                 profiling::Session& profile)
    : options_(options),
      profile_(profile),
      shape_(shape),
      pass_(pass),
      device_(runtime::open_device(shape.device)),
      context_(make_context(*device_, shape)),
      data_(drawn(context_, shape, pass)),
      tensors_(context_, shape, data_, pass, options.most_copies) {
  // Then it does so only where a tool watches, which is to see the timed turns.
  if (!options_.profile.is_asked_for()) profile_.attach(context_, kProfiledTurns);
}

Contest::~Contest() { profile_.detach(); }

bool Contest::asks_oracle() const {
  if (options_.error != ErrorCheck::kAuto) return options_.error == ErrorCheck::kOn;
  return flops() <= options_.oracle_flops;
}

double Contest::flops() const { return shape_.forward_flops() * (pass_ == Pass::kForward ? 1 : 3); }

void Contest::enter(std::ostream& out) {
  const auto tell = [&](std::string_view name, const std::optional<std::string>& reason) {
    if (!reason) return;
    out << fmt::format("# {} {}: {} declines: {}\n", shape_.name, name_of(pass_), name, *reason);
  };
  if (options_.implementations != "all") {
    const std::vector<std::string> names = split_names(options_.implementations);
    base::WatchedItems watched = watch("trying implementations", std::ssize(names));
    for (const std::string& name : names) {
      if (options_.skip_declined) {
        tell(name, enter(name));
      } else {
        add(Runner(context_, shape_, pass_, name, tensors_));
      }
      watched.one_done();
    }
    return;
  }
  const auto candidates = recurrent::candidates(*device_);
  base::WatchedItems watched = watch("trying implementations", std::ssize(candidates));
  for (const recurrent::Candidate& candidate : candidates) {
    const std::string name(candidate.name);
    std::optional<std::string> reason = enter(name);
    if (!reason && context_.stream().can_capture() && !candidate.replays) {
      reason = enter(name + std::string(kCaptured));
    }
    tell(name, reason);
    watched.one_done();
  }
}

// Milliseconds of a run of the shape's first steps, which tells a hopeless peer before a whole run
// of it takes seconds.
double Contest::short_run(const std::string& peer) {
  BenchShape shape = shape_;
  shape.time = kShortSteps;
  if (!short_tensors_) {
    short_tensors_ = std::make_unique<SharedTensors>(context_, shape, HostData(shape), pass_, 1);
  }
  return Runner(context_, shape, pass_, peer, *short_tensors_).run();
}

/// The result of a peer whose run took `milliseconds`.
std::optional<std::string> Contest::hopeless(double milliseconds) {
  if (fastest_peer_ && milliseconds > options_.hopeless * *fastest_peer_) {
    return fmt::format("it takes more than {} times as long as the fastest peer",
                       options_.hopeless);
  }
  fastest_peer_ = std::min(milliseconds, fastest_peer_.value_or(milliseconds));
  return std::nullopt;
}

/// Why it can't take part. Some only show when run (lengths, too little memory), which a descriptor
/// does not tell.
std::optional<std::string> Contest::enter(const std::string& name) {
  if (const recurrent::Candidate* candidate = find_candidate(*device_, name)) {
    const auto descriptor = shape_.descriptor(pass_ == Pass::kForwardBackward);
    if (auto reason = recurrent::refusal(*candidate, descriptor, *device_)) return reason;
  }
  try {
    const bool weighed = std::isfinite(options_.hopeless) && is_peer(*device_, name);
    const bool in_short = shape_.time > 2 * kShortSteps;
    if (weighed && in_short) {
      if (auto reason = hopeless(short_run(name))) return reason;
    }
    Runner runner(context_, shape_, pass_, name, tensors_);
    const double milliseconds = runner.run();
    if (weighed && !in_short) {
      if (auto reason = hopeless(milliseconds)) return reason;
    }
    add(std::move(runner));
  } catch (const Error& error) {
    const bool cannot =
        error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kOutOfMemory;
    // A library's failure is its own.
    if (!cannot && !is_peer(*device_, name)) throw;
    return error.what();
  }
  return std::nullopt;
}

// "auto" may be one that is named as well.
void Contest::add(Runner runner) {
  for (const Runner& other : runners_) {
    if (other.implementation() == runner.implementation()) return;
  }
  runners_.push_back(std::move(runner));
}

void Contest::take_turns() {
  times_.assign(runners_.size(), {});
  double spent = 0;
  for (Runner& runner : runners_) {
    const double first = runner.run();
    // A long run warms up enough.
    if (spent + first < options_.turns_milliseconds / 4) runner.run();
    spent += first;
  }
  spent = 0;
  base::WatchedItems watched = watch("timed turns", options_.repeats * std::ssize(runners_));
  for (std::int64_t turn = 0; turn < options_.repeats; ++turn) {
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      times_[i].push_back(runners_[i].run());
      spent += times_[i].back();
      watched.one_done();
    }
    if (turn > 0 && spent > options_.turns_milliseconds) break;
  }
}

base::WatchedItems Contest::watch(std::string_view doing, std::int64_t items) const {
  return {options_.watch,
          fmt::format("{} {} on {}: {}", shape_.name, name_of(pass_), device_->name(), doing),
          items};
}

// By runners of their own: who queued what is only known of a graph that was captured while it was
// watched. One at a time, in the memory of those that were timed.
void Contest::profile_turns(const std::vector<std::string>& implementations) {
  if (!options_.profile.is_asked_for()) return;
  runners_.clear();
  profile_.attach(context_, kProfiledTurns);
  const std::int64_t named = options_.profile.last_step;
  const std::int64_t last = named > 0 ? named : kProfiledTurns.last;
  for (const std::string& implementation : implementations) {
    Runner runner(context_, shape_, pass_, implementation, tensors_);
    runner.prepare();
    warm_up(runner);
    const std::string name =
        fmt::format("{} {} {} turn", shape_.name, name_of(pass_), implementation);
    for (std::int64_t turn = 1; turn <= last; ++turn) runner.run_step(name, turn);
  }
  profile_.detach();
}

std::vector<BenchResult> Contest::run(std::ostream& out) {
  enter(out);
  std::optional<HostResults> expected;
  std::string expected_of;
  if (!runners_.empty() && asks_oracle()) {
    expected = oracle_results(shape_, data_, pass_);
    expected_of = "oracle";
  } else if (!runners_.empty() && !options_.reference.empty()) {
    expected = float32_results(context_, shape_, data_, pass_, options_.reference);
    expected_of = options_.reference + " in float32";
  }
  std::vector<std::optional<double>> errors;
  for (Runner& runner : runners_) {
    errors.push_back(expected ? std::optional(worst_error(runner.results(), *expected))
                              : std::nullopt);
  }
  take_turns();
  std::vector<std::string> implementations;
  for (const Runner& runner : runners_) implementations.push_back(runner.implementation());
  profile_turns(implementations);

  std::vector<bool> peers;
  for (const std::string& name : implementations) peers.push_back(is_peer(*device_, name));
  const bool has_peer = std::ranges::find(peers, true) != peers.end();
  const std::vector<double> best_peer = best_of(times_, peers);
  const recurrent::Choice chosen =
      recurrent::make_plan(context_, shape_.descriptor(pass_ == Pass::kForwardBackward));
  std::vector<BenchResult> results;
  for (std::size_t i = 0; i < implementations.size(); ++i) {
    BenchResult result;
    result.shape = shape_;
    result.shape.device = device_->name();
    result.pass = pass_;
    result.implementation = implementations[i];
    result.device_model = device_->model();
    result.peer = peers[i];
    result.is_default = result.implementation == chosen.plan->implementation();
    result.milliseconds = median(times_[i]);
    result.gflops = flops() / result.milliseconds * 1e-6;
    result.error = errors[i];
    if (result.error) result.error_against = expected_of;
    if (has_peer) result.speedup_over_peer = median_ratio(best_peer, times_[i]);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace sluice::bench
