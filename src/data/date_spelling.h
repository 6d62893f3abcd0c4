#pragma once

#include <chrono>
#include <span>
#include <string>

namespace sluice::data {

/// A calendar day in numbers: month and day from 1, weekday from 0 (Sunday).
struct DateParts {
  explicit DateParts(std::chrono::sys_days date);

  int year;
  unsigned month;
  unsigned day;
  unsigned weekday;
};

/// One way to write a date.
using DateSpelling = std::string (*)(const DateParts&);

/// "March 5, 1994", "Sat the 5th of March 1994", "1994/3/5", "3/5/1994 (US)", …
std::span<const DateSpelling> english_spellings();

/// "1994年3月5日", "一九九四年三月五号星期六", …
std::span<const DateSpelling> chinese_spellings();

}  // namespace sluice::data
