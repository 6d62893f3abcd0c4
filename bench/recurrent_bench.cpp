#include "bench/recurrent_bench.h"

#include <map>
#include <ostream>

#include "bench/contest.h"
#include "bench/gemm/gemm_rate.h"
#include "bench/output_file.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

std::vector<Pass> passes_of(const std::string& name) {
  if (name == "all") return {Pass::kForward, Pass::kForwardBackward};
  for (const Pass pass : {Pass::kForward, Pass::kForwardBackward}) {
    if (name == name_of(pass)) return {pass};
  }
  base::fail(ErrorCode::kInvalidArgument, "unknown pass '{}'; use all, forward or forward+backward",
             name);
}

// Asks each device once for each dtype.
class GemmRates {
 public:
  std::optional<double> rate(const runtime::Context& context, const BenchShape& shape,
                             std::ostream& out) {
    const auto [place, is_new] = known_.try_emplace({shape.device, shape.dtype_name()});
    if (is_new) {
      place->second = gemm::measure_gemm_rate(context);
      if (place->second) {
        out << fmt::format("# {} {}: products of {}^3 run at {:.0f} GFLOP/s\n",
                           context.device().name(), shape.dtype_name(), place->second->size,
                           place->second->gflops);
      }
    }
    return place->second ? std::optional(place->second->gflops) : std::nullopt;
  }

 private:
  std::map<std::pair<std::string, std::string_view>, std::optional<gemm::GemmRate>> known_;
};

constexpr const char* kRow = "{:<22} {:<9} {:<17} {:<25} {:>10} {:>9} {:>8} {:>9} {:>8}\n";

std::string share(const BenchResult& result) {
  const std::optional<double> share = result.share_of_gemm();
  return share ? fmt::format("{:.1f}%", 100 * *share) : "-";
}

void print(std::ostream& out, const BenchResult& result) {
  const auto optional = [](const std::optional<double>& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : std::string("-");
  };
  const std::string marked = result.implementation + (result.peer         ? " (peer)"
                                                      : result.is_default ? " *"
                                                                          : "");
  out << fmt::format(kRow, result.shape.name, result.shape.dtype_name(), name_of(result.pass),
                     marked, fmt::format("{:.3f}", result.milliseconds),
                     fmt::format("{:.1f}", result.gflops), share(result),
                     optional(result.error, "{:.1e}"),
                     optional(result.speedup_over_peer, "{:.2f}x"))
      << std::flush;
}

}  // namespace

std::optional<double> BenchResult::share_of_gemm() const {
  return gemm_gflops ? std::optional(gflops / *gemm_gflops) : std::nullopt;
}

std::vector<BenchResult> run_recurrent_bench(const RecurrentBenchOptions& options,
                                             std::ostream& out) {
  std::vector<BenchShape> shapes = read_shapes(options.shapes, options.dtype, options.device);
  std::erase_if(shapes, [&](const BenchShape& shape) { return shape.cell != options.cell; });
  std::vector<BenchResult> all = run_recurrent_bench(options, shapes, out);
  SLUICE_CHECK(!all.empty(),
               "{} holds no shape that could run with cell={}; --help says where some are",
               options.shapes, recurrent::name_of(options.cell));
  return all;
}

std::vector<BenchResult> run_recurrent_bench(const RecurrentBenchOptions& options,
                                             std::span<const BenchShape> shapes,
                                             std::ostream& out) {
  SLUICE_CHECK(options.repeats >= 1, "repeats is {}; it must be at least 1", options.repeats);
  const std::vector<Pass> passes = passes_of(options.passes);
  if (!options.json.empty()) require_writable(options.json);
  profiling::Session profile(options.profile, profiling::print, profiling::Session::Turns::kMany);
  out << fmt::format(kRow, "shape", "dtype", "pass", "*=default", "ms", "GFLOP/s", "of GEMM",
                     "error", "vs peer");
  GemmRates rates;
  std::vector<BenchResult> all;
  for (const BenchShape& shape : shapes) {
    for (const Pass pass : passes) {
      if (!shape.has(pass)) continue;
      Contest contest(options, shape, pass, profile);
      const std::optional<double> rate = rates.rate(contest.context(), shape, out);
      for (BenchResult& result : contest.run(out)) {
        result.gemm_gflops = rate;
        print(out, result);
        all.push_back(std::move(result));
      }
      // Of a run that is cut short this is what there is.
      if (!options.json.empty() && !all.empty()) write_file(options.json, to_json(all));
    }
  }
  profile.finish();
  return all;
}

}  // namespace sluice::bench
