#include <iostream>
#include <memory>

#include "bench/recurrent_bench.h"
#include "bench_commands.h"
#include "commands.h"
#include "profile_options.h"

namespace sluice::app {
namespace {

/// A file of bench/shapes/ with shapes of this cell.
std::string shapes_of(kernels::recurrent::CellType cell) {
  using enum kernels::recurrent::CellType;
  if (cell == kRnnTanh || cell == kRnnRelu) return "bench/shapes/plain_rnn.shapes";
  if (cell == kLstm) return "bench/shapes/cpu.shapes";
  if (cell == kGru) return "bench/shapes/untuned.shapes";
  return "";
}

/// What says how shapes of this cell are to be had.
std::string where_shapes_are(kernels::recurrent::CellType cell) {
  const std::string file = shapes_of(cell);
  return file.empty()
             ? "write lines such as 'table cell=" + std::string(kernels::recurrent::name_of(cell)) +
                   " time=100 batch=64 input=512 hidden=512'"
             : file + " has some";
}

void add_recurrent(CLI::App& bench, kernels::recurrent::CellType cell) {
  const std::string name(kernels::recurrent::name_of(cell));
  const auto options = std::make_shared<sluice::bench::RecurrentBenchOptions>();
  options->cell = cell;
  CLI::App* command = bench.add_subcommand(
      name, "Time " + name + " layers: each implementation and other libraries' by turns");
  command->add_option("--shapes", options->shapes, "Shape file: " + where_shapes_are(cell));
  command
      ->add_option("--impl", options->implementations,
                   "all, auto, or names with commas between; peers are libraries' own layers")
      ->capture_default_str();
  command->add_flag("--skip-declined", options->skip_declined,
                    "Where a named implementation declines a shape, tell why and go on");
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N instead of what the shape file says");
  command->add_option(
      "--dtype", options->dtype,
      "float32, tf32, bfloat16, float16 or int8 instead of what the shape file says");
  command->add_option("--pass", options->passes, "all, forward or forward+backward")
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed turns; each runs every implementation")
      ->capture_default_str();
  const std::map<std::string, sluice::bench::ErrorCheck> checks{
      {"off", sluice::bench::ErrorCheck::kOff},
      {"on", sluice::bench::ErrorCheck::kOn},
      {"auto", sluice::bench::ErrorCheck::kAuto}};
  command
      ->add_option("--error", options->error,
                   "Hold results against the double-precision oracle: on, off, or auto, which "
                   "leaves out shapes where that takes minutes")
      ->transform(CLI::CheckedTransformer(checks, CLI::ignore_case));
  command
      ->add_option_function<double>(
          "--oracle-gflop", [options](double gflop) { options->oracle_flops = gflop * 1e9; },
          "Up to where --error auto asks the oracle")
      ->default_str("60");
  command->add_option("--reference", options->reference,
                      "A peer whose results in float32 stand in for the oracle's above that");
  command->add_option("--turn-ms", options->turns_milliseconds,
                      "End the timed turns of a shape when they have taken this long, not before "
                      "the second");
  command->add_option("--drop-slower", options->hopeless,
                      "Don't time a peer that takes more than this many times as long as another");
  command->add_option("--json", options->json, "File for the results");
  add_profile_options(*command, options->profile, kProfiledTurns);
  const std::string example = shapes_of(cell).empty() ? "own.shapes" : shapes_of(cell);
  using enum kernels::recurrent::CellType;
  // oneDNN has these two.
  const std::string few = cell == kLstm || cell == kGru ? "auto,onednn" : "auto";
  command->footer(
      "A shape file has one shape a line: name key=value ..., keys cell, time, batch, input,\n"
      "hidden, layers, directions, projection (one, or one a layer: P,P,..), dtype, lengths\n"
      "(full or uniform), seed, device, pass (all, or forward for what is only inference);\n"
      "and what cells may have beside their equations: reset (the probability of one at a\n"
      "step), zoneout and recurrent_dropout (rates), peepholes and layer_norm (on or off),\n"
      "which no peer has.\n"
      "dtype int8 is float32 whose products may take 8-bit integers: inference on the CPU, where\n"
      "float32 runs beside it. dtype tf32 is float32 with products in TF32. On a GPU each\n"
      "implementation also runs captured in a CUDA graph, as NAME+graph. Times are medians; 'of\n"
      "GEMM' is the share of what a large product of matrices of that dtype reaches in the same\n"
      "run; 'vs peer' is the median over turns of peer's time / own time. With backward each\n"
      "run packs the weights anew and writes their gradients, which a training step adds to.\n\n"
      "  sluice bench " +
      name + " --shapes " + example + " --impl " + few + " --repeats 3\n" + "  sluice bench " +
      name + " --shapes " + example + " --impl all --json cpu.json   # minutes\n" +
      "  sluice bench " + name + " --shapes " + example + " --device cuda --dtype bfloat16");
  command->callback([options, cell] {
    if (options->shapes.empty()) {
      throw CLI::RequiredError("--shapes FILE (" + where_shapes_are(cell) + ")");
    }
    sluice::bench::run_recurrent_bench(*options, std::cout);
  });
}

}  // namespace

void add_bench(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bench",
                                             "Measure recurrent layers, training, beam search and "
                                             "matrix products against other libraries");
  command->require_subcommand(1);
  command->footer(
      "  sluice bench lstm --shapes bench/shapes/cpu.shapes --impl auto,onednn --json cpu.json\n"
      "  sluice bench ladder --device cuda\n"
      "  sluice bench sweep --count 20 --device cpu\n"
      "  sluice bench train --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16\n"
      "  sluice bench report cpu.json --html report.html");
  for (const auto cell : kernels::recurrent::kCellTypes) add_recurrent(*command, cell);
  add_bench_ladder(*command);
  add_bench_step(*command);
  add_bench_table(*command);
  add_bench_sweep(*command);
  add_bench_train(*command);
  add_bench_beam(*command);
  add_bench_calls(*command);
  add_bench_gemm(*command);
  add_bench_turns(*command);
  add_bench_report(*command);
}

}  // namespace sluice::app
