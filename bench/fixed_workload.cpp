#include "bench/fixed_workload.h"

#include <fmt/format.h>

#include <ostream>
#include <sstream>

#include "training/progress.h"

namespace sluice::bench {

namespace {

struct EndOfLine {
  training::Progress& progress;
  ~EndOfLine() { progress.finish(); }
};

}  // namespace

BenchShape fixed_workload(std::string_view name, const std::string& shapes, std::string_view dtype,
                          std::string_view device) {
  if (!shapes.empty()) return read_shapes(shapes, dtype, device).front();
  BenchShape shape;  // table: T100 B64 I512 H512, which is the default of shape files
  shape.name = name;
  if (name == "ladder") shape.layers = 4;
  shape.set_dtype(dtype);
  shape.device = device;
  return shape;
}

std::string describe(const BenchShape& shape) {
  return fmt::format("{}: {}, {} steps x {} rows, input {}, hidden {}, {} {}{}{}, {}", shape.name,
                     kernels::recurrent::name_of(shape.cell), shape.time, shape.batch, shape.input,
                     shape.hidden, shape.layers, shape.layers == 1 ? "layer" : "layers",
                     shape.directions == 2 ? ", both directions" : "",
                     shape.projections.empty()
                         ? ""
                         : fmt::format(", projection {}", fmt::join(shape.projections, ",")),
                     shape.dtype_name());
}

std::vector<BenchResult> run_quietly(const RecurrentBenchOptions& options, const BenchShape& shape,
                                     std::ostream& out) {
  std::stringstream said;
  training::Progress progress = training::Progress::for_standard_error();
  RecurrentBenchOptions watched = options;
  watched.watch = [&](std::string_view what, double done) { progress.work(what, done); };
  std::vector<BenchResult> results;
  {
    const EndOfLine end{progress};
    results = run_recurrent_bench(watched, std::span(&shape, 1), said);
  }
  for (std::string line; std::getline(said, line);) {
    if (line.starts_with("# ")) out << line << '\n';
  }
  return results;
}

}  // namespace sluice::bench
