#include "metrics/entity_f1.h"

#include <algorithm>

#include "base/check.h"
#include "data/label_spans.h"

namespace sluice::metrics {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double EntityScore::precision() const { return share(correct, predicted); }
double EntityScore::recall() const { return share(correct, expected); }
double EntityScore::f1() const { return share(2 * correct, predicted + expected); }

void EntityF1::add(std::span<const std::string> predicted, std::span<const std::string> expected) {
  SLUICE_CHECK(predicted.size() == expected.size(),
               "a sentence has {} predicted labels, but {} are expected", predicted.size(),
               expected.size());
  const auto found = data::spans_of(predicted), wanted = data::spans_of(expected);
  for (const data::LabelSpan& span : found) {
    EntityScore& score = scores_[span.type];
    ++score.predicted;
    score.correct += std::find(wanted.begin(), wanted.end(), span) != wanted.end() ? 1 : 0;
  }
  for (const data::LabelSpan& span : wanted) ++scores_[span.type].expected;
}

EntityScore EntityF1::total() const {
  EntityScore total;
  for (const auto& [type, score] : scores_) {
    total.correct += score.correct;
    total.predicted += score.predicted;
    total.expected += score.expected;
  }
  return total;
}

}  // namespace sluice::metrics
