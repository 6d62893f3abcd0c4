#include <iostream>
#include <memory>

#include "bench/train/train_bench.h"
#include "bench_commands.h"
#include "profile_options.h"

namespace sluice::app {

void add_bench_train(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::train::TrainBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("train", "Whole training steps of a seq2seq model with attention");
  command->add_option("--shapes", options->shapes, "Shape file; see bench/shapes/chat.shapes")
      ->required();
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N instead of what the shape file says");
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 instead of what the shape file says");
  command->add_option("--repeats", options->repeats, "Timed steps")->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  add_profile_options(*command, options->profile,
                      "steps of each implementation after the timed ones (default: 1:3)");
  command->footer(
      "A shape file has one shape a line: name key=value ..., keys cell (lstm or gru), vocabulary\n"
      "(of each side), embedding, hidden, layers (of encoder and decoder), directions (of the\n"
      "encoder, which halve its units), attention (additive or multiplicative), dropout, batch\n"
      "(pairs), source_time, target_time, dtype, seed, device. What a line leaves out is as in\n"
      "the workload chat.\n"
      "A step takes new random tokens of full length to the device, clears the gradients, and\n"
      "runs forward, backward, clipping to a norm of 5 and Adam. On a GPU it runs queued one\n"
      "operation after the other, and captured in a CUDA graph (+graph). Times are medians by\n"
      "CUDA events; peak MiB is the most memory that model, optimiser and plans held; the loss\n"
      "is that of a token in the last step.\n\n"
      "  sluice bench train --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16\n"
      "  bench/peers/torch_seq2seq_train.py --shapes bench/shapes/chat.shapes --device cuda \\\n"
      "    --dtype bfloat16");
  command->callback([options] { sluice::bench::train::run_train_bench(*options, std::cout); });
}

}  // namespace sluice::app
