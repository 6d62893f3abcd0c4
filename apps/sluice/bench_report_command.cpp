#include <iostream>
#include <memory>

#include "bench/report/report.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_report(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::report::ReportOptions>();
  CLI::App* command = bench.add_subcommand(
      "report", "Join results, ours and those of peers, into one table and a page with plots");
  command->add_option("FILES", options->files, "What --json wrote, here and in bench/peers/")
      ->required();
  command->add_option("--html", options->html, "File for the page, which needs no other file");
  command->footer(
      "Results of the same name, sizes, dtype, pass and device (and, on the CPU, of the same\n"
      "model and number of threads) are compared: the fastest peer of all files with what Sluice\n"
      "picks by itself and with its fastest implementation. Ratios are time of the peer / own\n"
      "time, so above 1 is faster. Geometric means over the workloads stand at the end.\n\n"
      "  sluice bench lstm --shapes bench/shapes/named.shapes --device cuda --json own.json\n"
      "  bench/peers/torch_recurrent.py --shapes bench/shapes/named.shapes --device cuda \\\n"
      "    --json torch.json\n"
      "  sluice bench report own.json torch.json --html report.html");
  command->callback([options] { sluice::bench::report::run_report(*options, std::cout); });
}

}  // namespace sluice::app
