#pragma once

#include <CLI/CLI.hpp>

namespace sluice::app {

/// Ends the program with this code: thrown by a command that has said what there is to say.
struct Exit {
  int code;
};

/// Each adds one command to the program; its action runs when the command line names it.
void add_train(CLI::App& program);
void add_decode(CLI::App& program);
void add_chat(CLI::App& program);
void add_generate(CLI::App& program);
void add_score(CLI::App& program);
void add_classify(CLI::App& program);
void add_run(CLI::App& program);
void add_tag(CLI::App& program);
void add_evaluate(CLI::App& program);
void add_average(CLI::App& program);
void add_check(CLI::App& program);
void add_export_embeddings(CLI::App& program);
/// `program` must outlive its parsing.
void add_reference(CLI::App& program);
void add_quantize(CLI::App& program);
void add_convert(CLI::App& program);
void add_report(CLI::App& program);
void add_info(CLI::App& program);
void add_data(CLI::App& program);
void add_bench(CLI::App& program);
void add_demo(CLI::App& program);

}  // namespace sluice::app
