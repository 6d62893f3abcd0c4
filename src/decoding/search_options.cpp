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
}

void SamplingOptions::validate() const {
  check_range("samples", samples, 1, kMostRows);
  check_range("temperature", temperature);
  SLUICE_CHECK(top_k >= 0, "top_k is {}; it must be at least 1, or 0 for all tokens", top_k);
  SLUICE_CHECK(top_p > 0 && top_p <= 1, "top_p is {}; it must be above 0 and at most 1", top_p);
  check_lengths();
  check_range("poll_every", poll_every, 0, kLongest);
}

}  // namespace sluice::decoding
