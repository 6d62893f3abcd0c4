#include <iostream>
#include <memory>

#include "bench/step/step_bench.h"
#include "bench/turns/turns.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_step(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::StepBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "step", "Time single steps of small models, one call each, as in voice and control");
  command->add_option(
      "--shapes", options->shapes,
      "Shape file, such as bench/shapes/steps.shapes (default: an LSTM and a GRU of "
      "128 units)");
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N instead of what the shape file says");
  command->add_option("--repeats", options->repeats, "Timed turns")->capture_default_str();
  command->add_option("--calls", options->calls, "Steps of each implementation in a turn")
      ->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  command->footer(
      "The row feature-model measures the C++ API: the command writes the shape as a checkpoint,\n"
      "loads it, and calls FeatureModel::run_part (include/sluice/feature_model.h) with one frame\n"
      "in the caller's memory. The row c-api calls the layer through include/sluice.h, states in "
      "place. The rows below it call the recurrent layer alone, by each\n"
      "implementation and by other libraries (peer). Frames are not normalised and there is no\n"
      "output layer. Shapes need batch=1, directions=1 and float32. `time` is the number of\n"
      "different frames, which come in turn; over as many steps, the answers are compared with "
      "the\n"
      "double-precision oracle.\n\n"
      "Times are medians over the turns of the mean call. 'vs peer' is the median over turns of\n"
      "the fastest peer's time / own time. bench/peers/turns.py measures ONNX Runtime, torch and\n"
      "this program alternately.\n\n"
      "  sluice bench step\n"
      "  sluice bench step --shapes bench/shapes/steps.shapes --json steps.json\n"
      "  bench/peers/turns.py --peers onnxruntime,torch --pass step \\\n"
      "    --shapes bench/shapes/steps.shapes --json steps.json");
  command->callback([options] { sluice::bench::run_step_bench(*options, std::cout); });
}

void add_bench_turns(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "turns", "Measure on request of another program, such as bench/peers/turns.py");
  command->footer(
      "Reads commands from standard input, one per line, and answers each with a line of JSON:\n"
      "  open FILE PASS IMPLEMENTATIONS NAME key=value ...\n"
      "    prepares a shape (a line of a shape file) and writes inputs, weights and results to a\n"
      "    safetensors file; PASS is forward, forward+backward or step\n"
      "  run INDEX COUNT\n"
      "    runs an implementation COUNT times and answers with milliseconds: of the last run, or\n"
      "    for steps the mean\n"
      "So a peer and Sluice alternate within one run, and both compute on the same numbers.\n\n"
      "  echo 'open out.safetensors step auto a batch=1 time=3 hidden=8' | sluice bench turns\n"
      "  bench/peers/turns.py --peers onnxruntime --shapes bench/shapes/cpu.shapes --json "
      "cpu.json");
  command->callback([] { sluice::bench::run_turns(std::cin, std::cout); });
}

}  // namespace sluice::app
