#include "training/tokenizer_options.h"

namespace sluice::training {

data::TokenizerOptions tokenizer_options(const TrainConfig& config, std::int64_t vocabulary) {
  const TokenizerConfig& tokenizer = config.tokenizer;
  data::TokenizerOptions options;
  const bool is_sentencepiece = tokenizer.kind == "bpe" || tokenizer.kind == "unigram";
  options.kind = is_sentencepiece ? "sentencepiece" : tokenizer.kind;
  options.vocabulary.max_size = vocabulary;
  options.vocabulary.min_count = tokenizer.min_count;
  options.sentencepiece.model =
      tokenizer.kind == "bpe" ? data::SentencePieceModel::kBpe : data::SentencePieceModel::kUnigram;
  options.sentencepiece.vocabulary_size = vocabulary;
  options.sentencepiece.character_coverage = tokenizer.character_coverage;
  options.sentencepiece.byte_fallback = tokenizer.byte_fallback;
  options.sentencepiece.normalization = tokenizer.normalization;
  options.sentencepiece.seed = static_cast<std::uint64_t>(config.loop.seed);
  return options;
}

}  // namespace sluice::training
