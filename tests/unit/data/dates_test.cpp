#include "data/dates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/char_tokenizer.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

using namespace std::chrono;

sys_days day_of(int y, unsigned m, unsigned d) { return year{y} / month{m} / day{d}; }

bool has_spelling(sys_days date, const std::string& text) {
  const auto all = spellings_of(date);
  return std::count(all.begin(), all.end(), text) == 1;
}

TEST(Dates, SpellsADayInManyWays) {
  const sys_days date = day_of(1994, 3, 5);
  for (const auto* text :
       {"March 5, 1994", "5th of March 1994", "Mar. 5, 1994", "05-Mar-1994",
        "Saturday the 5th of March 1994", "Sat, 5 Mar 1994", "1994/3/5", "19940305",
        "3/5/1994 (US)", "5/3/1994 (UK)", "1994年3月5日", "1994年03月05日", "公元1994年3月5日",
        "1994年3月5日星期六", "1994年3月5号（礼拜六）", "1994年三月五号", "一九九四年三月五日",
        "周六，一九九四年三月五日"}) {
    EXPECT_TRUE(has_spelling(date, text)) << text;
  }
  EXPECT_EQ(iso_date(date), "1994-03-05");
}

TEST(Dates, SpellsOrdinalsAndChineseNumbers) {
  const std::map<unsigned, std::string> ordinals{
      {1, "1st"},   {2, "2nd"},   {3, "3rd"},   {4, "4th"},   {10, "10th"},
      {11, "11th"}, {12, "12th"}, {13, "13th"}, {20, "20th"}, {21, "21st"},
      {22, "22nd"}, {23, "23rd"}, {30, "30th"}, {31, "31st"}};
  for (const auto& [number, text] : ordinals) {
    EXPECT_TRUE(has_spelling(day_of(2001, 12, number), "the " + text + " of December, 2001"));
  }
  EXPECT_TRUE(has_spelling(day_of(2004, 10, 10), "二〇〇四年十月十日"));
  EXPECT_TRUE(has_spelling(day_of(2004, 11, 20), "二零零四年十一月二十号"));
  EXPECT_TRUE(has_spelling(day_of(2100 - 1, 12, 31), "二〇九九年十二月三十一日"));
}

TEST(Dates, WeekdaysAreTrue) {
  EXPECT_TRUE(has_spelling(day_of(1900, 1, 1), "Monday, January 1, 1900"));
  EXPECT_TRUE(has_spelling(day_of(2000, 2, 29), "2000年2月29日星期二"));
  EXPECT_TRUE(has_spelling(day_of(2024, 9, 1), "2024年9月1日 周日"));
  EXPECT_TRUE(has_spelling(day_of(2099, 12, 31), "Thursday, December 31, 2099"));
}

TEST(Dates, NoSpellingHasTwoAnswers) {
  std::map<std::string, sys_days> owner;
  for (sys_days date = day_of(1996, 1, 1); date < day_of(2012, 1, 1); date += days{1}) {
    for (const std::string& text : spellings_of(date)) {
      const auto [known, fresh] = owner.emplace(text, date);
      ASSERT_TRUE(fresh || known->second == date) << text;
    }
  }
}

TEST(Dates, PartsShareNoDay) {
  std::map<DatePart, std::set<std::string>> answers;
  for (const DatePart part : {DatePart::kTrain, DatePart::kValidation, DatePart::kTest}) {
    for (const std::uint64_t seed : {1, 2}) {
      for (const TextPair& pair : make_dates(4000, seed, part)) answers[part].insert(pair.target);
    }
  }
  std::set<std::string> all;
  std::size_t sum = 0;
  for (const auto& [part, days_of_part] : answers) {
    all.insert(days_of_part.begin(), days_of_part.end());
    sum += days_of_part.size();
  }
  EXPECT_EQ(all.size(), sum);
}

TEST(Dates, PartsHaveTheirShares) {
  std::map<DatePart, int> counts;
  for (sys_days date = day_of(1900, 1, 1); date <= day_of(2099, 12, 31); date += days{1}) {
    ++counts[part_of(date)];
  }
  // Of 73049 days one in 20 is 3652, standard deviation 59.
  EXPECT_NEAR(counts[DatePart::kValidation], 3652, 360);
  EXPECT_NEAR(counts[DatePart::kTest], 3652, 360);
}

TEST(Dates, AreAFunctionOfTheSeed) {
  const auto key = [](std::uint64_t seed, DatePart part) {
    std::string text;
    for (const TextPair& pair : make_dates(50, seed, part)) text += pair.source + pair.target;
    return text;
  };
  EXPECT_EQ(key(1, DatePart::kTrain), key(1, DatePart::kTrain));
  EXPECT_NE(key(1, DatePart::kTrain), key(2, DatePart::kTrain));
  EXPECT_NE(key(1, DatePart::kTrain), key(1, DatePart::kTest));
  EXPECT_TRUE(make_dates(0, 1, DatePart::kTrain).empty());
  EXPECT_THROW(make_dates(-1, 1, DatePart::kTrain), Error);
}

TEST(Dates, HaveAClosedAlphabet) {
  std::vector<std::string> train;
  for (const TextPair& pair : make_dates(20000, 1, DatePart::kTrain)) train.push_back(pair.source);
  const auto tokenizer = train_char_tokenizer(train);
  EXPECT_LT(tokenizer->size(), 120);
  int chinese = 0;
  for (const TextPair& pair : make_dates(2000, 1, DatePart::kTest)) {
    const auto ids = tokenizer->encode(pair.source);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kUnknownId), 0) << pair.source;
    EXPECT_EQ(pair.target.size(), 10u);
    chinese += std::any_of(pair.source.begin(), pair.source.end(), [](char c) { return c < 0; });
  }
  EXPECT_NEAR(chinese, 1000, 150);
}

}  // namespace
}  // namespace sluice::data
