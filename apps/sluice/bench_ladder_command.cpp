#include <iostream>
#include <memory>

#include "bench/five_forms.h"
#include "bench/ladder.h"
#include "bench_commands.h"
#include "profile_options.h"

namespace sluice::app {
namespace {

template <typename Options>
void add_common(CLI::App* command, const std::shared_ptr<Options>& options) {
  command->add_option("--dtype", options->dtype, "float32, tf32, bfloat16 or float16")
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed rounds; each runs every implementation")
      ->capture_default_str();
  command->add_option("--shapes", options->shapes,
                      "Use the first shape of this file instead; see bench/shapes/");
  command->add_option("--json", options->json, "File for the results, as of bench lstm");
}

}  // namespace

void add_bench_ladder(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::LadderOptions>();
  CLI::App* command = bench.add_subcommand(
      "ladder", "Speed of each optimisation of the recurrent layers, one after the other");
  command->add_option("--device", options->device, "cuda, cuda:N or cpu")->capture_default_str();
  command->add_option("--pass", options->passes, "all, forward or forward+backward")
      ->capture_default_str();
  add_common(command, options);
  add_profile_options(*command, options->profile, kProfiledTurns);
  command->footer(
      "Runs an LSTM of 4 layers, T100 B64 I512 H512, with each variant that the device has.\n"
      "Prints GFLOP/s and the speed-up over the first variant. On a GPU: baseline, combined-gemm,\n"
      "streamed-gemm, fused-pointwise, pretransposed, combined-inputs, wavefront, fused-step,\n"
      "graph, persistent-cluster, persistent-wide; then cudnn-*, plain and captured in a CUDA\n"
      "graph (+graph). On the CPU: portable, avx2, avx512, amx; then onednn. bench lstm --impl\n"
      "takes each variant by name.\n\n"
      "  sluice bench ladder --dtype bfloat16 --json ladder.json\n"
      "  sluice bench ladder --device cpu --pass forward --repeats 1");
  command->callback([options] { sluice::bench::run_ladder(*options, std::cout); });
}

void add_bench_table(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::FiveFormsOptions>();
  CLI::App* command =
      bench.add_subcommand("table", "Five forms of an LSTM layer, on the CPU and on a GPU");
  command->add_option("--device", options->device, "Device of the GPU column: cuda or cuda:N")
      ->capture_default_str();
  command->add_option("--pass", options->pass, "forward or forward+backward")
      ->capture_default_str();
  add_common(command, options);
  command->footer(
      "The five forms of LSTMs in TensorFlow 1, measured on an LSTM T100 B64 I512 H512 with the\n"
      "implementation of Sluice that has that form. The first one that accepts the workload\n"
      "counts, plain or +graph, whichever is faster, and is named next to its time:\n\n"
      "  form        GPU                                      CPU\n"
      "  Basic       baseline                                 portable\n"
      "  LSTMCell    combined-gemm                            avx2\n"
      "  Block       fused-pointwise                          avx512\n"
      "  BlockFused  persistent-cluster, else                 amx\n"
      "              combined-inputs, plain or +graph\n"
      "  cuDNN       cudnn-standard, plain or +graph          onednn\n"
      "  Sluice      what --impl auto picks                   the same\n\n"
      "A CPU has no kernel launches to fuse; its forms go from plain C++ to tile registers. A "
      "form\n"
      "that cannot run here is -, with the reason above the table.\n\n"
      "  sluice bench table\n"
      "  sluice bench table --dtype bfloat16 --pass forward+backward --json table.json");
  command->callback([options] { sluice::bench::run_five_forms(*options, std::cout); });
}

}  // namespace sluice::app
