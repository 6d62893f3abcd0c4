#include "training/example_reader.h"

#include <fmt/format.h>

#include "base/check.h"
#include "data/smiles_tokenizer.h"
#include "io/name_of_input.h"
#include "training/example_preparation.h"

namespace sluice::training {

ExampleReader::ExampleReader(const TrainConfig& config)
    : text_(!config.data.text.empty()), smiles_(config.tokenizer.kind == "smiles") {
  const std::vector<std::string> paths = files(config);
  SLUICE_CHECK(!paths.empty(),
               "no examples to train on: set data.tsv, or data.source and "
               "data.target, or, of a language model, data.text");
  require_files(paths);
  for (const std::string& path : paths) readers_.emplace_back(path);
}

std::vector<std::string> ExampleReader::files(const TrainConfig& config) {
  const DataConfig& data = config.data;
  if (!data.text.empty()) return {data.text};
  SLUICE_CHECK(data.tsv.empty() || (data.source.empty() && data.target.empty()),
               "data.tsv and data.source or target are both set; name the examples once");
  SLUICE_CHECK(data.source.empty() == data.target.empty(),
               "data.source and data.target belong together, but only one is set");
  if (!data.tsv.empty()) return {data.tsv};
  if (!data.source.empty()) return {data.source, data.target};
  return {};
}

std::optional<data::TextPair> ExampleReader::next() {
  if (readers_.size() == 2) return next_aligned();
  data::LineReader& reader = readers_.front();
  if (!text_) return data::next_tsv_pair(reader);
  const auto line = reader.next();
  if (!line) return std::nullopt;
  if (smiles_) {
    data::require_smiles(
        *line, fmt::format("{}, line {},", io::name_of_input(reader.path()), reader.line_number()));
  }
  return data::TextPair{"", std::string(*line)};
}

std::optional<data::TextPair> ExampleReader::next_aligned() {
  const auto source = readers_[0].next();
  const auto target = readers_[1].next();
  if (source.has_value() != target.has_value()) {
    const bool more = source.has_value();
    base::fail(ErrorCode::kFormat,
               "'{}' has more lines than the {} of '{}'; line-aligned files need the same number",
               readers_[more ? 0 : 1].path().string(), readers_[more ? 1 : 0].line_number(),
               readers_[more ? 1 : 0].path().string());
  }
  if (!source) return std::nullopt;
  return data::TextPair{std::string(*source), std::string(*target)};
}

}  // namespace sluice::training
