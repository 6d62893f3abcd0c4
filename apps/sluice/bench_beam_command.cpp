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
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N (default: as the shapes say)");
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 (default: as the shapes say)");
  command->add_option("--repeats", options->repeats, "Timed searches per shape")
      ->capture_default_str();
  command->add_flag("--check", options->check,
                    "Compare the results with those of the CPU in float32");
  command->add_option("--json", options->json, "File for the results, for bench report");
  add_profile_options(*command, options->profile, "searches after the timed ones (default: 1:3)");
  command->footer(
      "A shape file has one shape per line: name key=value ... Keys are cell (lstm or gru),\n"
      "vocabulary, embedding, hidden, layers, inputs (per search), beam (per input), steps (of "
      "the\n"
      "model), dtype, seed, device. Missing keys are as in the workload beam.\n\n"
      "A search reads prompts of two tokens, takes all steps, allows the end of a text in the "
      "last\n"
      "step only, and traces back; the results stay on the device. Weights are drawn from the\n"
      "seed. Times are medians by CUDA events and include the host's work between them. Tokens\n"
      "are those of all beams. The best score is log p, averaged over inputs. The last\n"
      "column of --check compares with the CPU: how many hypotheses it has at the same rank, how\n"
      "many at any rank, for how many inputs the best one is the same, and the largest relative\n"
      "difference of a best score.\n\n"
      "  sluice bench beam --shapes bench/shapes/beam.shapes --device cpu --repeats 1\n"
      "  sluice bench beam --shapes bench/shapes/beam.shapes --device cuda --dtype bfloat16\n"
      "  bench/peers/torch_beam_search.py --shapes bench/shapes/beam.shapes --device cuda \\\n"
      "    --dtype bfloat16");
  command->callback(
      [options] { sluice::bench::decode::run_beam_bench(*options, std::cout, std::cerr); });
}

}  // namespace sluice::app
