#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace sluice::metrics {

/// Counts of entities and what follows from them; a share of nothing is 0.
struct EntityScore {
  std::int64_t correct = 0;    ///< found with type, begin and end as expected
  std::int64_t predicted = 0;  ///< found
  std::int64_t expected = 0;

  double precision() const;  ///< correct / predicted
  double recall() const;     ///< correct / expected
  /// The harmonic mean of both: 2 correct / (predicted + expected).
  double f1() const;
};

/// Precision, recall and F1 of entities (data::spans_of) over a corpus, as the conlleval script and
/// the seqeval package (in its default mode) count them.
class EntityF1 {
 public:
  /// The labels of one sentence. Throws ErrorCode::kInvalidArgument if they are not as many.
  void add(std::span<const std::string> predicted, std::span<const std::string> expected);

  /// Of all types together: the micro average.
  EntityScore total() const;
  /// In byte order of types; every type that was found or expected.
  const std::map<std::string, EntityScore>& by_type() const { return scores_; }

 private:
  std::map<std::string, EntityScore> scores_;
};

}  // namespace sluice::metrics
