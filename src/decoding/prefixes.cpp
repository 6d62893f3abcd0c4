#include "decoding/prefixes.h"

#include <algorithm>

#include "base/check.h"
#include "data/tokenizer.h"

namespace sluice::decoding {

void check_prefixes(Prefixes prefixes, std::size_t inputs, std::int64_t most,
                    std::int64_t vocabulary) {
  SLUICE_CHECK(prefixes.empty() || prefixes.size() == inputs, "{} prefixes for {} inputs",
               prefixes.size(), inputs);
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    SLUICE_CHECK(static_cast<std::int64_t>(prefixes[i].size()) <= most,
                 "the prefix of input {} has {} tokens; at most {} are allowed", i,
                 prefixes[i].size(), most);
    for (const std::int32_t token : prefixes[i]) {
      SLUICE_CHECK(token >= 0 && token < vocabulary && token != data::kPadId &&
                       token != data::kBosId && token != data::kEosId,
                   "the prefix of input {} holds token {}, which no output can", i, token);
    }
  }
}

std::int64_t longest(Prefixes prefixes) {
  std::size_t most = 0;
  for (const auto& prefix : prefixes) most = std::max(most, prefix.size());
  return static_cast<std::int64_t>(most);
}

std::vector<std::int32_t> max_lengths_of(const LengthLimits& limits,
                                         std::span<const std::int32_t> source_lengths,
                                         Prefixes prefixes) {
  std::vector<std::int32_t> most;
  for (std::size_t i = 0; i < source_lengths.size(); ++i) {
    const std::size_t prefix = prefixes.empty() ? 0 : prefixes[i].size();
    most.push_back(static_cast<std::int32_t>(
        std::max(limits.max_length_for(source_lengths[i]), static_cast<std::int64_t>(prefix))));
  }
  return most;
}

void upload(const runtime::Context& context, Prefixes prefixes, std::int64_t groups,
            const runtime::Tensor& tokens, const runtime::Tensor& lengths) {
  const std::int64_t time = longest(prefixes);
  if (time == 0) return;
  std::vector<std::int32_t> padded, sizes;
  for (const auto& prefix : prefixes) {
    for (std::int64_t group = 0; group < groups; ++group) {
      sizes.push_back(static_cast<std::int32_t>(prefix.size()));
      padded.insert(padded.end(), prefix.begin(), prefix.end());
      padded.resize(sizes.size() * static_cast<std::size_t>(time), data::kPadId);
    }
  }
  context.upload<std::int32_t>(tokens, padded);
  context.upload<std::int32_t>(lengths, sizes);
}

}  // namespace sluice::decoding
