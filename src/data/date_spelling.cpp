#include "data/date_spelling.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace sluice::data {
namespace {

using Date = DateParts;

constexpr std::array<std::string_view, 12> kMonths{"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};
constexpr std::array<std::string_view, 7> kWeekdays{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                    "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 7> kChineseWeekdays{"日", "一", "二", "三",
                                                           "四", "五", "六"};
constexpr std::array<std::string_view, 10> kChineseDigits{"〇", "一", "二", "三", "四",
                                                          "五", "六", "七", "八", "九"};

std::string_view month(const Date& d) { return kMonths[d.month - 1]; }
std::string_view mon(const Date& d) { return month(d).substr(0, 3); }
std::string_view weekday(const Date& d) { return kWeekdays[d.weekday]; }
std::string_view wd(const Date& d) { return weekday(d).substr(0, 3); }
std::string_view chinese_weekday(const Date& d) { return kChineseWeekdays[d.weekday]; }

/// "1st", "2nd", "3rd", "4th", "11th", …
std::string ordinal(const Date& d) {
  const bool teen = d.day / 10 == 1;
  const unsigned last = teen ? 0 : d.day % 10;
  const char* suffix = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
  return fmt::format("{}{}", d.day, suffix);
}

/// 1 to 31 as spoken: 三, 十, 十二, 二十, 三十一.
std::string chinese_number(unsigned value) {
  std::string text;
  if (value >= 20) text += kChineseDigits[value / 10];
  if (value >= 10) text += "十";
  if (value % 10 != 0) text += kChineseDigits[value % 10];
  return text;
}

/// 一九九四: digit by digit, with either of the two zeros.
std::string chinese_year(const Date& d, std::string_view zero) {
  std::string text;
  for (const char digit : std::to_string(d.year)) {
    text += digit == '0' ? zero : kChineseDigits[static_cast<std::size_t>(digit - '0')];
  }
  return text;
}

std::string chinese_day(const Date& d, std::string_view zero, std::string_view unit) {
  return fmt::format("{}年{}月{}{}", chinese_year(d, zero), chinese_number(d.month),
                     chinese_number(d.day), unit);
}

std::string digit_day(const Date& d, std::string_view unit) {
  return fmt::format("{}年{}月{}{}", d.year, d.month, d.day, unit);
}

// Each line is one spelling; the comment shows it for 1994-03-05.
constexpr std::array<DateSpelling, 24> kEnglish{
    // March 5, 1994
    [](const Date& d) { return fmt::format("{} {}, {}", month(d), d.day, d.year); },
    // March 5 1994
    [](const Date& d) { return fmt::format("{} {} {}", month(d), d.day, d.year); },
    // March 5th, 1994
    [](const Date& d) { return fmt::format("{} {}, {}", month(d), ordinal(d), d.year); },
    // 5 March 1994
    [](const Date& d) { return fmt::format("{} {} {}", d.day, month(d), d.year); },
    // 5th March 1994
    [](const Date& d) { return fmt::format("{} {} {}", ordinal(d), month(d), d.year); },
    // 5th of March 1994
    [](const Date& d) { return fmt::format("{} of {} {}", ordinal(d), month(d), d.year); },
    // the 5th of March, 1994
    [](const Date& d) { return fmt::format("the {} of {}, {}", ordinal(d), month(d), d.year); },
    // Mar 5, 1994
    [](const Date& d) { return fmt::format("{} {}, {}", mon(d), d.day, d.year); },
    // Mar. 5, 1994
    [](const Date& d) { return fmt::format("{}. {}, {}", mon(d), d.day, d.year); },
    // 5 Mar 1994
    [](const Date& d) { return fmt::format("{} {} {}", d.day, mon(d), d.year); },
    // 05-Mar-1994
    [](const Date& d) { return fmt::format("{:02}-{}-{}", d.day, mon(d), d.year); },
    // 1994 March 5
    [](const Date& d) { return fmt::format("{} {} {}", d.year, month(d), d.day); },
    // Saturday, March 5, 1994
    [](const Date& d) { return fmt::format("{}, {} {}, {}", weekday(d), month(d), d.day, d.year); },
    // Saturday, 5 March 1994
    [](const Date& d) { return fmt::format("{}, {} {} {}", weekday(d), d.day, month(d), d.year); },
    // Saturday the 5th of March 1994
    [](const Date& d) {
      return fmt::format("{} the {} of {} {}", weekday(d), ordinal(d), month(d), d.year);
    },
    // Sat, 5 Mar 1994
    [](const Date& d) { return fmt::format("{}, {} {} {}", wd(d), d.day, mon(d), d.year); },
    // Sat Mar 5 1994
    [](const Date& d) { return fmt::format("{} {} {} {}", wd(d), mon(d), d.day, d.year); },
    // March 5, 1994 (Saturday)
    [](const Date& d) {
      return fmt::format("{} {}, {} ({})", month(d), d.day, d.year, weekday(d));
    },
    // 1994/3/5
    [](const Date& d) { return fmt::format("{}/{}/{}", d.year, d.month, d.day); },
    // 1994.03.05
    [](const Date& d) { return fmt::format("{}.{:02}.{:02}", d.year, d.month, d.day); },
    // 19940305
    [](const Date& d) { return fmt::format("{}{:02}{:02}", d.year, d.month, d.day); },
    // 3/5/1994 (US)
    [](const Date& d) { return fmt::format("{}/{}/{} (US)", d.month, d.day, d.year); },
    // 5/3/1994 (UK)
    [](const Date& d) { return fmt::format("{}/{}/{} (UK)", d.day, d.month, d.year); },
    // Sat 1994-03-05
    [](const Date& d) { return fmt::format("{} {}-{:02}-{:02}", wd(d), d.year, d.month, d.day); },
};

constexpr std::array<DateSpelling, 16> kChinese{
    // 1994年3月5日
    [](const Date& d) { return digit_day(d, "日"); },
    // 1994年3月5号
    [](const Date& d) { return digit_day(d, "号"); },
    // 1994年03月05日
    [](const Date& d) { return fmt::format("{}年{:02}月{:02}日", d.year, d.month, d.day); },
    // 1994 年 3 月 5 日
    [](const Date& d) { return fmt::format("{} 年 {} 月 {} 日", d.year, d.month, d.day); },
    // 公元1994年3月5日
    [](const Date& d) { return "公元" + digit_day(d, "日"); },
    // 1994年3月5日星期六
    [](const Date& d) { return digit_day(d, "日") + fmt::format("星期{}", chinese_weekday(d)); },
    // 1994年3月5日 周六
    [](const Date& d) { return digit_day(d, "日") + fmt::format(" 周{}", chinese_weekday(d)); },
    // 1994年3月5号（礼拜六）
    [](const Date& d) {
      return digit_day(d, "号") + fmt::format("（礼拜{}）", chinese_weekday(d));
    },
    // 星期六，1994年3月5日
    [](const Date& d) { return fmt::format("星期{}，", chinese_weekday(d)) + digit_day(d, "日"); },
    // 1994年三月五号
    [](const Date& d) {
      return fmt::format("{}年{}月{}号", d.year, chinese_number(d.month), chinese_number(d.day));
    },
    // 1994年三月五日
    [](const Date& d) {
      return fmt::format("{}年{}月{}日", d.year, chinese_number(d.month), chinese_number(d.day));
    },
    // 一九九四年三月五日
    [](const Date& d) { return chinese_day(d, "〇", "日"); },
    // 一九九四年三月五号; 二零零四 where 〇 stood above
    [](const Date& d) { return chinese_day(d, "零", "号"); },
    // 一九九四年三月五日星期六
    [](const Date& d) {
      return chinese_day(d, "〇", "日") + fmt::format("星期{}", chinese_weekday(d));
    },
    // 周六，一九九四年三月五日
    [](const Date& d) {
      return fmt::format("周{}，", chinese_weekday(d)) + chinese_day(d, "零", "日");
    },
    // 1994-3-5 周六
    [](const Date& d) {
      return fmt::format("{}-{}-{} 周{}", d.year, d.month, d.day, chinese_weekday(d));
    },
};

}  // namespace

DateParts::DateParts(std::chrono::sys_days date) {
  const std::chrono::year_month_day civil(date);
  year = static_cast<int>(civil.year());
  month = static_cast<unsigned>(civil.month());
  day = static_cast<unsigned>(civil.day());
  weekday = std::chrono::weekday(date).c_encoding();
}

std::span<const DateSpelling> english_spellings() { return kEnglish; }

std::span<const DateSpelling> chinese_spellings() { return kChinese; }

}  // namespace sluice::data
