#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "bench/commit.h"
#include "commands.h"
#include "help.h"
#include "sluice/error.h"

namespace {

constexpr const char* kFooter = R"(Start here:
  sluice demo                          train a small model and see it answer (under a minute)
  sluice train --example > task.toml   a configuration with every key explained
  sluice train task.toml               train; Ctrl-C stops, the same command resumes
  sluice decode runs/model/best < in   answer one line of text for each line
  sluice COMMAND --help                everything about one command

Exit codes: 0 success; 1 an error, or sluice check found a difference; 2 a wrong command line;
3 the GPU failed: restart the program)";

/// Exit code of a GPU that failed for good: the same command, started anew, may succeed. Others: 0,
/// success; 1, an error; 2, a command line that can't be.
constexpr int kDeviceLost = 3;

/// What names no command, or stops short of one; the exit code if that settled it.
std::optional<int> answer_words(const CLI::App& program, int argc, char** argv) {
  const sluice::app::CommandWords words = sluice::app::command_words(program, argc, argv);
  if (words.unknown) {
    std::fprintf(stderr, "sluice: error: %s\n",
                 sluice::app::unknown_command_message(words).c_str());
    return 2;
  }
  if (!words.ends_early) return std::nullopt;
  std::fputs(words.command->help().c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App program("Sluice trains and runs recurrent sequence models (LSTM, GRU, plain RNN).",
                   "sluice");
  program.formatter(std::make_shared<sluice::app::HelpFormatter>());
  program.set_help_flag("-h,--help", "Print this help");
  program.require_subcommand(1);
  program.set_version_flag(
      "--version", std::string("sluice " SLUICE_VERSION ", commit ") + sluice::bench::commit(),
      "Print version and commit");
  program.footer(kFooter);
  try {
    sluice::app::add_demo(program);
    sluice::app::add_train(program);
    sluice::app::add_decode(program);
    sluice::app::add_chat(program);
    sluice::app::add_generate(program);
    sluice::app::add_score(program);
    sluice::app::add_classify(program);
    sluice::app::add_run(program);
    sluice::app::add_tag(program);
    sluice::app::add_evaluate(program);
    sluice::app::add_check(program);
    sluice::app::add_average(program);
    sluice::app::add_quantize(program);
    sluice::app::add_convert(program);
    sluice::app::add_report(program);
    sluice::app::add_export_embeddings(program);
    sluice::app::add_info(program);
    sluice::app::add_data(program);
    sluice::app::add_bench(program);
    sluice::app::add_reference(program);
    if (const auto code = answer_words(program, argc, argv)) return *code;
    int code = 0;
    try {
      program.parse(argc, argv);
    } catch (const sluice::app::Exit& end) {
      code = end.code;
    }
    // Answers that were lost on a full disk must not look like success.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw sluice::Error(sluice::ErrorCode::kIo, "cannot write to standard output");
    }
    return code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // help, or the version
    const auto words = sluice::app::command_words(program, argc, argv);
    std::fprintf(stderr, "sluice: error: %s\n",
                 sluice::app::usage_error_message(words, error).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: error: %s\n", error.what());
    const auto* own = dynamic_cast<const sluice::Error*>(&error);
    return own != nullptr && own->code() == sluice::ErrorCode::kDeviceLost ? kDeviceLost : 1;
  }
}
