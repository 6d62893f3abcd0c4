#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include "data/char_tokenizer.h"
#include "data/train_tokenizer.h"
#include "data/word_tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;
using Ids = std::vector<std::int32_t>;
using Lines = std::vector<std::string>;

const Lines kLines{"the cat  sat", "\tthe dog sat ", "the end"};

TEST(WordTokenizer, RanksByCountThenBytes) {
  const auto words = train_word_tokenizer(kLines);
  EXPECT_EQ(words->size(), 9);
  const Lines expected{"<pad>", "<unk>", "<s>", "</s>", "the", "sat", "cat", "dog", "end"};
  for (std::int32_t id = 0; id < words->size(); ++id) EXPECT_EQ(words->piece(id), expected[id]);
  EXPECT_THROW(words->piece(9), Error);
  EXPECT_THROW(words->piece(-1), Error);
}

TEST(WordTokenizer, KeepsToSizeAndCount) {
  EXPECT_EQ(train_word_tokenizer(kLines, {.max_size = 6})->piece(5), "sat");
  EXPECT_EQ(train_word_tokenizer(kLines, {.max_size = 6})->size(), 6);
  EXPECT_EQ(train_word_tokenizer(kLines, {.min_count = 2})->size(), 6);
  EXPECT_EQ(train_word_tokenizer(kLines, {.min_count = 3})->size(), 5);
  EXPECT_THROW(train_word_tokenizer(kLines, {.min_count = 4}), Error);
  EXPECT_THROW(train_word_tokenizer(kLines, {.max_size = 4}), Error);
  EXPECT_THROW(train_word_tokenizer(Lines{" ", ""}), Error);
}

TEST(WordTokenizer, EncodesAndDecodes) {
  const auto words = train_word_tokenizer(kLines);
  EXPECT_EQ(words->encode(" the\tmouse sat\n"), (Ids{4, kUnknownId, 5}));
  EXPECT_EQ(words->encode("  "), Ids{});
  EXPECT_EQ(words->decode(Ids{kBosId, 4, 1, 5, kEosId, kPadId}), "the \xE2\x81\x87 sat");
  EXPECT_EQ(words->decode({}), "");
  EXPECT_THROW(words->decode(Ids{9}), Error);
  EXPECT_THROW(words->decode(Ids{-1}), Error);
}

TEST(WordShape, IsARunOfClasses) {
  EXPECT_EQ(word_shape("Paris"), "Xx");
  EXPECT_EQ(word_shape("NATO"), "XX");
  EXPECT_EQ(word_shape("I"), "X");
  EXPECT_EQ(word_shape("iPhone6"), "xXxd");
  EXPECT_EQ(word_shape("@NASA"), "@XX");
  EXPECT_EQ(word_shape("12:30"), "d:d");
  EXPECT_EQ(word_shape("caf\xC3\xA9"), "xu");
  EXPECT_EQ(word_shape("http://a.b/c"), "x:/x.x");
  EXPECT_EQ(word_shape(""), "");
}

TEST(WordShapeTokenizer, TellsUnknownWordsApart) {
  const Lines lines{"go to Rome", "go to Oslo to see ABC", "Now go"};
  const auto shapes = train_word_shape_tokenizer(lines, {.min_count = 2});
  // "Rome", "Oslo" and "Now" look the same; of what "see" and "ABC" look like there is one each.
  const Lines expected{"go", "to", "\xE2\x81\x87Xx"};
  ASSERT_EQ(shapes->size(), 7);
  for (std::int32_t id = kFirstPieceId; id < 7; ++id)
    EXPECT_EQ(shapes->piece(id), expected[id - 4]);
  EXPECT_EQ(shapes->encode("Lima to see"), (Ids{6, 5, kUnknownId}));
  EXPECT_EQ(shapes->decode(Ids{6, 5}), "\xE2\x81\x87Xx to");
  EXPECT_EQ(shapes->kind(), "word_shapes");
  const auto read = load_tokenizer(shapes->serialize());
  EXPECT_EQ(read->kind(), "word_shapes");
  EXPECT_EQ(read->encode("Lima to see"), (Ids{6, 5, kUnknownId}));
}

TEST(WordShapeTokenizer, KeepsToItsSizeAndToWords) {
  const Lines lines{"a a a b b C D"};
  EXPECT_EQ(train_word_shape_tokenizer(lines, {.max_size = 6, .min_count = 2})->encode("a b C"),
            (Ids{4, kUnknownId, 5}));
  // No word is left out, or none that looks like enough others.
  EXPECT_EQ(train_word_shape_tokenizer(lines)->size(), 8);
  EXPECT_EQ(train_word_shape_tokenizer(lines, {.min_count = 3})->size(), 5);
  // A text may spell what a shape is written like.
  const Lines odd{"\xE2\x81\x87X \xE2\x81\x87X C D"};
  EXPECT_EQ(train_word_shape_tokenizer(odd, {.min_count = 2})->size(), 5);
  EXPECT_THROW(train_word_shape_tokenizer(lines, {.min_count = 4}), Error);
}

TEST(WordTokenizer, TextCannotSpellASpecialId) {
  EXPECT_EQ(train_word_tokenizer(kLines)->encode("</s> <pad>"), (Ids{kUnknownId, kUnknownId}));
  const auto words = train_word_tokenizer(Lines{"</s> </s> a"});
  EXPECT_EQ(words->encode("</s>"), Ids{4});
  EXPECT_EQ(words->decode(Ids{4}), "</s>");
}

TEST(CharTokenizer, RoundTripsCodePoints) {
  const std::string text = "二〇二四年 3月5日, café 😀";
  const auto characters = train_char_tokenizer(Lines{text});
  const Ids ids = characters->encode(text);
  EXPECT_EQ(ids.size(), 18u);
  EXPECT_EQ(characters->decode(ids), text);
  EXPECT_EQ(characters->encode("年x"), (Ids{characters->encode("年")[0], kUnknownId}));
  EXPECT_EQ(characters->decode(Ids{kBosId, 1, kEosId}), kUnknownText);
}

TEST(CharTokenizer, RanksByCountThenBytes) {
  const auto characters = train_char_tokenizer(Lines{"b中a", "中b中"});
  EXPECT_EQ(characters->piece(4), "中");
  EXPECT_EQ(characters->piece(5), "b");
  EXPECT_EQ(characters->piece(6), "a");
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  for (const auto& tokenizer : {train_word_tokenizer(kLines), train_char_tokenizer(kLines)}) {
    const Error error = error_of([&] { tokenizer->encode("the \xFF"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("offset 4"), std::string::npos) << error.what();
  }
  const Lines bad{"fine", "not \xC3"};
  for (const auto* kind : {"words", "characters", "sentencepiece"}) {
    const Error error = error_of([&] { train_tokenizer(bad, {.kind = kind}); });
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST(Tokenizer, StoresAndLoads) {
  for (const auto* kind : {"words", "characters"}) {
    const auto saved = train_tokenizer(kLines, {.kind = kind});
    const std::string bytes = saved->serialize();
    const auto loaded = load_tokenizer(bytes);
    EXPECT_EQ(loaded->kind(), kind);
    EXPECT_EQ(loaded->size(), saved->size());
    EXPECT_EQ(loaded->encode(kLines[0]), saved->encode(kLines[0]));
    EXPECT_EQ(loaded->serialize(), bytes);
  }
}

TEST(Tokenizer, RefusesBytesThatWereCutOrChanged) {
  for (const auto* kind : {"words", "characters"}) {
    const std::string bytes = train_tokenizer(kLines, {.kind = kind})->serialize();
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(error_of([&] { load_tokenizer(bytes.substr(0, size)); }).code(), ErrorCode::kFormat)
          << size;
    }
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] ^= 1;
      EXPECT_EQ(error_of([&] { load_tokenizer(changed); }).code(), ErrorCode::kFormat) << at;
    }
    EXPECT_THROW(load_tokenizer(bytes + "x"), Error);
  }
}

TEST(Tokenizer, SaysWhatIsWrongWithBytes) {
  const auto complaint = [](std::string_view bytes) {
    return std::string(error_of([&] { load_tokenizer(bytes); }).what());
  };
  EXPECT_NE(complaint("").find("not a tokenizer"), std::string::npos);
  EXPECT_NE(complaint("sluice-tokenizer 7 words 0 00000000\n").find("revision 7"),
            std::string::npos);
  EXPECT_NE(complaint("sluice-tokenizer 1 runes 0 00000000\n").find("'runes'"), std::string::npos);
  EXPECT_NE(complaint("sluice-tokenizer 1 words 99999999999999999999 0\n").find("size"),
            std::string::npos);
  EXPECT_NE(complaint("sluice-tokenizer 1 words 5 0\nab\n").find("5 bytes and has 3"),
            std::string::npos);
  EXPECT_NE(complaint("sluice-tokenizer\n").find("revision"), std::string::npos);
}

TEST(Tokenizer, RefusesLyingPayloads) {
  EXPECT_THROW(parse_word_tokenizer("a\nb\na\n"), Error);  // twice
  EXPECT_THROW(parse_word_tokenizer("a\n\nb\n"), Error);   // empty
  EXPECT_THROW(parse_word_tokenizer("a\nb c\n"), Error);   // two words
  EXPECT_THROW(parse_word_tokenizer("a\nb"), Error);       // cut off
  EXPECT_THROW(parse_word_tokenizer("a\n\xFF\n"), Error);
  EXPECT_THROW(parse_char_tokenizer("aba"), Error);
  EXPECT_THROW(parse_char_tokenizer("a\xE4\xB8"), Error);
}

TEST(Tokenizer, RefusesAnUnknownKind) {
  EXPECT_THROW(train_tokenizer(kLines, {.kind = "morse"}), Error);
}

}  // namespace
}  // namespace sluice::data
