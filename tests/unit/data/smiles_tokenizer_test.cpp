#include "data/smiles_tokenizer.h"

#include <gtest/gtest.h>

#include "data/train_tokenizer.h"
#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;

std::vector<std::string> tokens_of(const std::string& text) {
  const std::vector<std::string> lines{text};
  const auto tokenizer = train_smiles_tokenizer(lines);
  std::vector<std::string> tokens;
  for (const std::int32_t id : tokenizer->encode(text)) tokens.push_back(tokenizer->piece(id));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  return tokens;
}

using Tokens = std::vector<std::string>;

TEST(SmilesTokenizer, SplitsAtomsBondsAndRings) {
  EXPECT_EQ(tokens_of("CC(=O)Cl"), (Tokens{"C", "C", "(", "=", "O", ")", "Cl"}));
  EXPECT_EQ(tokens_of("BrC1=NN1"), (Tokens{"Br", "C", "1", "=", "N", "N", "1"}));
  EXPECT_EQ(tokens_of("N[C@@H](C)[NH3+]"), (Tokens{"N", "[C@@H]", "(", "C", ")", "[NH3+]"}));
  EXPECT_EQ(tokens_of("c%12ccc%(123)/C=C\\F"),
            (Tokens{"c", "%12", "c", "c", "c", "%(123)", "/", "C", "=", "C", "\\", "F"}));
  EXPECT_EQ(tokens_of("[13CH4].[Na+]>*>B#P"),
            (Tokens{"[13CH4]", ".", "[Na+]", ">", "*", ">", "B", "#", "P"}));
}

TEST(SmilesTokenizer, SaysWhereTextIsNone) {
  const auto expect_refused = [](const std::string& text, const std::string& place) {
    const Error error = error_of([&] { require_smiles(text, "'mol.smi', line 7,"); });
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    const std::string what = error.what();
    EXPECT_EQ(what.find("'mol.smi', line 7, is no SMILES"), 0u) << what;
    EXPECT_NE(what.find(place), std::string::npos) << what;
  };
  expect_refused("CCX", "'X' at byte offset 2");
  expect_refused("CC C", "byte 0x20 at byte offset 2");
  expect_refused("C[NH", "'[' at byte offset 1");
  expect_refused("C[]", "'[' at byte offset 1");
  expect_refused("C[N[H]]", "'[' at byte offset 1");
  expect_refused("C[\xc3\xa9]", "'[' at byte offset 1");
  expect_refused("C]", "']' at byte offset 1");
  expect_refused("C%1", "'%' at byte offset 1");
  expect_refused("C%()", "'%' at byte offset 1");
  expect_refused("C%(12", "'%' at byte offset 1");
  expect_refused("C\xc3\xa9", "byte 0xc3 at byte offset 1");
  EXPECT_NO_THROW(require_smiles("", "nothing"));
}

TEST(SmilesTokenizer, SurvivesACheckpoint) {
  const std::vector<std::string> lines{"CC(=O)Cl", "C1CC%10[C@@H]1"};
  TokenizerOptions options;
  options.kind = "smiles";
  const auto tokenizer = train_tokenizer(lines, options);
  EXPECT_EQ(tokenizer->kind(), "smiles");
  const auto loaded = load_tokenizer(tokenizer->serialize());
  EXPECT_EQ(loaded->kind(), "smiles");
  EXPECT_EQ(loaded->serialize(), tokenizer->serialize());
  EXPECT_EQ(loaded->encode("CCl[C@@H]%10"), tokenizer->encode("CCl[C@@H]%10"));
  EXPECT_EQ(loaded->encode("F"), std::vector<std::int32_t>{kUnknownId});
  EXPECT_THROW(parse_smiles_tokenizer("CC\n"), Error);
  EXPECT_THROW(parse_smiles_tokenizer("C"), Error);
  EXPECT_THROW(parse_smiles_tokenizer("C\n\n"), Error);
}

TEST(SmilesTokenizer, RefusesVocabularyText) {
  const std::vector<std::string> lines{"CC", "C?C"};
  const Error error = error_of([&] { train_smiles_tokenizer(lines); });
  EXPECT_NE(std::string(error.what()).find("line 2 of the vocabulary's text"), std::string::npos);
  EXPECT_THROW(train_smiles_tokenizer(std::vector<std::string>{""}), Error);
}

}  // namespace
}  // namespace sluice::data
