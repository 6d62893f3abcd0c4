#include <iostream>
#include <memory>

#include "bench/step/step_bench.h"
#include "bench/turns/turns.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_step(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::StepBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "step", "Time single steps of small models, one call each, as voice and control make them");
  command->add_option("--shapes", options->shapes,
                      "Shape file, see bench/shapes/steps.shapes; without one an LSTM and a GRU of "
                      "128 units");
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N instead of what the shape file says");
  command->add_option("--repeats", options->repeats, "Timed turns")->capture_default_str();
  command->add_option("--calls", options->calls, "Steps of each implementation in a turn")
      ->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  command->footer(
      "A shape is written as a checkpoint and opened as a program that embeds the library does;\n"
      "a step is one call of FeatureModel::run_part (include/sluice/feature_model.h) with one\n"
      "frame, from and to memory of the caller's: the row feature-model. The rows below are the\n"
      "recurrent layer's own call of each implementation, and those of other libraries (peer),\n"
      "without the model around it. Frames are not normalised and there is no output layer.\n"
      "Shapes need batch=1, directions=1 and float32; `time` is how many different frames come in\n"
      "turn, and over how many steps the answers are held against the double-precision oracle.\n"
      "Times are medians over the turns of the mean call; 'vs peer' is the median over turns of\n"
      "the fastest peer's time / own time. ONNX Runtime and torch take turns with this program by\n"
      "bench/peers/turns.py.\n\n"
      "  sluice bench step\n"
      "  sluice bench step --shapes bench/shapes/steps.shapes --json steps.json\n"
      "  bench/peers/turns.py --peers onnxruntime,torch --pass step \\\n"
      "    --shapes bench/shapes/steps.shapes --json steps.json");
  command->callback([options] { sluice::bench::run_step_bench(*options, std::cout); });
}

void add_bench_turns(CLI::App& bench) {
  CLI::App* command = bench.add_subcommand(
      "turns", "Measure when another program says so; bench/peers/turns.py does");
  command->footer(
      "Reads commands from standard input, one a line, and answers each by a line of JSON:\n"
      "  open FILE PASS IMPLEMENTATIONS NAME key=value ...\n"
      "    makes a shape ready (a line of a shape file) and writes inputs, weights and results as\n"
      "    a safetensors file; PASS is forward, forward+backward or step\n"
      "  run INDEX COUNT\n"
      "    runs an implementation so many times and answers with milliseconds: the last run's, of\n"
      "    steps the mean\n"
      "So a peer and Sluice alternate within one run, and both compute on the same numbers.\n\n"
      "  echo 'open out.safetensors step auto a batch=1 time=3 hidden=8' | sluice bench turns\n"
      "  bench/peers/turns.py --peers onnxruntime --shapes bench/shapes/cpu.shapes --json "
      "cpu.json");
  command->callback([] { sluice::bench::run_turns(std::cin, std::cout); });
}

}  // namespace sluice::app
