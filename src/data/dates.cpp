#include "data/dates.h"

#include "base/check.h"
#include "data/date_spelling.h"
#include "data/shuffle.h"

namespace sluice::data {
namespace {

constexpr std::chrono::sys_days first_day() {
  return std::chrono::year{kFirstDateYear} / std::chrono::January / 1;
}
constexpr std::chrono::sys_days last_day() {
  return std::chrono::year{kLastDateYear} / std::chrono::December / 31;
}

std::chrono::sys_days draw_day(SplitMix& random, DatePart part) {
  constexpr auto kDays = static_cast<std::uint64_t>((last_day() - first_day()).count() + 1);
  while (true) {
    const auto day = first_day() + std::chrono::days(random.below(kDays));
    if (part_of(day) == part) return day;
  }
}

enum class LetterCase { kAsWritten, kLower, kUpper };

/// ASCII only, which leaves Chinese as it is.
std::string with_case(std::string text, LetterCase letter_case) {
  for (char& c : text) {
    if (letter_case == LetterCase::kLower && c >= 'A' && c <= 'Z') c += 'a' - 'A';
    if (letter_case == LetterCase::kUpper && c >= 'a' && c <= 'z') c -= 'a' - 'A';
  }
  return text;
}

LetterCase draw_case(SplitMix& random) {
  switch (random.below(10)) {
    case 0:
      return LetterCase::kUpper;
    case 1:
    case 2:
      return LetterCase::kLower;
    default:
      return LetterCase::kAsWritten;
  }
}

}  // namespace

DatePart part_of(std::chrono::sys_days day) {
  const auto key = static_cast<std::uint64_t>(day.time_since_epoch().count());
  const std::uint64_t bucket = SplitMix(key).below(20);
  if (bucket == 0) return DatePart::kValidation;
  return bucket == 1 ? DatePart::kTest : DatePart::kTrain;
}

std::string iso_date(std::chrono::sys_days day) {
  const DateParts date(day);
  return fmt::format("{:04}-{:02}-{:02}", date.year, date.month, date.day);
}

std::vector<std::string> spellings_of(std::chrono::sys_days day) {
  const DateParts date(day);
  std::vector<std::string> all;
  for (const DateSpelling spell : english_spellings()) all.push_back(spell(date));
  for (const DateSpelling spell : chinese_spellings()) all.push_back(spell(date));
  return all;
}

std::vector<TextPair> make_dates(std::int64_t count, std::uint64_t seed, DatePart part) {
  SLUICE_CHECK(count >= 0, "cannot make {} dates", count);
  SplitMix random(seed, static_cast<std::uint64_t>(part));
  std::vector<TextPair> pairs;
  pairs.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::chrono::sys_days day = draw_day(random, part);
    const auto spellings = random.below(2) == 0 ? english_spellings() : chinese_spellings();
    const DateSpelling spell = spellings[static_cast<std::size_t>(random.below(spellings.size()))];
    pairs.push_back({with_case(spell(DateParts(day)), draw_case(random)), iso_date(day)});
  }
  return pairs;
}

}  // namespace sluice::data
