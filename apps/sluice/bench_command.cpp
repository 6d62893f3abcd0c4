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
                   "all, auto, or names separated by commas; peers are layers of other libraries")
      ->capture_default_str();
  command->add_flag("--skip-declined", options->skip_declined,
                    "If a named implementation declines a shape, print the reason and continue");
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
      ->add_option(
          "--error", options->error,
          "Compare results with the double-precision oracle: on, off, or auto, which skips "
          "the comparison for shapes where it takes minutes")
      ->transform(CLI::CheckedTransformer(checks, CLI::ignore_case));
  command
      ->add_option_function<double>(
          "--oracle-gflop", [options](double gflop) { options->oracle_flops = gflop * 1e9; },
          "Largest shape, in GFLOP per pass, that --error auto compares with the oracle")
      ->default_str("60");
  command->add_option("--reference", options->reference,
                      "For larger shapes: a peer whose float32 results replace the oracle's");
  command->add_option("--turn-ms", options->turns_milliseconds,
                      "End the timed turns of a shape after this time, but not before the second "
                      "turn");
  command->add_option("--drop-slower", options->hopeless,
                      "Skip a peer that takes more than this many times as long as another");
  command->add_option("--json", options->json, "File for the results");
  add_profile_options(*command, options->profile, kProfiledTurns);
  const std::string example = shapes_of(cell).empty() ? "own.shapes" : shapes_of(cell);
  using enum kernels::recurrent::CellType;
  // oneDNN has these two.
  const std::string few = cell == kLstm || cell == kGru ? "auto,onednn" : "auto";
  command->footer(
      "A shape file has one shape per line: name key=value ... Keys are cell, time, batch, input,\n"
      "hidden, layers, directions, projection (one for all layers, or one per layer: P,P,..),\n"
      "dtype, lengths (full or uniform), seed, device and pass (all, or forward for inference\n"
      "only). Cell options are keys too: reset (its probability per step), zoneout and\n"
      "recurrent_dropout (rates), peepholes, layer_norm and hard_sigmoid (on or off). No peer has\n"
      "these.\n\n"
      "dtype tf32 is float32 with products in TF32. dtype int8 is float32 with products in 8 "
      "bits,\n"
      "for inference on the CPU; float32 is timed as well. On a GPU each implementation also runs\n"
      "captured in a CUDA graph, as NAME+graph.\n\n"
      "Times are medians. 'of GEMM' is the share of the speed of a large matrix product of that\n"
      "dtype in the same run. 'vs peer' is the median over turns of peer's time / own time. With\n"
      "backward, each run packs the weights anew and writes their gradients.\n\n"
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
  add_bench_scaling(*command);
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
