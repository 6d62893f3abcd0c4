#include <iostream>
#include <memory>

#include "bench/train/train_bench.h"
#include "bench_commands.h"
#include "own_command.h"
#include "profile_options.h"

namespace sluice::app {

void add_bench_train(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::train::TrainBenchOptions>();
  CLI::App* command = bench.add_subcommand("train", "Whole training steps of a model");
  CLI::Option* shapes = command->add_option(
      "--shapes", options->shapes, "Shape file of seq2seq models; see bench/shapes/chat.shapes");
  command
      ->add_option("--config", options->config.paths,
                   "Instead of shapes: a training configuration (TOML) of any kind of model; may "
                   "be repeated")
      ->allow_extra_args(false)
      ->excludes(shapes);
  command
      ->add_option("--set", options->config.overrides,
                   "section.key=value, replaces values of the configurations; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--batches", options->config.batches,
                   "Batches in a round, from the first epoch of a configuration")
      ->capture_default_str();
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N (default: as the shapes or the configuration say)");
  CLI::Option* devices =
      command
          ->add_option(
              "--devices", options->devices,
              "Devices that train together, such as cuda:0,cuda:1 or cpu,cpu: each has a batch "
              "of the shape, or its share of a configuration's")
          ->delimiter(',')
          ->allow_extra_args(false);
  CLI::Option* bfloat16 =
      command
          ->add_flag("--bfloat16-exchange", options->exchange.bfloat16,
                     "With --devices: round gradients to bfloat16 while they travel "
                     "(distributed.exchange)")
          ->needs(devices);
  CLI::Option* shard =
      command
          ->add_flag("--shard", options->exchange.shard,
                     "With --devices: each steps its part of the parameters (distributed.shard)")
          ->needs(devices);
  command
      ->add_flag("--whole-batch", options->whole_batch,
                 "With --devices: a shape's batch is that of all devices, not of each")
      ->needs(devices)
      ->needs(shapes);
  CLI::Option* async =
      command
          ->add_option("--async", options->async_seconds,
                       "With --devices: for so many seconds, steps of shared parameters without "
                       "waiting for each other (distributed.mode = async)")
          ->check(CLI::PositiveNumber)
          ->needs(devices)
          ->needs(shapes)
          ->excludes(bfloat16)
          ->excludes(shard);
  command
      ->add_option("--slow", options->slow,
                   "With --async: then again with a rank that takes longer, such as 1=3: rank 1 "
                   "three times as long; may be repeated")
      ->allow_extra_args(false)
      ->needs(async);
  command->add_option(
      "--dtype", options->dtype,
      "float32, tf32, bfloat16 or float16 (default: as the shapes or the configuration say)");
  command->add_option("--repeats", options->repeats, "Timed steps per shape, or timed rounds")
      ->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  add_profile_options(*command, options->profile,
                      "steps of each implementation after the timed ones (default: 1:3)");
  command->footer(
      "A shape file has one shape per line: name key=value ... Keys are cell (lstm or gru),\n"
      "vocabulary (of each side), embedding, hidden, layers (of encoder and decoder), directions\n"
      "(of the encoder, which share its units), attention (additive or multiplicative), dropout,\n"
      "batch (pairs), source_time, target_time, dtype, seed, device. Missing keys are as in the\n"
      "workload chat.\n\n"
      "A step uploads new random tokens of full length, clears the gradients, and runs forward,\n"
      "backward, clipping to a norm of 5 and Adam. On a GPU it runs twice: queued operation by\n"
      "operation, and captured in a CUDA graph (+graph). Times are medians by CUDA events. Peak\n"
      "MiB is the maximum memory of model, optimiser and plans. The loss is per token, of the\n"
      "last step.\n\n"
      "For a configuration, a round is the first batches of its first epoch, ready on the host,\n"
      "with its learning rate, clipping and optimiser. ms is the mean per step; tokens are "
      "counted\n"
      "without padding.\n\n"
      "  sluice bench train --shapes bench/shapes/chat.shapes --device cuda --dtype bfloat16\n"
      "  bench/peers/torch_seq2seq_train.py --shapes bench/shapes/chat.shapes --device cuda \\\n"
      "    --dtype bfloat16\n"
      "  sluice bench train --config examples/smiles.toml --device cuda --dtype bfloat16");
  command->callback([options] {
    if (options->shapes.empty() && options->config.paths.empty()) {
      throw CLI::RequiredError("--shapes or --config");
    }
    options->command = own_command();
    if (options->shapes.empty()) {
      sluice::bench::train::run_config_bench(*options, std::cout);
    } else if (options->async_seconds > 0) {
      sluice::bench::train::run_async_bench(*options, std::cout);
    } else {
      sluice::bench::train::run_train_bench(*options, std::cout);
    }
  });
}

}  // namespace sluice::app
