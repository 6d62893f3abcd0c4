#pragma once

#include <atomic>

#include "data/corpus.h"
#include "models/seq2seq.h"
#include "runtime/context.h"

namespace sluice::training {

/// The share of examples whose target is what greedy decoding makes of their source, token for
/// token. Stops early, with a number of no meaning, once `*stop` is true (`stop` may be null).
double exact_match(const runtime::Context& context, const models::Seq2Seq& model,
                   const data::PairCorpus& corpus, const std::atomic<bool>* stop = nullptr);

}  // namespace sluice::training
