#include <iostream>
#include <memory>

#include "bench/decode/beam_bench.h"
#include "bench_commands.h"
#include "profile_options.h"

namespace sluice::app {

void add_bench_beam(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::decode::BeamBenchOptions>();
  CLI::App* command = bench.add_subcommand("beam", "Whole beam searches of a language model");
  command
      ->add_option("--shapes", options->shapes,
                   "Shape file of language models; see bench/shapes/beam.shapes")
      ->required();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N instead of what is named");
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 instead of what is named");
  command->add_option("--repeats", options->repeats, "Timed searches of a shape")
      ->capture_default_str();
  command->add_flag("--check", options->check,
                    "Hold what is found against what the CPU finds in float32");
  command->add_option("--json", options->json, "File for the results, for bench report");
  add_profile_options(*command, options->profile, "searches after the timed ones (default: 1:3)");
  command->footer(
      "A shape file has one shape a line: name key=value ..., keys cell (lstm or gru), "
      "vocabulary,\n"
      "embedding, hidden, layers, inputs (searched for at a time), beam (of each input, all of\n"
      "which are kept), steps (of the model), dtype, seed, device. What a line leaves out is as "
      "in\n"
      "the workload beam.\n"
      "A search reads prompts of two tokens, takes all steps, the end of a text allowed in the "
      "last\n"
      "alone, and traces back; it ends with the results on the device. Weights are drawn from the\n"
      "seed. Times are medians by CUDA events, with the host's work between them; tokens are "
      "those\n"
      "of all beams; the best score is the mean over inputs of log p. With --check the last "
      "column\n"
      "says how many of all hypotheses the CPU has at the same rank, how many at any, of how many\n"
      "inputs the best one is the same, and the largest difference of a best score as a part of "
      "it.\n\n"
      "  sluice bench beam --shapes bench/shapes/beam.shapes --device cpu --repeats 1\n"
      "  sluice bench beam --shapes bench/shapes/beam.shapes --device cuda --dtype bfloat16\n"
      "  bench/peers/torch_beam_search.py --shapes bench/shapes/beam.shapes --device cuda \\\n"
      "    --dtype bfloat16");
  command->callback(
      [options] { sluice::bench::decode::run_beam_bench(*options, std::cout, std::cerr); });
}

}  // namespace sluice::app
