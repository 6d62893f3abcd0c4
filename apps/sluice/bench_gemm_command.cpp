#include <iostream>
#include <memory>

#include "bench/gemm/gemm_bench.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_gemm(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::gemm::GemmBenchOptions>();
  CLI::App* command = bench.add_subcommand(
      "gemm", "Matrix libraries on the products that recurrent layers consist of");
  command->add_option("--shapes", options->shapes, "Shape file; see bench/shapes/")->required();
  command
      ->add_option("--lib", options->libraries,
                   "all, or some of sluice, onednn, openblas, mkl, eigen, separated by commas")
      ->capture_default_str();
  command->add_option("--device", options->device,
                      "cpu, cuda or cuda:N (default: as the shapes say)");
  command->add_option("--dtype", options->dtype,
                      "float32, tf32, bfloat16 or float16 (default: as the shapes say)");
  command
      ->add_option("--pass", options->pass,
                   "forward, or all: also the products of training, where a shape has them")
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "Timed rounds; each runs every library")
      ->capture_default_str();
  command->add_option("--json", options->json, "File for the results, for bench report");
  command->footer(
      "Products of each layer in the file's shapes (T steps, B rows, G gates, H hidden, I "
      "inputs):\n"
      "  input           inputs of all steps:      [T*B, I] x [I, G*H]\n"
      "  step            one step's recurrence:    [B, H] x [H, G*H]\n"
      "  step-backward   its gradient:             [B, G*H] x [G*H, H]\n"
      "  input-backward  gradient of the inputs:   [T*B, G*H] x [G*H, I]\n"
      "  gradient        gradient of the weights:  [G*H, T*B] x [T*B, I]\n"
      "Products of equal sizes are measured once. sluice is Sluice's own matrix product, used\n"
      "outside recurrent kernels (cuBLASLt on a GPU). On the CPU, oneDNN's matmul, OpenBLAS\n"
      "(libopenblas.so.0) and MKL (libmkl_rt.so.2 or .3) take part if they can be opened, and\n"
      "Eigen if it was there at build time. Errors compare 64 elements with sums in double\n"
      "precision.\n\n"
      "  sluice bench gemm --shapes bench/shapes/cpu.shapes --pass forward\n"
      "  sluice bench gemm --shapes bench/shapes/named.shapes --device cuda --dtype tf32");
  command->callback([options] { sluice::bench::gemm::run_gemm_bench(*options, std::cout); });
}

}  // namespace sluice::app
