#include <cstdio>
#include <memory>

#include "commands.h"
#include "output.h"
#include "sluice/data.h"
#include "sluice/data_statistics.h"
#include "sluice/error.h"
#include "sluice/text.h"

namespace sluice::app {
namespace {

void add_ids(CLI::App& data) {
  struct Options {
    TrainRequest request;
    std::string directory;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* ids = data.add_subcommand("ids", "Write the examples as token ids");
  ids->add_option("config", options->request.config_path, "Configuration (TOML), as for train")
      ->required();
  ids->add_option("--set", options->request.overrides,
                  "section.key=value, replaces the file's value; may be repeated")
      ->allow_extra_args(false);
  ids->add_option("-o,--output", options->directory,
                  "Folder for train.ids, valid.ids and vocabularies")
      ->required();
  ids->footer(
      "A file begins with the line `# vocabulary SOURCE TARGET`. Each further line is an example:\n"
      "two columns of ids, separated by a TAB. They are source and target (seq2seq), tokens and\n"
      "labels (tagger, classifier), or inputs and targets (language_model). source.vocab,\n"
      "target.vocab and labels.txt, where the kind has them, list what the ids stand for, one per\n"
      "line, id 0 first. The command prints the number of rows and ids of each column.\n\n"
      "  sluice data ids examples/zh_chat.toml -o runs/zh_chat.ids");
  ids->callback([options] {
    const ExportedIds exported = export_ids(options->request, options->directory);
    for (const IdsFile& file : exported.ids) {
      std::printf("%s: %s, %lld and %s\n", file.path.c_str(), counted(file.rows, "row").c_str(),
                  static_cast<long long>(file.first_ids), counted(file.second_ids, "id").c_str());
    }
    for (const VocabularyFile& file : exported.vocabularies) {
      std::printf("%s: what ids 0 to %lld stand for\n", file.path.c_str(),
                  static_cast<long long>(file.size - 1));
    }
  });
}

struct StatsOptions {
  std::vector<std::string> inputs;
  std::vector<std::string> overrides;
  std::string format;
  bool json = false;
};

DataStatistics statistics_of(const StatsOptions& options) {
  const bool is_config = options.inputs.size() == 1 && options.inputs.front().ends_with(".toml");
  if (!is_config && !options.overrides.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--set is for a configuration, a file whose name ends with .toml");
  }
  if (!is_config) return data_statistics(options.inputs, options.format);
  TrainRequest request;
  request.config_path = options.inputs.front();
  request.overrides = options.overrides;
  return data_statistics(request);
}

void add_stats(CLI::App& data) {
  const auto options = std::make_shared<StatsOptions>();
  CLI::App* stats = data.add_subcommand(
      "stats", "Count examples, lengths, unknown tokens, duplicates, bad lines");
  stats
      ->add_option(
          "inputs", options->inputs,
          "A configuration (TOML) as for train, or files of examples, or folders of .npy files")
      ->required();
  stats
      ->add_option(
          "--set", options->overrides,
          "With a configuration: section.key=value, replaces the file's value; may be repeated")
      ->allow_extra_args(false);
  stats
      ->add_option("--format", options->format,
                   "Contents of the files (default by name: .tsv pairs, .csv a table with the "
                   "columns text and label, .npy and .npz arrays, .conll conll, others text)")
      ->check(CLI::IsMember({"pairs", "text", "conll", "table", "arrays"}));
  stats->add_flag("--json", options->json, "Print everything as JSON");
  stats->footer(
      "With a configuration, it counts the tokens that training would see, and what training "
      "would\n"
      "leave out or refuse. With files, tokens are separated by spaces. Bad lines do not stop it:\n"
      "each is listed with its number and its error.\n\n"
      "  sluice data stats examples/zh_chat.toml\n"
      "  sluice data stats train.tsv valid.tsv\n"
      "  sluice data stats train.conll --json > stats.json");
  stats->callback([options] {
    const DataStatistics statistics = statistics_of(*options);
    const std::string text = options->json ? to_json(statistics) : to_text(statistics);
    write_output({}, text);
  });
}

}  // namespace

void add_data(CLI::App& program) {
  CLI::App* data = program.add_subcommand("data", "Show what training sees of its data");
  data->require_subcommand(1);
  data->footer("  sluice data ids --help\n  sluice data stats --help");
  add_ids(*data);
  add_stats(*data);
}

}  // namespace sluice::app
