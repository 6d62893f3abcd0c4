#include "bench/decode/beam_bench.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/check.h"
#include "bench/decode/beam_search_work.h"
#include "bench/machine.h"
#include "bench/output_file.h"
#include "bench/statistics.h"
#include "profiling/session.h"
#include "runtime/span.h"

namespace sluice::bench::decode {
namespace {

using Found = std::vector<std::vector<decoding::Hypothesis>>;

constexpr int kWarmUp = 3;
constexpr profiling::StepRange kProfiledSearches{1, 3};
constexpr const char* kRow = "{:<16} {:<9} {:>10} {:>12} {:>10} {:>11} {:>36}\n";

/// What the CPU finds in float32.
Found found_on_cpu(const BeamShape& shape) {
  const auto device = runtime::open_device("cpu");
  const runtime::Context context(*device);
  BeamSearchWork work(context, shape);
  work.run();
  return work.found();
}

Agreement agreement_of(const Found& found, const Found& wanted) {
  Agreement agreement;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (std::size_t j = 0; j < wanted[i].size(); ++j) {
      const auto& tokens = found[i].at(j).tokens;
      const auto is_same = [&](const decoding::Hypothesis& one) { return one.tokens == tokens; };
      ++agreement.count;
      agreement.same += is_same(wanted[i][j]) ? 1 : 0;
      agreement.found += std::any_of(wanted[i].begin(), wanted[i].end(), is_same) ? 1 : 0;
      agreement.best += j == 0 && is_same(wanted[i][j]) ? 1 : 0;
    }
    const double want = wanted[i].at(0).score;
    agreement.score =
        std::max(agreement.score, std::abs(found[i].at(0).score - want) / std::abs(want));
  }
  return agreement;
}

double mean_best_score(const Found& found) {
  double sum = 0;
  for (const auto& hypotheses : found) sum += hypotheses.at(0).score;
  return sum / static_cast<double>(found.size());
}

void print(std::ostream& out, const BeamResult& result) {
  const Agreement& agreement = result.agreement;
  const std::string same =
      agreement.count == 0
          ? "-"
          : fmt::format("{} of {}, {}, {} of {}, {:.1e}", agreement.same, agreement.count,
                        agreement.found, agreement.best, result.shape.inputs, agreement.score);
  out << fmt::format(kRow, result.shape.name, result.shape.dtype,
                     fmt::format("{:.3f}", result.milliseconds),
                     fmt::format("{:.0f}", result.tokens_per_second()),
                     mebibytes(result.peak_bytes), fmt::format("{:.4f}", result.score), same)
      << std::flush;
}

/// Searches of one shape.
class Bench {
 public:
  Bench(const BeamShape& shape, const BeamBenchOptions& options, profiling::Session& session,
        std::ostream& progress)
      : shape_(shape),
        options_(options),
        session_(session),
        progress_(progress),
        device_(runtime::open_device(shape.device)),
        context_(*device_) {
    context_.set_precision(runtime::Precision::parse(shape.dtype));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { session_.detach(); }

  BeamResult run() {
    const std::int64_t searches = kWarmUp + options_.repeats;
    progress_ << fmt::format("{}: {} searches in {} on {}", shape_.name, searches, shape_.dtype,
                             device_->name())
              << std::flush;
    device_->reset_memory_peak();
    BeamSearchWork work(context_, shape_);
    std::vector<double> times;
    for (std::int64_t turn = 0; turn < searches; ++turn) {
      const double time = context_.stream().milliseconds_of([&] { work.run(); });
      if (turn == 0)
        progress_ << fmt::format(", the first took {:.3g} s\n", time / 1e3) << std::flush;
      if (turn >= kWarmUp) times.push_back(time);
    }
    const Found found = work.found();
    BeamResult result{.shape = shape_,
                      .device_model = device_->model(),
                      .milliseconds = median(times),
                      .score = mean_best_score(found),
                      .peak_bytes = device_->memory_peak(),
                      .parameters = work.parameters(),
                      .agreement = {}};
    result.shape.device = device_->name();
    if (options_.check) {
      progress_ << shape_.name << ": one search in float32 on the CPU\n" << std::flush;
      result.agreement = agreement_of(found, found_on_cpu(shape_));
    }
    return result;
  }

  void profile() {
    if (!options_.profile.is_asked_for()) return;
    const std::int64_t last = options_.profile.last_step;
    session_.attach(context_, kProfiledSearches);
    BeamSearchWork work(context_, shape_);
    work.run();
    for (std::int64_t search = 1; search <= (last > 0 ? last : kProfiledSearches.last); ++search) {
      runtime::run_step(context_, shape_.name + " search", search, [&] { work.run(); });
    }
    session_.detach();
  }

 private:
  const BeamShape& shape_;
  const BeamBenchOptions& options_;
  profiling::Session& session_;
  std::ostream& progress_;
  std::unique_ptr<runtime::Device> device_;
  runtime::Context context_;
};

}  // namespace

double BeamResult::tokens_per_second() const {
  return static_cast<double>(shape.inputs * shape.beam * shape.steps) / milliseconds * 1e3;
}

std::vector<BeamResult> run_beam_bench(const BeamBenchOptions& options, std::ostream& out,
                                       std::ostream& progress) {
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  const std::vector<BeamShape> shapes = read_shapes(options.shapes, options.dtype, options.device);
  if (!options.json.empty()) require_writable(options.json);
  profiling::Session session(options.profile, profiling::print, profiling::Session::Turns::kMany);
  std::vector<BeamResult> results;
  for (const BeamShape& shape : shapes) {
    Bench bench(shape, options, session, progress);
    if (results.empty()) {
      out << fmt::format(kRow, "shape", "dtype", "ms", "tokens/s", "peak MiB", "best score",
                         "as the CPU, anywhere, best, score")
          << std::flush;
    }
    results.push_back(bench.run());
    print(out, results.back());
    bench.profile();
  }
  session.finish();
  if (!options.json.empty()) write_file(options.json, to_json(results));
  return results;
}

std::string to_json(const std::vector<BeamResult>& results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BeamResult& result : results) {
    const BeamShape& shape = result.shape;
    nlohmann::ordered_json row;
    row["name"] = shape.name;
    row["cell"] = "language_model";
    row["recurrent_cell"] = shape.cell;
    row["vocabulary"] = shape.vocabulary;
    row["embedding"] = shape.embedding;
    row["hidden"] = shape.hidden;
    row["layers"] = shape.layers;
    row["inputs"] = shape.inputs;
    row["beam"] = shape.beam;
    row["steps"] = shape.steps;
    row["dtype"] = shape.dtype;
    row["seed"] = shape.seed;
    row["device"] = shape.device;
    row["device_model"] = result.device_model;
    row["pass"] = "beam search";
    row["implementation"] = "sluice";
    row["peer"] = false;
    row["default"] = true;
    row["milliseconds"] = result.milliseconds;
    row["tokens_per_second"] = result.tokens_per_second();
    row["peak_bytes"] = result.peak_bytes;
    row["parameters"] = result.parameters;
    row["best_score"] = result.score;
    if (result.agreement.count > 0) {
      row["same_as_cpu"] = result.agreement.same;
      row["found_by_cpu"] = result.agreement.found;
      row["best_as_cpu"] = result.agreement.best;
      row["compared_with_cpu"] = result.agreement.count;
      row["score_from_cpu"] = result.agreement.score;
    }
    add_machine(row, shape.device);
    list.push_back(std::move(row));
  }
  return list.dump(1) + "\n";
}

}  // namespace sluice::bench::decode
