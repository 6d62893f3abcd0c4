#include "data/utf8.h"

#include <gtest/gtest.h>

#include "unit/support/temporary_folder.h"

namespace sluice::data {
namespace {

using sluice::testing::error_of;

/// The bytes of `value` written with `length` bytes, however short it could be.
std::string encoded_in(std::size_t length, char32_t value) {
  std::string bytes(length, '\0');
  for (std::size_t i = length - 1; i > 0; --i, value >>= 6) {
    bytes[i] = static_cast<char>(0x80 | (value & 0x3F));
  }
  const unsigned lead = (0xF00u >> length) & 0xFFu;
  bytes[0] = static_cast<char>(lead | value);
  return bytes;
}

TEST(Utf8, WritesAndReadsEveryScalarValue) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value == 0xD800) value = 0xE000;
    std::string text;
    append_utf8(value, text);
    const CodePoint point = code_point_at(text, 0);
    ASSERT_EQ(point.value, value);
    ASSERT_EQ(point.length, text.size());
  }
}

TEST(Utf8, RefusesSurrogatesOverlongFormsAndTooLargeValues) {
  for (char32_t value = 0xD800; value <= 0xDFFF; ++value) {
    ASSERT_EQ(code_point_at(encoded_in(3, value), 0).length, 0u);
  }
  for (const char32_t value : {0x0, 0x2F, 0x7F}) {
    EXPECT_EQ(code_point_at(encoded_in(2, value), 0).length, 0u);
  }
  for (const char32_t value : {0x0, 0x7F, 0x80, 0x7FF}) {
    EXPECT_EQ(code_point_at(encoded_in(3, value), 0).length, 0u);
  }
  for (const char32_t value : {0x0, 0x7FF, 0xFFFF, 0x110000, 0x1FFFFF}) {
    EXPECT_EQ(code_point_at(encoded_in(4, value), 0).length, 0u);
  }
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8(""), 0u);
  EXPECT_EQ(find_invalid_utf8("abc 中文 é"), std::string_view("abc 中文 é").size());
  EXPECT_EQ(find_invalid_utf8("ab\xFF\xFE"), 2u);
  EXPECT_EQ(find_invalid_utf8("中\x80"), 3u);      // a continuation without a start
  EXPECT_EQ(find_invalid_utf8("a\xE4\xB8"), 1u);   // a start without its continuation
  EXPECT_EQ(find_invalid_utf8("a\xE4\xB8z"), 1u);  // nor when other text follows
}

TEST(Utf8, ErrorNamesOffsetAndByte) {
  const Error error = error_of([] { require_utf8("abc\xE9 d", "the reply"); });
  EXPECT_EQ(error.code(), ErrorCode::kFormat);
  EXPECT_STREQ(error.what(),
               "the reply is not valid UTF-8 at byte offset 3 (byte 0xe9); convert it to UTF-8");
}

TEST(Utf8, DecodesInOrder) {
  EXPECT_EQ(decode_utf8("aé中😀", "text"), (std::vector<char32_t>{U'a', U'é', U'中', U'😀'}));
  EXPECT_THROW(decode_utf8("\xC0\x80", "text"), Error);
  std::string out;
  EXPECT_THROW(append_utf8(0xD800, out), Error);
  EXPECT_THROW(append_utf8(0x110000, out), Error);
}

}  // namespace
}  // namespace sluice::data
