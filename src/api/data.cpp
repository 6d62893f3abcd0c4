#include "sluice/data.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "api/train_request.h"
#include "base/check.h"
#include "models/seq2seq_config.h"
#include "sluice/text.h"
#include "training/seq2seq_data.h"

namespace sluice {
namespace {

void write_ids(const std::filesystem::path& path, const data::PairCorpus& corpus,
               const training::Tokenizers& tokenizers) {
  std::string text =
      fmt::format("# vocabulary {} {}\n", tokenizers.source->size(), tokenizers.target->size());
  for (std::size_t i = 0; i < corpus.source.size(); ++i) {
    text +=
        fmt::format("{}\t{}\n", fmt::join(corpus.source[i], " "), fmt::join(corpus.target[i], " "));
  }
  write_text(path.string(), text);
}

}  // namespace

void export_ids(const TrainRequest& request, const std::string& directory) {
  const training::TrainConfig config = api::config_of(request);
  SLUICE_CHECK(config.model.kind == models::Seq2SeqConfig::kKind,
               "model.kind is '{}', but only pairs of texts, of a {}, are exported as ids",
               config.model.kind, models::Seq2SeqConfig::kKind);
  const training::Seq2SeqData data =
      training::make_seq2seq_data(config, training::read_text_data(config.data));
  std::filesystem::create_directories(directory);
  const std::filesystem::path folder(directory);
  write_ids(folder / "train.ids", data.train, data.tokenizers);
  if (data.validation.size() > 0) write_ids(folder / "valid.ids", data.validation, data.tokenizers);
}

}  // namespace sluice
