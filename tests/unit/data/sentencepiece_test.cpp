#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "data/sentencepiece_check.h"
#include "data/sentencepiece_tokenizer.h"
#include "data/shuffle.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;
using Ids = std::vector<std::int32_t>;
using Lines = std::vector<std::string>;

/// Sentences of made-up words, some Chinese among them.
Lines made_up_lines(int count) {
  constexpr std::array kSyllables{"ba", "ke", "li", "Mo", "nu", "ra", "si", "to", "你", "好"};
  SplitMix random(11);
  Lines lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (std::uint64_t word = 0; word < 3 + random.below(6); ++word) {
      if (word > 0) line += ' ';
      for (std::uint64_t s = 0; s < 1 + random.below(3); ++s) line += kSyllables[random.below(10)];
    }
    lines.push_back(line + (i % 3 == 0 ? "." : "，"));
  }
  return lines;
}

SentencePieceOptions small_options(SentencePieceModel model) {
  SentencePieceOptions options;
  options.model = model;
  options.vocabulary_size = 80;
  return options;
}

std::string payload_of(const Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.serialize();
  return bytes.substr(bytes.find('\n') + 1);
}

class EachModel : public ::testing::TestWithParam<SentencePieceModel> {};

TEST_P(EachModel, RoundTripsAndHasFixedIds) {
  const Lines lines = made_up_lines(300);
  const auto tokenizer = train_sentencepiece(lines, small_options(GetParam()));
  EXPECT_EQ(tokenizer->size(), 80);
  EXPECT_EQ(tokenizer->piece(kPadId), "<pad>");
  EXPECT_EQ(tokenizer->piece(kUnknownId), "<unk>");
  EXPECT_EQ(tokenizer->piece(kBosId), "<s>");
  EXPECT_EQ(tokenizer->piece(kEosId), "</s>");
  for (const std::string& line : lines) {
    const Ids ids = tokenizer->encode(line);
    EXPECT_EQ(tokenizer->decode(ids), line);
    for (const std::int32_t id : ids) EXPECT_GE(id, kFirstPieceId);
  }
  Ids framed = tokenizer->encode(lines[0]);
  framed.insert(framed.begin(), kBosId);
  framed.insert(framed.end(), {kEosId, kPadId, kPadId});
  EXPECT_EQ(tokenizer->decode(framed), lines[0]);
}

TEST_P(EachModel, TrainsTheSameTwiceAndLoads) {
  const Lines lines = made_up_lines(200);
  const auto first = train_sentencepiece(lines, small_options(GetParam()));
  const std::string bytes = first->serialize();
  EXPECT_EQ(train_sentencepiece(lines, small_options(GetParam()))->serialize(), bytes);
  const auto loaded = load_tokenizer(bytes);
  EXPECT_EQ(loaded->kind(), "sentencepiece");
  EXPECT_EQ(loaded->encode(lines[5]), first->encode(lines[5]));
  EXPECT_EQ(loaded->serialize(), bytes);
}

INSTANTIATE_TEST_SUITE_P(, EachModel,
                         ::testing::Values(SentencePieceModel::kUnigram, SentencePieceModel::kBpe),
                         [](const auto& model) {
                           return model.param == SentencePieceModel::kBpe ? "bpe" : "unigram";
                         });

class SentencePiece : public ::testing::Test {
 protected:
  static constexpr SentencePieceModel kUnigram = SentencePieceModel::kUnigram;
  const Lines lines_ = made_up_lines(200);
};

TEST_F(SentencePiece, MeetsUnknownAndSpecialText) {
  const auto tokenizer = train_sentencepiece(lines_, small_options(kUnigram));
  const Ids ids = tokenizer->encode("ba 中");
  EXPECT_EQ(ids.back(), kUnknownId);
  EXPECT_NE(tokenizer->decode(ids).find(kUnknownText), std::string::npos);
  for (const std::int32_t id : tokenizer->encode("ba</s><pad>")) EXPECT_NE(id, kEosId);
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode({}), "");
  EXPECT_THROW(tokenizer->decode(Ids{80}), Error);
  EXPECT_THROW(tokenizer->decode(Ids{-1}), Error);
  EXPECT_EQ(error_of([&] { tokenizer->encode("ba\xFF"); }).code(), ErrorCode::kFormat);
}

TEST_F(SentencePiece, LeavesTextAloneUnlessToldOtherwise) {
  const auto plain = train_sentencepiece(lines_, small_options(kUnigram));
  EXPECT_EQ(plain->decode(plain->encode("ba， ke")), "ba， ke");
  SentencePieceOptions folding = small_options(kUnigram);
  folding.normalization = "nfkc";
  const auto folded = train_sentencepiece(lines_, folding);
  EXPECT_EQ(folded->decode(folded->encode("ba， ke")), "ba, ke");
  EXPECT_EQ(load_tokenizer(folded->serialize())->encode("ba，"), folded->encode("ba,"));
}

TEST_F(SentencePiece, SpellsUnknownCharactersAsBytesIfAsked) {
  SentencePieceOptions options = small_options(kUnigram);
  options.vocabulary_size = 320;
  options.byte_fallback = true;
  const auto tokenizer = train_sentencepiece(lines_, options);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ba 中😀")), "ba 中😀");
}

TEST_F(SentencePiece, SamplesLinesBySeed) {
  SentencePieceOptions options = small_options(kUnigram);
  options.vocabulary_size = 40;
  options.max_lines = 50;
  const std::string bytes = train_sentencepiece(lines_, options)->serialize();
  EXPECT_EQ(train_sentencepiece(lines_, options)->serialize(), bytes);
  options.seed = 2;
  EXPECT_NE(train_sentencepiece(lines_, options)->serialize(), bytes);
}

TEST_F(SentencePiece, SaysWhyItCannotTrain) {
  SentencePieceOptions options = small_options(kUnigram);
  options.vocabulary_size = 100000;
  const Error large = error_of([&] { train_sentencepiece(lines_, options); });
  EXPECT_EQ(large.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(std::string(large.what()).find("ocabulary size"), std::string::npos) << large.what();
  options.vocabulary_size = 8;
  EXPECT_THROW(train_sentencepiece(lines_, options), Error);
  options = small_options(kUnigram);
  options.normalization = "rot13";
  EXPECT_THROW(train_sentencepiece(lines_, options), Error);
  options = small_options(kUnigram);
  options.character_coverage = 0.1;
  EXPECT_THROW(train_sentencepiece(lines_, options), Error);
  options = small_options(kUnigram);
  options.threads = 0;
  EXPECT_THROW(train_sentencepiece(lines_, options), Error);
  EXPECT_THROW(train_sentencepiece(Lines{}, {}), Error);
  EXPECT_THROW(train_sentencepiece(Lines{"", "  "}, small_options(kUnigram)), Error);
}

TEST_F(SentencePiece, SurvivesHostileModels) {
  SentencePieceOptions options = small_options(kUnigram);
  options.normalization = "nmt_nfkc";
  const std::string model = payload_of(*train_sentencepiece(lines_, options));
  SplitMix random(4);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string changed = model;
    if (i % 3 == 0) {
      changed.resize(random.below(changed.size()));
    } else {
      // The pieces stand at the front, the table makes up nearly all of the rest.
      const std::size_t within = i % 3 == 1 ? changed.size() : 2000;
      for (int k = 0; k < 4; ++k) changed[random.below(within)] = static_cast<char>(random.next());
    }
    try {
      const auto tokenizer = parse_sentencepiece(changed);
      tokenizer->decode(tokenizer->encode("ba ｋｅ， 你好…"));
    } catch (const Error& error) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 150);
  EXPECT_THROW(parse_sentencepiece(""), Error);
  EXPECT_THROW(parse_sentencepiece("no model at all"), Error);
}

/// A table as a model file holds it.
std::string table_of(const std::vector<std::uint32_t>& units, std::string_view texts) {
  std::string table(4 + 4 * units.size(), '\0');
  const auto bytes = static_cast<std::uint32_t>(4 * units.size());
  std::memcpy(table.data(), &bytes, 4);
  if (bytes > 0) std::memcpy(table.data() + 4, units.data(), bytes);
  return table.append(texts);
}

class SentencePieceTable : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kLeaf = 1u << 8;
  static constexpr std::uint32_t kValue = 1u << 31;
  static constexpr std::uint32_t unit(std::uint32_t label, std::uint32_t offset) {
    return offset << 10 | label;
  }
  static constexpr std::size_t kA = 256 ^ 'a';

  /// The key "a" stands for text 2: the root's base is 256, that of "a" is 128.
  SentencePieceTable() {
    units_[0] = unit(0, 256);
    units_[kA] = unit('a', kA ^ 128) | kLeaf;
    units_[128] = kValue | 2;
  }

  std::vector<std::uint32_t> units_ = std::vector<std::uint32_t>(512, kValue);
  const std::string texts_{"x\0y\0", 4};
};

TEST_F(SentencePieceTable, IsSoundWithinItsBounds) {
  EXPECT_TRUE(is_sound_table(""));
  EXPECT_TRUE(is_sound_table(table_of(units_, texts_)));
}

TEST_F(SentencePieceTable, IsRefusedWhenItsSizesLie) {
  const std::string table = table_of(units_, texts_);
  EXPECT_FALSE(is_sound_table(table.substr(0, 3)));
  EXPECT_FALSE(is_sound_table(table.substr(0, table.size() - 4)));  // no texts
  EXPECT_FALSE(is_sound_table(table + "z"));                        // the last text has no end
  EXPECT_FALSE(is_sound_table(table_of({}, texts_)));
  std::string odd = table;
  odd[0] = 2;
  EXPECT_FALSE(is_sound_table(odd));
}

TEST_F(SentencePieceTable, IsRefusedWhenItPointsOutside) {
  units_[128] = kValue | 4;  // behind the texts
  EXPECT_FALSE(is_sound_table(table_of(units_, texts_)));
  units_[128] = kValue | 3;
  EXPECT_TRUE(is_sound_table(table_of(units_, texts_)));
  units_[kA] = unit('a', kA ^ 512) | kLeaf;  // behind the trie
  EXPECT_FALSE(is_sound_table(table_of(units_, texts_)));
  units_[0] = unit(0, 1u << 20);
  EXPECT_FALSE(is_sound_table(table_of(units_, texts_)));
}

TEST_F(SentencePieceTable, IsRefusedWhenItGoesInCircles) {
  units_[kA] = unit('a', kA ^ 256) | kLeaf;  // "a", "aa", "aaa", … without end
  units_[256] = kValue | 2;
  EXPECT_FALSE(is_sound_table(table_of(units_, texts_)));
}

}  // namespace
}  // namespace sluice::data
