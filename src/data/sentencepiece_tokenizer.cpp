#include "data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "data/sentencepiece_check.h"
#include "data/shuffle.h"
#include "data/utf8.h"
#include "data/vocabulary.h"

namespace sluice::data {
namespace {

using Status = sentencepiece::util::Status;

/// Without the source line and condition that the library's sentences begin with, if more follows,
/// and without the full stop: the caller's sentence continues.
std::string_view reason_of(const Status& status) {
  const std::string_view whole = status.message();
  const std::size_t end = whole.rfind("] ");
  const bool more = end != std::string_view::npos && end + 2 < whole.size();
  std::string_view reason = more ? whole.substr(end + 2) : whole;
  if (reason.ends_with('.')) reason.remove_suffix(1);
  return reason;
}

void require_ok(const Status& status, ErrorCode code, std::string_view doing) {
  if (!status.ok()) base::fail(code, "SentencePiece cannot {}: {}", doing, reason_of(status));
}

/// Whether every normalization leaves something of the character: no space, control, format or
/// variation character, and none that the library keeps for itself.
bool is_visible(char32_t c) {
  if (c < 0x7F) return c > U' ';
  return c > 0xA0 && c != 0xAD && c != 0x34F && c != 0x61C && c != 0x1680 && c != 0x180E &&
         !(c >= 0x2000 && c <= 0x200F) && !(c >= 0x2028 && c <= 0x202F) &&
         !(c >= 0x205F && c <= 0x206F) && c != 0x2581 && c != 0x3000 &&
         !(c >= 0xFE00 && c <= 0xFE0F) && c != 0xFEFF && !(c >= 0xFFF0 && c <= 0xFFFF) &&
         c < 0xE0000;
}

/// Whether the trainer can use the line: it passes over lines with a TAB or with U+2585.
bool has_text(const std::string& line) {
  const std::vector<char32_t> points = decode_utf8(line, "a line");
  return std::none_of(points.begin(), points.end(),
                      [](char32_t c) { return c == U'\t' || c == 0x2585; }) &&
         std::any_of(points.begin(), points.end(), is_visible);
}

/// Hands the chosen lines to the trainer one by one.
class LineIterator final : public sentencepiece::SentenceIterator {
 public:
  LineIterator(std::span<const std::string> lines, std::vector<std::size_t> chosen)
      : lines_(lines), chosen_(std::move(chosen)) {}

  bool done() const override { return at_ == chosen_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[chosen_[at_]]; }
  Status status() const override { return {}; }

 private:
  std::span<const std::string> lines_;
  std::vector<std::size_t> chosen_;
  std::size_t at_ = 0;
};

/// The library's own sampling draws from a process-wide generator, so lines are chosen here.
std::vector<std::size_t> choose_lines(std::size_t count, const SentencePieceOptions& options) {
  std::vector<std::size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  const auto most = static_cast<std::size_t>(options.max_lines);
  if (most == 0 || count <= most) return chosen;
  SplitMix random(options.seed);
  shuffle(std::span(chosen), random);
  chosen.resize(most);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

void require_options(const SentencePieceOptions& options) {
  SLUICE_CHECK(options.vocabulary_size > kFirstPieceId && options.vocabulary_size <= 1'000'000,
               "a SentencePiece vocabulary has {} to 1000000 ids, not {}", kFirstPieceId + 1,
               options.vocabulary_size);
  SLUICE_CHECK(options.character_coverage >= 0.98 && options.character_coverage <= 1.0,
               "character_coverage must be between 0.98 and 1, not {}", options.character_coverage);
  SLUICE_CHECK(options.threads > 0 && options.threads <= 128,
               "SentencePiece trains on 1 to 128 threads, not {}", options.threads);
  SLUICE_CHECK(options.max_lines >= 0, "max_lines must not be negative, not {}", options.max_lines);
}

std::unordered_map<std::string, std::string> trainer_arguments(
    const SentencePieceOptions& options) {
  return {
      {"model_type", options.model == SentencePieceModel::kBpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocabulary_size)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", options.normalization},
      {"num_threads", std::to_string(options.threads)},
      // Longer lines would be left out of the training without a word.
      {"max_sentence_length", "1048576"},
      {"pad_id", std::to_string(kPadId)},
      {"unk_id", std::to_string(kUnknownId)},
      {"bos_id", std::to_string(kBosId)},
      {"eos_id", std::to_string(kEosId)},
      // Silent but for fatal errors: what matters comes back as a status.
      {"minloglevel", "3"},
  };
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::string_view model) {
    require_ok(processor_.LoadFromSerializedProto(model), ErrorCode::kFormat,
               "read the stored model");
    const bool fixed_ids = processor_.pad_id() == kPadId && processor_.unk_id() == kUnknownId &&
                           processor_.bos_id() == kBosId && processor_.eos_id() == kEosId;
    if (!fixed_ids) {
      base::fail(ErrorCode::kFormat,
                 "the SentencePiece model has pad, unk, bos and eos at {}, {}, {}, {}; they must "
                 "be at 0, 1, 2, 3",
                 processor_.pad_id(), processor_.unk_id(), processor_.bos_id(),
                 processor_.eos_id());
    }
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the text to encode");
    std::vector<int> ids;
    require_ok(processor_.Encode(text, &ids), ErrorCode::kInternal, "encode");
    return {ids.begin(), ids.end()};
  }

  std::string decode(std::span<const std::int32_t> ids) const override {
    std::vector<int> pieces;
    for (const std::int32_t id : ids) {
      require_id(id);
      if (id >= kFirstPieceId || id == kUnknownId) pieces.push_back(id);
    }
    std::string text;
    require_ok(processor_.Decode(pieces, &text), ErrorCode::kInternal, "decode");
    return text;
  }

  std::int32_t size() const override { return processor_.GetPieceSize(); }

  std::string piece(std::int32_t id) const override {
    require_id(id);
    return id < kFirstPieceId ? std::string(special_piece(id)) : processor_.IdToPiece(id);
  }

  std::string_view kind() const override { return "sentencepiece"; }

 protected:
  std::string payload() const override { return processor_.serialized_model_proto(); }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> train_sentencepiece(std::span<const std::string> lines,
                                               const SentencePieceOptions& options) {
  require_options(options);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    require_utf8(lines[i], fmt::format("line {} of the vocabulary's text", i + 1));
  }
  std::vector<std::size_t> chosen = choose_lines(lines.size(), options);
  // The library ends the process when there is nothing to train on.
  SLUICE_CHECK(std::any_of(chosen.begin(), chosen.end(),
                           [&](std::size_t line) { return has_text(lines[line]); }),
               "SentencePiece needs text to train on; none of the {} lines has any", chosen.size());
  LineIterator iterator(lines, std::move(chosen));
  std::string model;
  try {
    require_ok(
        sentencepiece::SentencePieceTrainer::Train(trainer_arguments(options), &iterator, &model),
        ErrorCode::kInvalidArgument, "train on this text");
  } catch (const Error& error) {
    base::fail(error.code(),
               "{}; for little text, lower tokenizer.source_vocabulary and "
               "tokenizer.target_vocabulary, or set tokenizer.kind=characters",
               error.what());
  } catch (const std::exception& error) {
    base::fail(ErrorCode::kInvalidArgument, "SentencePiece cannot train on this text: {}",
               error.what());
  }
  return std::make_unique<SentencePieceTokenizer>(model);
}

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view payload) {
  require_sound_tables(payload);
  return std::make_unique<SentencePieceTokenizer>(payload);
}

}  // namespace sluice::data
