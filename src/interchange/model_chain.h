#pragma once

#include "interchange/source_model.h"
#include "io/checkpoint.h"

namespace sluice::interchange {

/// A checkpoint of Sluice as a chain whose cells have the layout of another program: the inverse of
/// assemble(). Weights stored in fewer bits become float32. A GRU for Convention::kTensorflow that
/// resets after the product becomes a kTensorflowCudnnGru. Throws ErrorCode::kUnsupported for what
/// no chain says (seq2seq, layer norm, zoneout, a conditioned language model) and as
/// from_canonical().
SourceModel chain_of_model(const io::Container& container, Convention convention);

/// The recurrent stack of any kind of model alone: a seq2seq's encoder, else all its layers.
SourceModel recurrent_chain_of_model(const io::Container& container, Convention convention);

}  // namespace sluice::interchange
