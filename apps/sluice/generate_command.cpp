#include <cstdio>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "decode_options.h"
#include "output.h"
#include "placement_options.h"
#include "segmenter_options.h"
#include "sluice/language_model.h"
#include "state_options.h"
#include "word_options.h"

namespace sluice::app {
namespace {

struct Options {
  std::string model;
  Placement placement;
  SegmenterChoice segmenters;
  std::string output;
  std::string format = "text";
  bool scores = false;
  BeamOptions beam;
  bool search = false;
  GenerateOptions generate;
  std::string features;
  WordFlags words;
};

std::string format_text(const Options& options, const Hypothesis& text) {
  if (options.format == "json") return to_json(text) + "\n";
  if (!options.scores) return text.text + "\n";
  char score[32];
  std::snprintf(score, sizeof score, "%.5f\t", text.score);
  return score + text.text + "\n";
}

/// Where the state waits until the texts are written: one that went on without them would lose
/// them.
class WaitingState {
 public:
  explicit WaitingState(std::string path) : path_(std::move(path)) {}
  ~WaitingState() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(waiting(), ignored);
  }
  WaitingState(const WaitingState&) = delete;
  WaitingState& operator=(const WaitingState&) = delete;

  std::string waiting() const { return path_.empty() ? path_ : path_ + ".waiting"; }
  void take_up() const {
    if (!path_.empty()) std::filesystem::rename(waiting(), path_);
  }

 private:
  std::string path_;
};

void run(const Options& options) {
  require_two_files(options.output, options.generate.save_state);
  require_outputs({options.output, options.generate.save_state});
  LanguageModel model = LanguageModel::load(options.model, options.placement, options.segmenters);
  GenerateOptions generate = options.generate;
  const WaitingState state(generate.save_state);
  generate.save_state = state.waiting();
  if (options.search) {
    generate.search = options.beam;
    generate.search->forced = options.words.forced;
  }
  generate.banned = options.words.all_banned();
  generate.no_repeat = options.words.no_repeat;
  if (!options.features.empty()) generate.features = read_feature_vectors(options.features);
  std::string all;
  for (const Hypothesis& text : model.generate(generate)) all += format_text(options, text);
  write_output(options.output, all);
  state.take_up();
}

/// Those of a search, and those that it refuses.
void add_search_options(CLI::App& command, Options& options, CLI::Option* samples,
                        CLI::Option* seed, CLI::Option* state) {
  CLI::Option* beam =
      command
          .add_option(
              "--beam", options.beam.beam,
              "Search for the most probable texts with this many beams instead of drawing texts")
          ->excludes(samples)
          ->excludes(seed)
          ->excludes(state);
  for (const char* drawing :
       {"--temperature", "--top-k", "--top-p", "--without-replacement", "--save-state"}) {
    beam->excludes(command.get_option(drawing));
  }
  command.add_option("--nbest", options.beam.nbest, "Texts of a search to print, best first")
      ->capture_default_str()
      ->needs(beam);
  command
      .add_option("--length-penalty", options.beam.length_penalty,
                  "Texts of a search compete by score / ((5 + length) / 6)^PENALTY; 0 for none")
      ->capture_default_str()
      ->needs(beam);
  add_group_options(command, options.beam.groups, options.beam.diversity);
  add_word_options(command, options.words);
  for (const char* searching : {"--groups", "--force"}) command.get_option(searching)->needs(beam);
  for (const char* held : {"--ban", "--banned", "--no-repeat", "--without-replacement"}) {
    state->excludes(command.get_option(held));
    command.get_option("--save-state")->excludes(command.get_option(held));
  }
}

void add_options(CLI::App& command, Options& options) {
  GenerateOptions& generate = options.generate;
  add_model_argument(command, options.model)->required();
  command.add_option("-o,--output", options.output,
                     "File for the texts (default: standard output)");
  add_placement_options(command, options.placement);
  add_segmenter_options(command, options.segmenters, false, true);
  CLI::Option* samples = command.add_option("--samples", generate.sample.samples, "Texts to draw")
                             ->capture_default_str();
  add_drawing_options(command, generate.sample);
  CLI::Option* seed = command.get_option("--seed");
  CLI::Option* prefix =
      command.add_option("--prefix", generate.prefix, "Text that every answer must begin with");
  CLI::Option* features = command.add_option(
      "--features", options.features,
      "For a model trained with data.features: the vectors to write texts for, a .npy "
      "or .npz file or a folder; --samples texts are drawn for each");
  command.add_option("--min-length", generate.min_length, "Minimum number of tokens of a text")
      ->capture_default_str();
  command
      .add_option("--max-length", generate.max_length,
                  "Maximum number of tokens of a text; a text that has not ended is cut there")
      ->capture_default_str();
  command.add_option("--batch", generate.batch, "Texts drawn together; 0: 256")
      ->capture_default_str();
  CLI::Option* state = command
                           .add_option("--state", generate.state,
                                       "Continue the texts of a file that --save-state wrote")
                           ->check(refuse_no_name, "")
                           ->excludes(samples)
                           ->excludes(seed)
                           ->excludes(prefix)
                           ->excludes(features);
  command
      .add_option(
          "--save-state", generate.save_state,
          "Store in this file where the cut texts stand; --state continues them on any device")
      ->check(refuse_no_name, "");
  add_search_options(command, options, samples, seed, state);
  command
      .add_option("--format", options.format,
                  "text; or json: one object per text, with its score and tokens")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command.add_flag("--scores", options.scores, "Print log p before each text, tab-separated");
}

}  // namespace

void add_generate(CLI::App& program) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("generate", "Write texts with a language model");
  add_options(*command, *options);
  command->footer(
      "  sluice generate runs/smiles/best --samples 10\n"
      "  sluice generate runs/charlm/best --prefix 'ROMEO:' --temperature 0.8 --seed 7\n"
      "  sluice generate runs/charlm/best --max-length 500 --save-state play.state\n"
      "  sluice generate runs/charlm/best --max-length 500 --state play.state\n"
      "  sluice generate runs/smiles/best --beam 10 --nbest 10 --scores\n"
      "  sluice generate runs/smiles/best --samples 50 --without-replacement\n"
      "  sluice generate runs/charlm/best --beam 8 --force 'night' --ban 'day' --no-repeat 8\n"
      "  sluice generate runs/captions/best --features images.npy --beam 5");
  command->callback([command, options] {
    options->search = command->count("--beam") > 0;
    run(*options);
  });
}

}  // namespace sluice::app
