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
  command->add_option(
      "--seed", options->seed,
      "The same seed draws the same shapes (default: a new seed, which is printed)");
  command->add_option("--device", options->device, "cuda, cuda:N or cpu")->capture_default_str();
  command->add_option("--peers", options->peers, "all, or names separated by commas")
      ->capture_default_str();
  command->add_option(
      "--dtype", options->dtype,
      "float32, tf32, bfloat16 or float16 for every shape, instead of the drawn one");
  command->add_option("--most-gflop", options->most_gflop,
                      "Skip shapes whose pass takes more (default: 2000 on a GPU, 2 on a CPU)");
  command->add_option("--seconds", options->seconds, "Begin no shape after this time");
  command->add_option("--repeats", options->repeats, "Maximum number of timed turns of a shape")
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "File for the results, written after each shape, for bench report");
  command->footer(
      "Each shape is drawn from its own number, so shape 17 of seed 5 (s5_17) is always the same.\n"
      "Log-uniform: 1 to 1024 steps, 1 to 512 rows, 1 to 2048 units, 1 to 4 layers. The input is\n"
      "as wide as the units for half of the shapes, else log-uniform; two widths of three are\n"
      "multiples of 8. Half of the shapes are LSTMs, a third GRUs, the others plain RNNs. A fifth\n"
      "of the LSTMs have projections. A quarter of all shapes have two directions, a sixth rows "
      "of\n"
      "different lengths, half a backward pass. A shape is skipped, with the reason, if its pass\n"
      "takes more than --most-gflop, if inputs and outputs exceed 32 M numbers, or if it does not\n"
      "fit in memory. No other shape replaces it.\n\n"
      "What --impl auto picks takes turns with every algorithm of cuDNN in a CUDA graph (on the\n"
      "CPU: oneDNN). Turns end after 60 ms. An algorithm of cuDNN that takes four times as long "
      "as\n"
      "another is not timed. Two copies of the inputs alternate, so small inputs come from a "
      "cache.\n"
      "cuDNN runs here without lengths: rows of different lengths are compared with the same "
      "shape\n"
      "with full rows, and are left out of the means. Errors are relative to the double-precision\n"
      "oracle if it takes less than a second, else to the peer in float32.\n\n"
      "The end lists shapes slower than the peer, as lines for a shape file; shapes less exact\n"
      "than the peer; and shapes that were skipped or have no peer. Geometric means follow. 300\n"
      "shapes take about four minutes on an H100.\n\n"
      "  sluice bench sweep --count 300 --json sweep.json\n"
      "  sluice bench sweep --count 20 --seed 5 --device cpu\n"
      "  sluice bench report sweep.json");
  command->callback([options] { sluice::bench::sweep::run_sweep(*options, std::cout); });
}

}  // namespace sluice::app
