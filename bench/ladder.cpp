#include "bench/ladder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>

#include "bench/fixed_workload.h"
#include "bench/runner.h"

namespace sluice::bench {

namespace recurrent = kernels::recurrent;

namespace {

constexpr const char* kRow = "{:<30} {:>9} {:>9} {:>8}   {:>9} {:>9} {:>8}   {}\n";

std::string_view description_of(std::string_view name) {
  const bool captured = name.ends_with(kCaptured);
  if (captured) name.remove_suffix(kCaptured.size());
  for (const Variant& variant : variants()) {
    if (variant.name == name) return variant.adds;
  }
  return captured ? "the same in a CUDA graph" : "";
}

const BenchResult* find(const std::vector<BenchResult>& results, std::string_view name, Pass pass) {
  const auto found = std::ranges::find_if(results, [&](const BenchResult& result) {
    return result.implementation == name && result.pass == pass;
  });
  return found == results.end() ? nullptr : &*found;
}

// Milliseconds, GFLOP/s and speed-up of one pass.
std::vector<std::string> cells(const BenchResult* result, const BenchResult* base) {
  if (result == nullptr) return {"-", "-", "-"};
  return {fmt::format("{:.3f}", result->milliseconds), fmt::format("{:.0f}", result->gflops),
          fmt::format("{:.2f}x", base->milliseconds / result->milliseconds)};
}

void print(std::ostream& out, const std::vector<std::string>& order,
           const std::vector<BenchResult>& results) {
  out << fmt::format(kRow, "", "forward", "", "", "fwd+bwd", "", "", "");
  out << fmt::format(kRow, "variant", "ms", "GFLOP/s", "speed-up", "ms", "GFLOP/s", "speed-up",
                     "what it adds");
  const BenchResult* bases[2] = {nullptr, nullptr};  // the lowest variant that ran
  for (const std::string& name : order) {
    std::vector<std::string> row;
    bool ran = false, peer = false;
    for (const Pass pass : {Pass::kForward, Pass::kForwardBackward}) {
      const BenchResult* result = find(results, name, pass);
      const BenchResult*& base = bases[static_cast<int>(pass)];
      if (base == nullptr) base = result;
      if (result != nullptr) ran = true, peer = result->peer;
      for (std::string& cell : cells(result, base)) row.push_back(std::move(cell));
    }
    if (!ran) continue;
    out << fmt::format(kRow, name + (peer ? " (peer)" : ""), row[0], row[1], row[2], row[3], row[4],
                       row[5], description_of(name));
  }
}

}  // namespace

const std::vector<Variant>& variants() {
  static const std::vector<Variant> list{
      {"baseline", "one product a gate and step, one kernel an operation"},
      {"combined-gemm", "one product for all gates"},
      {"streamed-gemm", "input products on a stream of their own"},
      {"fused-pointwise", "one kernel for all that follows the products"},
      {"pretransposed", "weights transposed beforehand"},
      {"combined-inputs", "input products of many steps at once"},
      {"wavefront", "layers overlapped with each other"},
      {"fused-step", "a step's product and cell as one kernel"},
      {"graph", "all of it captured in a CUDA graph"},
      {"persistent-cluster", "instead: all steps of a layer in one launch"},
      {"persistent-wide", "that launch over the whole GPU"},
      {"portable", "plain C++, a step at a time"},
      {"avx2", "vectors of 8, the cell fused into the product"},
      {"avx512", "vectors of 16"},
      {"amx", "products on tile registers"},
      {"int8-portable", "with dtype int8: products of 8 bits in plain C++"},
      {"int8-avx2", "vectors of 8 sums, factors widened to 16 bits"},
      {"int8-avx-vnni", "four products of 8 bits a sum and instruction"},
      {"int8-avx512-vnni", "in vectors of 16 sums"},
  };
  return list;
}

std::vector<std::string> ladder_order(const runtime::Device& device) {
  const auto candidates = recurrent::candidates(device);
  std::vector<std::string> order;
  const auto add = [&](std::string_view name) {
    if (std::ranges::find(order, name) == order.end()) order.emplace_back(name);
  };
  for (const Variant& variant : variants()) {
    for (const recurrent::Candidate& candidate : candidates) {
      if (candidate.name == variant.name) add(variant.name);
    }
  }
  for (const bool peer : {false, true}) {
    for (const recurrent::Candidate& candidate : candidates) {
      if (candidate.peer == peer) add(candidate.name);
      if (candidate.peer && peer) add(std::string(candidate.name) + std::string(kCaptured));
    }
  }
  return order;
}

std::vector<BenchResult> run_ladder(const LadderOptions& options, std::ostream& out) {
  const std::unique_ptr<runtime::Device> device = runtime::open_device(options.device);
  BenchShape shape = fixed_workload("ladder", options.shapes, options.dtype, options.device);
  std::vector<std::string> order = ladder_order(*device);
  if (!device->default_stream().can_capture()) {
    std::erase_if(order, [](const std::string& name) { return name.ends_with(kCaptured); });
  }
  const bool has_model = device->model() != device->name();
  out << fmt::format("{} on {}{}\n", describe(shape), device->name(),
                     has_model ? fmt::format(" ({})", device->model()) : "");
  RecurrentBenchOptions bench;
  bench.implementations = fmt::format("{}", fmt::join(order, ","));
  bench.skip_declined = true;
  bench.passes = options.passes;
  bench.repeats = options.repeats;
  bench.error = ErrorCheck::kOff;
  bench.json = options.json;
  bench.profile = options.profile;
  const std::vector<BenchResult> results = run_quietly(bench, shape, out);
  SLUICE_CHECK(!results.empty(), "no implementation of {} can run {}", device->name(), shape.name);
  print(out, order, results);
  return results;
}

}  // namespace sluice::bench
