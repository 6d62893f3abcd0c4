#include <iostream>
#include <memory>

#include "bench/sweep/sweep.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_sweep(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::sweep::SweepOptions>();
  CLI::App* command = bench.add_subcommand(
      "sweep", "Draw shapes at random and list where another library's layers are faster");
  command->add_option("--count", options->count, "Shapes to draw")->capture_default_str();
  command->add_option("--seed", options->seed,
                      "Draws the same shapes again; without it a new seed is chosen and printed");
  command->add_option("--device", options->device, "cuda, cuda:N or cpu")->capture_default_str();
  command->add_option("--peers", options->peers, "all, or names with commas between")
      ->capture_default_str();
  command->add_option(
      "--dtype", options->dtype,
      "float32, tf32, bfloat16 or float16 for every shape, instead of the drawn one");
  command->add_option("--most-gflop", options->most_gflop,
                      "Skip shapes whose pass takes more (default: 2000 on a GPU, 2 on a CPU)");
  command->add_option("--seconds", options->seconds, "Begin no shape after this time");
  command->add_option("--repeats", options->repeats, "Most timed turns of a shape")
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "File for the results, written after each shape, for bench report");
  command->footer(
      "Each shape is drawn from its own number, so shape 17 of seed 5 (s5_17) is always the same.\n"
      "Log-uniform: 1 to 1024 steps, 1 to 512 rows, 1 to 2048 units, 1 to 4 layers. The input is\n"
      "as wide as the units for half of the shapes, else log-uniform; two widths of three are\n"
      "multiples of 8. LSTMs (half), GRUs (a third), plain RNNs; a fifth of the LSTMs project; a\n"
      "quarter have two directions, a sixth rows of different lengths, half a backward pass.\n"
      "Nothing is drawn again. A shape is skipped, with the reason, if its pass takes more than\n"
      "--most-gflop, if more than 32 M numbers go in and out, or if it doesn't fit in memory.\n\n"
      "What --impl auto picks takes turns with every algorithm of cuDNN in a CUDA graph (on the\n"
      "CPU: oneDNN). Turns end after 60 ms; an algorithm of cuDNN that takes four times as long\n"
      "as another is not timed. Inputs take turns in two copies, so small ones come from a cache.\n"
      "cuDNN's layers know no lengths here: rows of different lengths are held against the same\n"
      "shape with full rows, and are not in the means. Errors are held against the\n"
      "double-precision oracle where that takes less than a second, else against the peer in\n"
      "float32.\n\n"
      "At the end: shapes slower than the peer, as lines for a shape file; shapes less exact than\n"
      "it; what was skipped or has no peer; geometric means. 300 shapes take some four minutes on\n"
      "an H100.\n\n"
      "  sluice bench sweep --count 300 --json sweep.json\n"
      "  sluice bench sweep --count 20 --seed 5 --device cpu\n"
      "  sluice bench report sweep.json");
  command->callback([options] { sluice::bench::sweep::run_sweep(*options, std::cout); });
}

}  // namespace sluice::app
