#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"

namespace sluice::data {

/// The demonstration task, whose data the program makes itself: dates as people write them, in
/// English and Chinese, to ISO 8601 ("Saturday the 5th of March, 1994" and "一九九四年三月五号"
/// both to "1994-03-05"). Days run from 1900-01-01 to 2099-12-31; years have four digits; a date
/// all in digits is year first unless it is marked "(US)" (month first) or "(UK)" (day first), so
/// that every input has one answer.
inline constexpr int kFirstDateYear = 1900;
inline constexpr int kLastDateYear = 2099;

/// Each calendar day belongs to one part, by a hash of the day alone (18 in 20, 1 in 20, 1 in 20).
/// So a day held out never occurs in training, in whatever spelling and with whatever seed.
enum class DatePart { kTrain, kValidation, kTest };
DatePart part_of(std::chrono::sys_days day);

/// "1994-03-05"
std::string iso_date(std::chrono::sys_days day);

/// All spellings of a day that the task knows, in a fixed order, without variants of letter case.
std::vector<std::string> spellings_of(std::chrono::sys_days day);

/// `count` examples of one part, days and spellings drawn at random: a pure function of its
/// arguments. Throws ErrorCode::kInvalidArgument on a negative count.
std::vector<TextPair> make_dates(std::int64_t count, std::uint64_t seed, DatePart part);

}  // namespace sluice::data
