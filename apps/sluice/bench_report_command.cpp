#include <iostream>
#include <memory>

#include "bench/report/report.h"
#include "bench_commands.h"

namespace sluice::app {

void add_bench_report(CLI::App& bench) {
  const auto options = std::make_shared<sluice::bench::report::ReportOptions>();
  CLI::App* command = bench.add_subcommand(
      "report", "Join results of Sluice and of peers into one table and a page with plots");
  const auto pages = std::make_shared<std::vector<std::string>>();
  const auto check = std::make_shared<bool>(false);
  command->add_option("FILES", options->files, "Files that --json wrote, here and in bench/peers/");
  command->add_option("--join", options->join,
                      "Write all results to this one file; FILES may name it later");
  CLI::Option* page = command->add_option(
      "--page", *pages, "Update the tables and pictures of this Markdown page; may be repeated");
  command->add_flag("--check", *check, "Only say whether those of --page are up to date")
      ->needs(page);
  command->add_option("--html", options->html,
                      "Write a self-contained page with plots to this file");
  command->footer(
      "Compares results of the same name, sizes, dtype, pass and device; on the CPU also of the\n"
      "same processor and number of threads. The fastest peer of all files is compared with what\n"
      "--impl auto picks and with the fastest implementation of Sluice. A ratio is time of the\n"
      "peer / own time: above 1, Sluice is faster. Where both took turns (bench/peers/turns.py),\n"
      "it is the median of the turns' ratios. Geometric means over the workloads come last.\n\n"
      "  sluice bench lstm --shapes bench/shapes/named.shapes --device cuda --json own.json\n"
      "  bench/peers/torch_recurrent.py --shapes bench/shapes/named.shapes --device cuda \\\n"
      "    --json torch.json\n"
      "  sluice bench report own.json torch.json --html report.html\n\n"
      "A page's table stands between '<!-- table KIND FILE [cell=A,B] [dtype=..] [pass=..]\n"
      "[name=..] -->' and '<!-- end of table -->', lines of their own. Kinds: ratios (workloads "
      "by\n"
      "dtype), means (geometric means of each cell, dtype and pass), peers (the same of each "
      "peer)\n"
      "and times (milliseconds and memory). '<!-- ratio FILE name=.. -->3.5<!-- end -->'\n"
      "is a single number, '<!-- picture PATH FILE [cell=..] -->' an SVG file with the ratios as\n"
      "bars. Paths are from the working folder.\n\n"
      "  sluice bench report own.json torch.json --join all.json\n"
      "  sluice bench report --page docs/performance.md");
  command->callback([options, pages, check] {
    if (options->files.empty() && pages->empty()) throw CLI::RequiredError("FILES or --page PAGE");
    if (!pages->empty()) sluice::bench::report::run_page_tables(*pages, *check, std::cout);
    if (!options->files.empty()) sluice::bench::report::run_report(*options, std::cout);
  });
}

}  // namespace sluice::app
