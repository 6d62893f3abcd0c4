#include "decoding/option_checks.h"
#include "decoding/sampling.h"
#include "decoding/search.h"

namespace sluice::decoding {

void SearchOptions::validate() const {
  check_range("beam", beam, 1, kMostRows);
  SLUICE_CHECK(nbest >= 1 && nbest <= beam,
               "nbest is {}; with beam {} it must be in 1..{}, or take a wider beam", nbest, beam,
               beam);
  check_range("length_penalty", length_penalty);
  check_lengths();
  check_range("poll_every", poll_every, 0, kLongest);
  constraints.validate();
  check_range("coverage_penalty", coverage_penalty);
  check_range("diversity", diversity);
  check_range("groups", groups, 1, beam);
  SLUICE_CHECK(beam % groups == 0,
               "beam is {}, which {} groups can't share evenly; take a beam that is a multiple of "
               "{}",
               beam, groups, groups);
  if (!without_replacement) return;
  SLUICE_CHECK(without_replacement->temperature > 0,
               "temperature is {}; for draws without replacement it must be above 0",
               without_replacement->temperature);
  check_range("temperature", without_replacement->temperature);
  SLUICE_CHECK(groups == 1, "draws without replacement take no groups, but groups is {}", groups);
  SLUICE_CHECK(coverage_penalty == 0,
               "draws without replacement take no coverage penalty, but coverage_penalty is {}",
               coverage_penalty);
}

void SamplingOptions::validate() const {
  check_range("samples", samples, 1, kMostRows);
  check_range("temperature", temperature);
  SLUICE_CHECK(top_k >= 0, "top_k is {}; it must be at least 1, or 0 for all tokens", top_k);
  SLUICE_CHECK(top_p > 0 && top_p <= 1, "top_p is {}; it must be above 0 and at most 1", top_p);
  check_lengths();
  constraints.validate();
  check_range("poll_every", poll_every, 0, kLongest);
}

}  // namespace sluice::decoding
