#include "sluice/data.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "api/train_request.h"
#include "base/check.h"
#include "io/directory_swap.h"
#include "sluice/text.h"
#include "training/task.h"

namespace sluice {
namespace {

using Ids = std::vector<std::int32_t>;
using model_files::Vocabulary;

/// Which of a batch's tokens are a line's two columns.
struct Columns {
  const Ids &first, &first_lengths, &second, &second_lengths;
  std::int32_t unwritten_end;  ///< of the second column: its eos, where that goes without saying
};

Columns columns_of(const data::Batch& batch, const model_files::Tokenizers& tokenizers) {
  if (!tokenizers.source) {
    return {batch.target_in, batch.target_lengths, batch.target_out, batch.target_lengths, 0};
  }
  const bool is_text = tokenizers.target != nullptr;
  return {batch.source, batch.source_lengths, batch.target_out, batch.target_lengths, is_text};
}

std::string column(const Ids& batch, std::size_t rows, std::size_t row, std::int32_t length) {
  std::string text;
  for (std::size_t t = 0; t < static_cast<std::size_t>(length); ++t) {
    text += fmt::format("{}{}", t > 0 ? " " : "", batch[t * rows + row]);
  }
  return text;
}

std::string header_of(const data::Examples& examples, const model_files::Tokenizers& tokenizers) {
  const bool has_source = tokenizers.source != nullptr, has_labels = tokenizers.labels != nullptr;
  std::string header = fmt::format(
      "# vocabulary {} {}", tokenizers.size(has_source ? Vocabulary::kSource : Vocabulary::kTarget),
      tokenizers.size(has_labels ? Vocabulary::kLabels : Vocabulary::kTarget));
  if (examples.rows_in_order() > 0) header += fmt::format(" rows {}", examples.rows_in_order());
  return header + "\n";
}

IdsFile write_ids(const std::filesystem::path& path, const data::Examples& examples,
                  const model_files::Tokenizers& tokenizers) {
  std::string text = header_of(examples, tokenizers);
  IdsFile file{path.string(), examples.size()};
  const std::int64_t at_once = std::max<std::int64_t>(examples.rows_in_order(), 1);
  for (std::int64_t first = 0; first < examples.size(); first += at_once) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(at_once));
    std::iota(rows.begin(), rows.end(), first);
    const data::Batch batch = examples.assemble(rows);
    const Columns columns = columns_of(batch, tokenizers);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::int32_t fed = columns.first_lengths[row];
      const std::int32_t wanted = columns.second_lengths[row] - columns.unwritten_end;
      text += column(columns.first, rows.size(), row, fed) + '\t' +
              column(columns.second, rows.size(), row, wanted) + '\n';
      file.first_ids += fed;
      file.second_ids += wanted;
    }
  }
  write_text(path.string(), text);
  return file;
}

VocabularyFile write_vocabulary(const std::filesystem::path& folder,
                                const model_files::Tokenizers& tokenizers, Vocabulary vocabulary) {
  const bool labels = vocabulary == Vocabulary::kLabels;
  const data::Tokenizer* tokenizer =
      (vocabulary == Vocabulary::kSource ? tokenizers.source : tokenizers.target).get();
  const std::int32_t size = tokenizers.size(vocabulary);
  std::string text;
  for (std::int32_t id = 0; id < size; ++id) {
    text += (labels ? tokenizers.labels->name(id) : tokenizer->piece(id)) + "\n";
  }
  const std::filesystem::path path =
      folder /
      (labels ? "labels.txt" : fmt::format("{}.vocab", model_files::side_name(vocabulary)));
  write_text(path.string(), text);
  return {path.string(), size};
}

}  // namespace

ExportedIds export_ids(const TrainRequest& request, const std::string& directory) {
  const training::TrainConfig config = api::config_of(request);
  std::optional<training::Progress> progress;
  if (!request.quiet) progress = training::Progress::for_standard_error();
  const training::TrainData data = api::read_data(config, nullptr, progress ? &*progress : nullptr);
  const model_files::Tokenizers& tokenizers = data.tokenizers;
  SLUICE_CHECK(tokenizers.source || tokenizers.target,
               "model.kind is '{}', whose examples are numbers, not tokens with ids",
               config.model.kind);
  io::make_directory(directory);
  const std::filesystem::path folder(directory);
  ExportedIds exported;
  exported.ids.push_back(write_ids(folder / "train.ids", *data.train, tokenizers));
  if (data.validation) {
    exported.ids.push_back(write_ids(folder / "valid.ids", *data.validation, tokenizers));
  }
  for (const Vocabulary vocabulary : model_files::kVocabularies) {
    if (tokenizers.has(vocabulary)) {
      exported.vocabularies.push_back(write_vocabulary(folder, tokenizers, vocabulary));
    }
  }
  return exported;
}

}  // namespace sluice
