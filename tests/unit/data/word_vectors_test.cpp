#include "data/word_vectors.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "data/word_tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

class WordVectorsTest : public ::testing::Test {
 protected:
  WordVectorsTest() {
    const std::vector<std::string> lines{"a a a a b b b c c 7"};  // ids 4, 5, 6, 7
    tokenizer_ = train_word_tokenizer(lines);
  }

  WordVectors read(std::string_view text, std::int64_t width = 3) {
    return read_word_vectors(folder_.write("vectors.txt", text), width, *tokenizer_);
  }
  void refuse(std::string_view text, const std::string& said, std::int64_t width = 3) {
    const Error error = testing::error_of([&] { read(text, width); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat) << error.what();
    const std::string what = error.what();
    EXPECT_NE(what.find("vectors.txt'"), std::string::npos) << what;
    EXPECT_NE(what.find(said), std::string::npos) << what << "\nlacks " << said;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(WordVectorsTest, AreThoseOfTheVocabulary) {
  const WordVectors vectors = read("b 1 -2 3e-1\nunheard 4 5 6\na\t0.5 7 8\n");
  EXPECT_EQ(vectors.ids, (std::vector<std::int32_t>{5, 4}));
  EXPECT_EQ(vectors.values, (std::vector<float>{1, -2, 0.3f, 0.5f, 7, 8}));
  EXPECT_EQ(vectors.words_in_file, 3);
}

TEST_F(WordVectorsTest, MayHaveAFirstLineThatCounts) {
  // word2vec ends lines with a space.
  const WordVectors vectors = read("2 3\r\nc 1 2 3 \r\n7 4 5 6 \r\n");
  EXPECT_EQ(vectors.ids, (std::vector<std::int32_t>{6, 7}));
  EXPECT_EQ(vectors.values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  // Where a vector is one number, a word that is one can stand in front of it.
  EXPECT_EQ(read("7 5\n", 1).values, std::vector<float>{5});
  EXPECT_EQ(read("1 1\nb 2\n", 1).values, std::vector<float>{2});
}

TEST_F(WordVectorsTest, OfWordsWithSpacesAreNobodys) {
  const WordVectors vectors = read(". a 1 2 3\n. . . 1 2 3\na 4 5 6");
  EXPECT_EQ(vectors.ids, std::vector<std::int32_t>{4});
  EXPECT_EQ(vectors.values, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(vectors.words_in_file, 3);
}

TEST_F(WordVectorsTest, MayBePacked) {
  const std::string path = (folder_.path() / "vectors.gz").native();
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  gzputs(file, "a 1 2 3\n");
  gzclose(file);
  EXPECT_EQ(read_word_vectors(path, 3, *tokenizer_).values, (std::vector<float>{1, 2, 3}));
}

TEST_F(WordVectorsTest, OfAnotherWidthAreRefused) {
  refuse("a 1 2 3\nb 1 2\n", "line 2: 2 numbers follow the word, but embeddings are 3 wide");
  refuse("a 1 2 3\nunheard 1 2 3 4\n", "line 2: 4 numbers follow the word");
  refuse("a 1 2 3\n\nb 1 2 3\n", "line 2: 0 numbers");
  refuse("a 1 2 3\nb\n", "line 2: 0 numbers");
  refuse("5 4\na 1 2 3 4\n", "line 1: vectors have 4 numbers, but embeddings are 3 wide");
  refuse("5 99999999999999999\na 1\n", "line 1: vectors have 99999999999999999 numbers");
}

TEST_F(WordVectorsTest, ThatAreCutOffAreRefused) {
  refuse("3 3\na 1 2 3\nb 1 2 3\n", "has 2 words, but its first line says 3; is it truncated?");
  refuse("9223372036854775807 3\na 1 2 3\n", "first line says 9223372036854775807");
  refuse("99999999999999999999999 3\na 1 2 3\n",
         "line 1: no file holds 99999999999999999999999 words");
  refuse("1 3\na 1 2 3\nb 1 2 3\n", "has 2 words, but its first line says 1");
  refuse("a 1 2 3\nb 1 2", "line 2: 2 numbers");
  refuse("", "holds no vectors");
  refuse("0 3\n", "holds no vectors");
}

TEST_F(WordVectorsTest, ThatAreNoNumbersAreRefused) {
  for (const char* number : {"nan", "-inf", "1e39", "1e999", "0x1", "one", "1,5", "1.5.", "+"}) {
    refuse("b 1 2 3\na 1 " + std::string(number) + " 3\n",
           "line 2: '" + std::string(number) + "' is no finite number");
  }
  refuse("a 1 2 3\nb 1 \xff 3\n", "line 2 is not valid UTF-8");
}

TEST_F(WordVectorsTest, ThatComeTwiceAreRefused) {
  refuse("a 1 2 3\nunheard 1 2 3\nunheard 1 2 3\na 1 2 3\n",
         "line 4: the word 'a' stands in line 1 already");
}

TEST_F(WordVectorsTest, OfNoFileAreMissed) {
  EXPECT_EQ(testing::error_of([&] { read_word_vectors(folder_ / "none", 3, *tokenizer_); }).code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace sluice::data
