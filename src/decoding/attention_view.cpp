#include "decoding/attention_view.h"

#include "base/check.h"

namespace sluice::decoding {

void AttentionView::check() const {
  SLUICE_CHECK(attention.size() == target.size(),
               "attention: {} rows of weights don't go with {} output tokens", attention.size(),
               target.size());
  for (std::size_t t = 0; t < attention.size(); ++t) {
    SLUICE_CHECK(attention[t].size() == source.size(),
                 "attention: row {} has {} weights, but there are {} source tokens", t,
                 attention[t].size(), source.size());
  }
}

}  // namespace sluice::decoding
