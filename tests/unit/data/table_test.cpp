#include "data/table.h"

#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using Row = std::vector<std::string>;

class TableTest : public ::testing::Test {
 protected:
  Table read(std::string_view text) { return read_table(folder_.write("t.csv", text)); }
  void refuse(std::string_view text, const std::string& said, ErrorCode code = ErrorCode::kFormat) {
    const Error error = testing::error_of([&] { read(text); });
    EXPECT_EQ(error.code(), code) << error.what();
    const std::string what = error.what();
    EXPECT_NE(what.find("t.csv'"), std::string::npos) << what;
    EXPECT_NE(what.find(said), std::string::npos) << what << "\nlacks " << said;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TableTest, HasNamesRowsAndLines) {
  const Table table = read("text,label\r\ngood,1\n\nbad,\n");
  EXPECT_EQ(table.columns, (Row{"text", "label"}));
  EXPECT_EQ(table.rows, (std::vector<Row>{{"good", "1"}, {"bad", ""}}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(table.column("label"), 1u);
  EXPECT_NE(table.where(1).find("t.csv' line 4"), std::string::npos);
  const Error error = testing::error_of([&] { table.column("labels"); });
  EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(error.what()).find("text, label"), std::string::npos) << error.what();
}

TEST_F(TableTest, TabsSeparateWhereTheFirstLineHasOne) {
  const Table table = read("a, b\tc\n1,2\t3\n");
  EXPECT_EQ(table.columns, (Row{"a, b", "c"}));
  EXPECT_EQ(table.rows.at(0), (Row{"1,2", "3"}));
}

TEST_F(TableTest, QuotedFieldsHoldAnything) {
  const Table table =
      read("\"the text\",n\n\"a, \"\"b\"\"\nand c\",1\n\"\",\"\"\nx\"y,2\n\"3\",z\n");
  EXPECT_EQ(table.columns, (Row{"the text", "n"}));
  EXPECT_EQ(table.rows,
            (std::vector<Row>{{"a, \"b\"\nand c", "1"}, {"", ""}, {"x\"y", "2"}, {"3", "z"}}));
  EXPECT_EQ(table.lines, (std::vector<std::int64_t>{2, 4, 5, 6}));
}

TEST(ColumnNames, AreThoseThatATableWouldHave) {
  EXPECT_EQ(column_names("text,\"the \"\"label\"\"\""), (Row{"text", "the \"label\""}));
  EXPECT_EQ(column_names("a, b\tc"), (Row{"a, b", "c"}));
  for (const char* none : {"", "so,,what", "no, no, no, no", "\"hello", "\"a\"b,c"}) {
    EXPECT_EQ(column_names(none), Row{}) << none;
  }
}

TEST_F(TableTest, RefusesWhatIsNoTableWithItsLine) {
  refuse("a,b\n1,2\n1,2,3\n", "line 3: it has 3 fields, but the first line names 2 columns");
  refuse("a,b\n1\n", "line 2: it has 1 field,");
  refuse("a,b\n\"1\n2\",3\n4\n", "line 4");
  refuse("a,b\n\"1\"2,3\n", "line 2: text follows the closing quote of field 1");
  refuse("a,b\n1,\"2\n3,4\n", "line 2: a quote is never closed");
  refuse("a,a\n1,2\n", "two columns have the name 'a'");
  refuse("a,,b\n1,2,3\n", "a column has no name");
  refuse("a,b\n", "has no rows");
  refuse("", "has no rows");
  refuse("a,b\n1,\xff\n", "UTF-8");
}

}  // namespace
}  // namespace sluice::data
