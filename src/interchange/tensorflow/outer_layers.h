#pragma once

#include <cstdint>
#include <optional>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "interchange/tensorflow/graph_facts.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange::tensorflow {

/// Takes the embedding [ids, width] before the recurrent layers: the answer `embedding` names it
/// ("none": there is none), or it is the only unused matrix of that width with "embed" in its name.
std::optional<EmbeddingLayer> find_embedding(Variables& variables, const ReadOptions& options,
                                             std::int64_t width, Account& account);

/// Takes the dense layer [width, labels] behind them: the answers `output` and `output_bias` name
/// it, or it is the only unused pair of a matrix and a vector of such sizes and one scope or stem.
/// Without a fact on its activation, its outputs are logits.
std::optional<LinearLayer> find_output(Variables& variables, const ReadOptions& options,
                                       const GraphFacts& facts, std::int64_t width,
                                       Account& account);

}  // namespace sluice::interchange::tensorflow
