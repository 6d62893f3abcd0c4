#include "bench/sweep/sweep.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <ostream>
#include <random>
#include <sstream>

#include "bench/contest.h"
#include "bench/output_file.h"

namespace sluice::bench::sweep {

namespace recurrent = kernels::recurrent;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kGpuGflop = 2000, kCpuGflop = 2;
constexpr double kOracleFlops = 2e8;
/// Numbers of x and y, which the host draws and reads back in float64.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 25;
constexpr double kTurnsMilliseconds = 60, kHopeless = 4;
constexpr std::size_t kCopies = 2;

/// What a device has to be measured against.
struct Peers {
  std::vector<std::string> names;  ///< "+graph" where the device captures
  std::string reference;           ///< runs float32 of every cell; empty: none
};

Peers peers_of(const std::string& name, const std::string& wanted) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(name);
  const auto is_wanted = [&](std::string_view peer) {
    return wanted == "all" ||
           ("," + wanted + ",").find("," + std::string(peer) + ",") != std::string::npos;
  };
  const bool captures = device->default_stream().can_capture();
  Peers peers;
  for (const recurrent::Candidate& candidate : recurrent::candidates(*device)) {
    if (!candidate.peer) continue;
    if (peers.reference.empty()) peers.reference = candidate.name;
    if (!is_wanted(candidate.name)) continue;
    peers.names.push_back(std::string(candidate.name) +
                          std::string(captures ? kCaptured : std::string_view()));
  }
  SLUICE_CHECK(wanted == "all" || !peers.names.empty(), "{} has no peer '{}'", name, wanted);
  return peers;
}

double flops_of(const DrawnShape& drawn) {
  return drawn.shape.forward_flops() * (drawn.pass == Pass::kForward ? 1 : 3);
}

std::string too_large(const DrawnShape& drawn, double most_gflop) {
  const BenchShape& shape = drawn.shape;
  const double gflop = flops_of(drawn) * 1e-9;
  if (gflop > most_gflop) return fmt::format("{:.0f} GFLOP, more than {:g}", gflop, most_gflop);
  const std::int64_t numbers =
      shape.time * shape.batch * (shape.input + shape.descriptor(false).y_width());
  if (numbers > kMostNumbers) {
    return fmt::format("{} M numbers go in and out, more than {}", numbers >> 20,
                       kMostNumbers >> 20);
  }
  return "";
}

/// The reason of the first that declined, of lines "# NAME PASS: PEER declines: REASON".
std::string first_reason(const std::string& said) {
  constexpr std::string_view kDeclines = " declines: ";
  const std::size_t place = said.find(kDeclines);
  if (place == std::string::npos) return "there is none";
  const std::size_t start = place + kDeclines.size();
  return said.substr(start, said.find('\n', start) - start);
}

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options)
      : options_(options),
        on_gpu_(options.device.starts_with("cuda")),
        most_gflop_(options.most_gflop.value_or(on_gpu_ ? kGpuGflop : kCpuGflop)),
        peers_(peers_of(options.device, options.peers)),
        profile_(ProfileRequest{}, profiling::print, profiling::Session::Turns::kMany) {
    bench_.skip_declined = true;
    bench_.repeats = options.repeats;
    bench_.oracle_flops = kOracleFlops;
    bench_.turns_milliseconds = kTurnsMilliseconds;
    bench_.hopeless = kHopeless;
    bench_.most_copies = kCopies;
  }

  Outcome measure(DrawnShape drawn) {
    Outcome outcome;
    outcome.drawn = std::move(drawn);
    outcome.skipped = too_large(outcome.drawn, most_gflop_);
    if (!outcome.skipped.empty()) return outcome;
    try {
      measure(outcome);
    } catch (const Error& error) {
      const bool cannot =
          error.code() == ErrorCode::kOutOfMemory || error.code() == ErrorCode::kUnsupported;
      (cannot ? outcome.skipped : outcome.failed) = error.what();
    }
    return outcome;
  }

 private:
  std::string run(const BenchShape& shape, Pass pass, const std::string& implementations,
                  ErrorCheck error, std::vector<BenchResult>& results) {
    bench_.implementations = implementations;
    bench_.error = error;
    // The peer knows no lengths.
    bench_.reference = shape.uniform_lengths ? "" : peers_.reference;
    std::ostringstream said;
    for (BenchResult& result : Contest(bench_, shape, pass, profile_).run(said)) {
      results.push_back(std::move(result));
    }
    return said.str();
  }

  void measure(Outcome& outcome) {
    const BenchShape& shape = outcome.drawn.shape;
    const Pass pass = outcome.drawn.pass;
    std::string said;
    const std::string peers = fmt::format("{}", fmt::join(peers_.names, ","));
    if (shape.uniform_lengths) {
      run(shape, pass, "auto", ErrorCheck::kAuto, outcome.results);
      BenchShape full = shape;
      full.uniform_lengths = false;
      if (!peers.empty()) said = run(full, pass, peers, ErrorCheck::kOff, outcome.results);
    } else {
      const std::string all = peers.empty() ? "auto" : "auto," + peers;
      said = run(shape, pass, all, ErrorCheck::kAuto, outcome.results);
    }
    for (const BenchResult& result : outcome.results) {
      std::optional<BenchResult>& best = result.peer ? outcome.peer : outcome.own;
      if (!best || result.milliseconds < best->milliseconds) best = result;
    }
    if (!outcome.peer) outcome.no_peer = first_reason(said);
  }

  const SweepOptions& options_;
  const bool on_gpu_;
  const double most_gflop_;
  const Peers peers_;
  RecurrentBenchOptions bench_;
  profiling::Session profile_;
};

constexpr const char* kRow = "{:<14} {:>9} {:<20} {:>9} {:<25} {:>6} {:>8}  {}\n";

void print(std::ostream& out, const Outcome& outcome) {
  const BenchShape& shape = outcome.drawn.shape;
  const std::string line = shape_line(shape).substr(shape.name.size() + 1);
  if (!outcome.skipped.empty()) {
    out << fmt::format("{:<14} skipped: {}  {}\n", shape.name, outcome.skipped, line);
  } else if (!outcome.failed.empty()) {
    out << fmt::format("{:<14} failed: {}  {}\n", shape.name, outcome.failed, line);
  } else if (outcome.own) {
    const BenchResult& own = *outcome.own;
    const std::optional<double> ratio = outcome.ratio();
    out << fmt::format(kRow, shape.name, fmt::format("{:.4f}", own.milliseconds),
                       own.implementation,
                       outcome.peer ? fmt::format("{:.4f}", outcome.peer->milliseconds) : "-",
                       outcome.peer ? outcome.peer->implementation : "-",
                       ratio ? fmt::format("{:.2f}x", *ratio) : "-",
                       own.error ? fmt::format("{:.1e}", *own.error) : "-", line);
  }
  out << std::flush;
}

/// Geometric mean, and how many.
class Mean {
 public:
  void add(double ratio) {
    logs_ += std::log(ratio);
    lowest_ = std::min(lowest_, ratio);
    ++count_;
    slower_ += ratio < 1 ? 1 : 0;
  }
  std::string text() const {
    return fmt::format("{:.2f}x of {} (lowest {:.2f}x, {} below 1)",
                       std::exp(logs_ / static_cast<double>(count_)), count_, lowest_, slower_);
  }

 private:
  double logs_ = 0, lowest_ = std::numeric_limits<double>::infinity();
  std::int64_t count_ = 0, slower_ = 0;
};

void print_means(std::ostream& out, const std::vector<Outcome>& outcomes) {
  std::map<std::string, Mean> means;
  for (const Outcome& outcome : outcomes) {
    const std::optional<double> ratio = outcome.ratio();
    if (!ratio) continue;
    const BenchShape& shape = outcome.drawn.shape;
    if (shape.uniform_lengths) {
      means["rows of different lengths, the peer on full ones"].add(*ratio);
      continue;
    }
    means[" all"].add(*ratio);
    means[std::string(shape.dtype_name())].add(*ratio);
    means[std::string(recurrent::name_of(shape.cell))].add(*ratio);
    means[std::string(name_of(outcome.drawn.pass))].add(*ratio);
    if (!shape.projections.empty()) means["with projection"].add(*ratio);
  }
  out << "\nTime of the fastest peer / ours, geometric means:\n";
  if (means.empty()) out << "  no shape has both\n";
  for (const auto& [name, mean] : means) out << fmt::format("  {:<12} {}\n", name, mean.text());
}

template <typename Wanted, typename Text>
void print_list(std::ostream& out, const std::vector<Outcome>& outcomes, std::string_view title,
                const Wanted& is_wanted, const Text& text) {
  std::vector<const Outcome*> list;
  for (const Outcome& outcome : outcomes) {
    if (is_wanted(outcome)) list.push_back(&outcome);
  }
  out << fmt::format("\n{}: {}\n", title, list.size());
  std::ranges::stable_sort(list, {},
                           [](const Outcome* outcome) { return outcome->ratio().value_or(0); });
  for (const Outcome* outcome : list) {
    out << fmt::format("  {:<24} {}\n", text(*outcome), shape_line(outcome->drawn.shape));
  }
}

void print_summary(std::ostream& out, const std::vector<Outcome>& outcomes) {
  print_list(
      out, outcomes, "Slower than the fastest peer",
      [](const Outcome& outcome) { return outcome.ratio().value_or(1) < 1; },
      [](const Outcome& outcome) {
        return fmt::format("{:.2f}x {}", *outcome.ratio(), outcome.own->implementation);
      });
  print_list(out, outcomes, "Less exact than the peer", std::mem_fn(&Outcome::is_inexact),
             [](const Outcome& outcome) {
               return fmt::format("{:.1e} against {}", *outcome.own->error,
                                  outcome.own->error_against);
             });
  std::map<std::string, std::int64_t> checked;
  for (const Outcome& outcome : outcomes) {
    if (outcome.own) ++checked[outcome.own->error ? outcome.own->error_against : "nothing"];
  }
  out << "\nErrors were held against:";
  for (const auto& [name, count] : checked) out << fmt::format(" {} ({})", name, count);
  out << '\n';
  print_list(
      out, outcomes, "Without a peer", [](const Outcome& o) { return !o.no_peer.empty(); },
      [](const Outcome& outcome) { return outcome.no_peer; });
  print_list(
      out, outcomes, "Failed", [](const Outcome& o) { return !o.failed.empty(); },
      [](const Outcome& outcome) { return outcome.failed; });
  print_list(
      out, outcomes, "Skipped", [](const Outcome& o) { return !o.skipped.empty(); },
      [](const Outcome& outcome) { return outcome.skipped; });
  print_means(out, outcomes);
}

void require_sound(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    if (!outcome.failed.empty()) {
      base::fail(ErrorCode::kDevice, "{}: {}", shape_line(outcome.drawn.shape), outcome.failed);
    }
    if (!outcome.own || !outcome.own->error || std::isfinite(*outcome.own->error)) continue;
    base::fail(ErrorCode::kInternal, "{} gives numbers that are not finite on {}",
               outcome.own->implementation, shape_line(outcome.drawn.shape));
  }
}

std::uint64_t new_seed() { return std::random_device()() % 1'000'000; }

}  // namespace

std::optional<double> Outcome::ratio() const {
  if (!own || !peer) return std::nullopt;
  return peer->milliseconds / own->milliseconds;
}

bool Outcome::is_inexact() const {
  if (!own || !own->error) return false;
  if (!std::isfinite(*own->error)) return true;
  // Half a unit in the last place of storage or product, times what rounding adds up to in a
  // thousand steps; in float32 sums matter more than storage.
  const std::string_view dtype = drawn.shape.dtype_name();
  const double rounding = dtype == "bfloat16"  ? 16 * 0x1p-9
                          : dtype == "float32" ? 0x1p-15
                                               : 16 * 0x1p-11;
  const double of_peer = peer && peer->error ? *peer->error : 0;
  return *own->error > std::max(4 * of_peer, rounding);
}

std::vector<Outcome> run_sweep(const SweepOptions& options, std::ostream& out) {
  SLUICE_CHECK(options.count >= 1, "count is {}; it must be at least 1", options.count);
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  if (!options.json.empty()) require_writable(options.json);
  Sweep sweep(options);
  const std::uint64_t seed = options.seed.value_or(new_seed());
  out << fmt::format("seed {}: {} shapes on {}\n", seed, options.count, options.device)
      << fmt::format(kRow, "shape", "ms", "Sluice", "ms", "fastest peer", "ratio", "error", "");
  const auto start = Clock::now();
  std::vector<Outcome> outcomes;
  std::vector<BenchResult> results;
  for (std::int64_t index = 1; index <= options.count; ++index) {
    const std::chrono::duration<double> passed = Clock::now() - start;
    if (passed.count() > options.seconds) {
      out << fmt::format("stopped after {:.0f} s: {} shapes of {} were drawn\n", passed.count(),
                         index - 1, options.count);
      break;
    }
    DrawnShape drawn = draw_shape(seed, index, options.device);
    if (!options.dtype.empty()) drawn.shape.set_dtype(options.dtype);
    outcomes.push_back(sweep.measure(std::move(drawn)));
    print(out, outcomes.back());
    for (const BenchResult& result : outcomes.back().results) results.push_back(result);
    if (!options.json.empty() && !results.empty()) write_file(options.json, to_json(results));
    // A device that has failed may fail for good.
    const bool again = outcomes.size() > 1 && !(outcomes.end() - 2)->failed.empty();
    if (!outcomes.back().failed.empty() && again) break;
  }
  print_summary(out, outcomes);
  require_sound(outcomes);
  return outcomes;
}

}  // namespace sluice::bench::sweep
