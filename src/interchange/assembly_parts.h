#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interchange/assemble.h"
#include "interchange/canonical_stack.h"
#include "model_files/tokenizers.h"
#include "models/model.h"

/// The steps that all kinds of models take from a chain to a checkpoint.
namespace sluice::interchange {

using Floats = std::vector<float>;
/// Values of parameters by their names, or by what follows the first dot of their names.
using Parts = std::map<std::string, Floats>;

/// A weight [outputs, width] and a bias [outputs].
struct OutputRows {
  Floats weight, bias;
};

/// Adds a stack's tensors: `prefix` + "weight_ih_l0_reverse". They are moved out of the stack.
void add_stack(CanonicalStack& stack, const std::string& prefix, Parts& parts);
/// Row r of the table becomes row ids[r] of [vocabulary, width]; the others are zero.
Floats spread_rows(const EmbeddingLayer& embedding, const std::vector<std::int32_t>& ids,
                   std::int64_t vocabulary);
/// The same of an output layer's rows. Ids that have none never come.
OutputRows spread_rows(const OutputRows& rows, const std::vector<std::int32_t>& ids,
                       std::int64_t vocabulary);
/// A checkpoint of `model` with these values; each parameter has one. Throws ErrorCode::kNumeric
/// for numbers that are not finite, naming `path`.
io::Container container_of(const models::Model& model, const Parts& parts,
                           const model_files::Tokenizers& tokenizers, const std::string& path);

}  // namespace sluice::interchange
