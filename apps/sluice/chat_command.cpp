#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>

#include "commands.h"
#include "decode_options.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/error.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  DecodeFlags flags;
};

void run(const Options& options) {
  SequenceModel model = SequenceModel::load(options.model, options.placement, options.segmenters);
  DecodeOptions decode = options.flags.options();
  if (!options.flags.prefix.empty()) decode.prefixes = {options.flags.prefix};
  if (!options.flags.words.forced.empty()) decode.forced = {options.flags.words.forced};
  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  if (at_terminal) std::printf("One line is one turn; an empty line or Ctrl-D ends.\n");
  while (true) {
    if (at_terminal) std::printf("> ");
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line) || (at_terminal && line.empty())) return;
    try {
      const std::vector<Decoded> decoded = model.decode({&line, 1}, decode);
      // Each line is a call of its own. With the same seed, all would get the same random numbers.
      if (decode.sample) ++decode.sample->seed;
      const std::vector<Hypothesis>& answers = decoded.front().hypotheses;
      // Why there is none is a warning.
      std::printf("%s\n", answers.empty() ? "" : answers.front().text.c_str());
    } catch (const Error& error) {
      // The line itself may be at fault, so the conversation goes on. It ends if the GPU is lost.
      if (!at_terminal || error.code() == ErrorCode::kDeviceLost) throw;
      std::fprintf(stderr, "sluice: %s\n", error.what());
    }
  }
}

}  // namespace

void add_chat(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("chat", "Talk to a model, line by line");
  add_model_argument(*command, options->model)->required();
  add_placement_options(*command, options->placement);
  add_segmenter_options(*command, options->segmenters, true, true);
  add_decode_options(*command, options->flags);
  command->footer(
      "  sluice chat runs/demo/best\n"
      "  echo 'the 5th of March, 1994' | sluice chat runs/demo/best --beam 1\n"
      "  sluice chat runs/zh/best --source-segmenter \"python3 -m jieba -d ' '\"\n"
      "  sluice chat runs/chat/best --sample --temperature 0.8 --top-p 0.9 --seed 7");
  command->callback([options] { run(*options); });
}

}  // namespace sluice::app
