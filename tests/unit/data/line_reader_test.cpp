#include "data/line_reader.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;
using sluice::testing::TemporaryFolder;
using Lines = std::vector<std::string>;

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) abort();
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class LineReaderTest : public ::testing::Test {
 protected:
  Lines lines_of(std::string_view bytes) { return read_lines(folder_.write("text", bytes)); }
  Error refusal_of(std::string_view bytes) {
    return error_of([&] { lines_of(bytes); });
  }

  TemporaryFolder folder_;
};

TEST_F(LineReaderTest, SplitsLines) {
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\n"), Lines{"a"});
  EXPECT_EQ(lines_of("\n"), Lines{""});
  EXPECT_EQ(lines_of("a\n\nb"), (Lines{"a", "", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n\r\nc\rd\r"), (Lines{"a", "b", "", "c\rd"}));
}

TEST_F(LineReaderTest, DropsAByteOrderMarkAtTheStartOnly) {
  EXPECT_EQ(lines_of("\xEF\xBB\xBF"), Lines{});
  EXPECT_EQ(lines_of("\xEF\xBB\xBF"
                     "a\n\xEF\xBB\xBF"
                     "b"),
            (Lines{"a",
                   "\xEF\xBB\xBF"
                   "b"}));
}

TEST_F(LineReaderTest, ReadsLinesThatCrossItsBuffers) {
  Lines expected;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    expected.emplace_back(static_cast<std::size_t>(i * 7919 % 301), 'x');
    expected.back() += "中";
    text += expected.back();
    text += '\n';
  }
  expected.push_back(std::string(300000, 'y'));
  text += expected.back();
  EXPECT_EQ(lines_of(text), expected);
  EXPECT_EQ(lines_of(gzip(text)), expected);
}

TEST_F(LineReaderTest, TellsGzipByItsFirstBytes) {
  EXPECT_EQ(lines_of(gzip("a\nb\n")), (Lines{"a", "b"}));
  EXPECT_EQ(read_lines(folder_.write("plain.gz", "a\nb\n")), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of(gzip("")), Lines{});
  EXPECT_EQ(lines_of(gzip("\xEF\xBB\xBF"
                          "a")),
            Lines{"a"});
}

TEST_F(LineReaderTest, ReadsGzipMembersOneAfterTheOther) {
  EXPECT_EQ(lines_of(gzip("a\nb") + gzip("") + gzip("c\nd\n")), (Lines{"a", "bc", "d"}));
}

TEST_F(LineReaderTest, RefusesGzipCutAnywhere) {
  const std::string packed = gzip("some text\nin two lines\n");
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const Error error = refusal_of(packed.substr(0, size));
    EXPECT_EQ(error.code(), ErrorCode::kFormat);
    EXPECT_NE(std::string(error.what()).find("truncated"), std::string::npos) << error.what();
  }
}

TEST_F(LineReaderTest, RefusesDamagedGzip) {
  std::string packed = gzip("some text\nin two lines\n");
  EXPECT_EQ(refusal_of(packed + "rubbish").code(), ErrorCode::kFormat);
  packed[packed.size() - 6] ^= 1;  // its CRC
  const Error error = refusal_of(packed);
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_NE(std::string(error.what()).find("damaged"), std::string::npos) << error.what();
}

TEST_F(LineReaderTest, NamesFileLineAndByteOfBadText) {
  const Error error = refusal_of("fine\nnot \xE9 fine\n");
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_EQ(error.what(), fmt::format("'{}' line 2 is not valid UTF-8 at byte offset 4 (byte "
                                      "0xe9); convert the file to UTF-8",
                                      (folder_ / "text").string()));
}

TEST_F(LineReaderTest, RefusesMissingFilesAndDirectories) {
  const Error missing = error_of([&] { LineReader(folder_ / "nowhere"); });
  EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
  EXPECT_NE(std::string(missing.what()).find("nowhere"), std::string::npos);
  EXPECT_EQ(error_of([&] { LineReader(folder_.write("file", "") / "below"); }).code(),
            ErrorCode::kNotFound);
  const Error directory = error_of([&] { LineReader{folder_.path()}; });
  EXPECT_EQ(directory.code(), ErrorCode::kIo);
  EXPECT_NE(std::string(directory.what()).find("directory"), std::string::npos);
}

TEST_F(LineReaderTest, HoldsToTheLineLimitExactly) {
  for (const std::string end : {"", "\n", "\r\n"}) {
    const auto path = folder_.write("long", fmt::format("ab\n{:x<100}{}", "", end));
    LineReader enough(path, 100);
    EXPECT_EQ(enough.next(), "ab");
    EXPECT_EQ(enough.next(), std::string(100, 'x'));
    EXPECT_EQ(enough.next(), std::nullopt);
    EXPECT_EQ(enough.line_number(), 2);
    LineReader scant(path, 99);
    scant.next();
    const Error error = error_of([&] { scant.next(); });
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
  }
}

TEST_F(LineReaderTest, StopsReadingAtTheLimit) {
  // 24 MiB of one line pack to 24 KiB; the reader must give up after the limit, not hold them all.
  const std::string bomb = gzip(std::string(std::size_t{24} << 20, 'x'));
  const Error error = refusal_of(bomb);
  EXPECT_NE(std::string(error.what()).find("longer than 16777216 bytes"), std::string::npos);
}

}  // namespace
}  // namespace sluice::data
