#include <iostream>
#include <memory>

#include "bench/train/train_bench.h"
#include "bench_commands.h"
#include "profile_options.h"

namespace sluice::app {

void add_bench_train(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::train::TrainBenchOptions>();
  CLI::App* command = bench.add_subcommand("train", "Whole training steps of a model");
  CLI::Option* shapes = command->add_option(
      "--shapes", options->shapes, "Shape file of seq2seq models; see bench/shapes/chat.shapes");
  command
      ->add_option("--config", options->config.paths,
                   "In its place: a training configuration (TOML) of any kind of model; may be "
                   "repeated")
      ->allow_extra_args(false)
      ->excludes(shapes);
  command
      ->add_option("--set", options->config.overrides,
                   "section.key=value, over the values of configurations; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--batches", options->config.batches,
                   "Batches of a configuration's first epoch that are a round")
      ->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda or cuda:N instead of what is named");
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 instead of what is named");
  command->add_option("--repeats", options->repeats, "Timed steps of a shape, or rounds")
      ->capture_default_str();
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
      "is that of a token in the last step.\n"
      "Of a configuration, a round is the first batches of its first epoch, which lie ready on\n"
      "the host, at its rate, clipping, and optimiser; ms is a step's mean, tokens are counted\n"
      "before padding.\n\n"
      "  sluice bench train --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16\n"
      "  bench/peers/torch_seq2seq_train.py --shapes bench/shapes/chat.shapes --device cuda \\\n"
      "    --dtype bfloat16\n"
      "  sluice bench train --config examples/smiles.toml --device cuda --dtype bfloat16");
  command->callback([options] {
    if (options->shapes.empty() && options->config.paths.empty()) {
      throw CLI::RequiredError("--shapes or --config");
    }
    if (options->shapes.empty()) {
      sluice::bench::train::run_config_bench(*options, std::cout);
    } else {
      sluice::bench::train::run_train_bench(*options, std::cout);
    }
  });
}

}  // namespace sluice::app
