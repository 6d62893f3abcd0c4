#include <filesystem>
#include <iostream>
#include <memory>

#include "bench/scaling/scaling_bench.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_scaling(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::scaling::ScalingOptions>();
  options->devices = {"cuda:all"};
  CLI::App* command =
      bench.add_subcommand("scaling", "Training steps on one device and on several");
  CLI::Option* shapes = command->add_option(
      "--shapes", options->shapes, "Shape file of seq2seq models; see bench/shapes/chat.shapes");
  CLI::Option* configs =
      command
          ->add_option("--config", options->configs,
                       "A training configuration (TOML), whose batches are dealt; may be repeated")
          ->allow_extra_args(false);
  command
      ->add_option("--devices", options->devices,
                   "The devices, as machine.devices: cuda:0,cuda:1, cuda:all or cpu,cpu")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--counts", options->counts,
                   "Numbers of devices to measure, of which the first are taken (default: 1, 2, "
                   "4 and so on)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 (default: as shapes and "
                      "configurations say)");
  command->add_flag("--bfloat16-exchange", options->bfloat16_exchange,
                    "Round gradients to bfloat16 while they travel (distributed.exchange)");
  command->add_flag("--shard", options->shard,
                    "Each steps its part of the parameters (distributed.shard)");
  command->add_option("--repeats", options->repeats, "Timed steps, or timed rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--epoch", options->epoch, "Examples of an epoch")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--forecast", options->forecasts, "Numbers of devices to forecast")
      ->check(CLI::PositiveNumber)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command
      ->add_option("--host-devices", options->network.host_devices,
                   "In the forecast: devices of a host")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--network", options->network.gigabytes,
                   "In the forecast: gigabytes per second and device between hosts")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--latency", options->network.microseconds,
                   "In the forecast: microseconds of a message between hosts")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  command->footer(
      "Runs bench train on each number of devices: first with the batch of a shape on each, then\n"
      "with that batch for all together. A configuration's batches are dealt to all. ms is a "
      "step;\n"
      "exchange is the share of it that steps without an exchange would save; all-reduce is the\n"
      "time of a sum of all gradients alone.\n\n"
      "The forecast takes the step without an exchange, and the exchange as a share of an\n"
      "all-reduce, both from the fewest devices that exchange. Within a host the all-reduce has "
      "the\n"
      "measured bandwidth; between hosts each device moves its share over the network, by a ring "
      "or\n"
      "by a tree.\n\n"
      "  sluice bench scaling --shapes bench/shapes/chat.shapes --dtype bfloat16\n"
      "  sluice bench scaling --config examples/dates.toml --devices cpu,cpu");
  command->callback([options, shapes, configs] {
    if (!*shapes && !*configs) throw CLI::RequiredError("--shapes or --config");
    options->program = std::filesystem::read_symlink("/proc/self/exe");
    sluice::bench::scaling::run_scaling_bench(*options, std::cout);
  });
}

}  // namespace sluice::app
