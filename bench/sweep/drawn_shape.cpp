#include "bench/sweep/drawn_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::bench::sweep {
namespace {

using kernels::recurrent::CellType;

constexpr std::int64_t kMostSteps = 1024, kMostRows = 512, kMostUnits = 2048, kMostLayers = 4;

/// From 1 to `most`, all octaves equally likely.
std::int64_t log_uniform(Random& random, std::int64_t most) {
  const double share = 0.5 * (random.uniform(1) + 1);
  const double drawn = std::exp(share * std::log(static_cast<double>(most) + 1));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(drawn), 1, most);
}

bool one_of(Random& random, std::uint64_t count) { return random.next() % count == 0; }

std::int64_t draw_width(Random& random, std::int64_t most) {
  constexpr std::int64_t kUnit = 8;
  const std::int64_t width = log_uniform(random, most);
  const bool odd = one_of(random, 3);
  return odd || width < kUnit ? width : width / kUnit * kUnit;
}

CellType draw_cell(Random& random) {
  const std::uint64_t drawn = random.next() % 12;
  if (drawn < 6) return CellType::kLstm;
  if (drawn < 10) return CellType::kGru;
  return drawn == 10 ? CellType::kRnnTanh : CellType::kRnnRelu;
}

std::string_view draw_dtype(Random& random, bool on_cpu) {
  constexpr std::array<std::string_view, 4> kOfGpu{"float32", "tf32", "bfloat16", "float16"};
  constexpr std::array<std::string_view, 2> kOfCpu{"float32", "bfloat16"};
  const std::uint64_t drawn = random.next();
  return on_cpu ? kOfCpu[drawn % kOfCpu.size()] : kOfGpu[drawn % kOfGpu.size()];
}

}  // namespace

DrawnShape draw_shape(std::uint64_t seed, std::int64_t index, const std::string& device) {
  // The first number of a stream of its own, so that shapes don't depend on each other.
  Random random(Random(seed).ahead(index).next());
  DrawnShape drawn;
  BenchShape& shape = drawn.shape;
  shape.name = fmt::format("s{}_{}", seed, index);
  shape.device = device;
  shape.seed = static_cast<std::uint64_t>(index);
  shape.cell = draw_cell(random);
  shape.time = log_uniform(random, kMostSteps);
  shape.batch = log_uniform(random, kMostRows);
  shape.hidden = draw_width(random, kMostUnits);
  const std::int64_t input = draw_width(random, kMostUnits);
  shape.input = one_of(random, 2) ? shape.hidden : input;
  shape.layers = log_uniform(random, kMostLayers);
  shape.directions = one_of(random, 4) ? 2 : 1;
  const std::int64_t projection = draw_width(random, shape.hidden);
  const bool projects = one_of(random, 5);
  if (shape.cell == CellType::kLstm && projects) shape.projections = {projection};
  shape.set_dtype(draw_dtype(random, device.starts_with("cpu")));
  shape.uniform_lengths = one_of(random, 6);
  drawn.pass = one_of(random, 2) ? Pass::kForwardBackward : Pass::kForward;
  shape.inference_only = drawn.pass == Pass::kForward;
  return drawn;
}

std::string shape_line(const BenchShape& shape) {
  std::string line = fmt::format("{} cell={} time={} batch={} input={} hidden={}", shape.name,
                                 kernels::recurrent::name_of(shape.cell), shape.time, shape.batch,
                                 shape.input, shape.hidden);
  if (shape.layers > 1) line += fmt::format(" layers={}", shape.layers);
  if (shape.directions > 1) line += fmt::format(" directions={}", shape.directions);
  if (!shape.projections.empty()) {
    line += fmt::format(" projection={}", fmt::join(shape.projections, ","));
  }
  line += fmt::format(" dtype={}", shape.dtype_name());
  if (shape.uniform_lengths) line += " lengths=uniform";
  if (shape.seed != BenchShape().seed) line += fmt::format(" seed={}", shape.seed);
  if (shape.inference_only) line += " pass=forward";
  return line;
}

}  // namespace sluice::bench::sweep
