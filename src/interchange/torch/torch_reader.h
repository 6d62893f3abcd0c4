#pragma once

#include "interchange/arrays/named_arrays.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// A state dict of PyTorch, whatever file holds it. It has names and shapes but no graph, so:
///
///   the recurrent modules   are all that there are, in the order of the file (--set order=A,B), or
///                           the one of ReadOptions::subgraph
///   --set embedding=NAME    the matrix [ids, width] before them; found if one fits, "none": none
///   --set output=NAME       the module of the matrix [outputs, width] behind them; the same
///   --set pooling=KIND      last, mean or max, where the output reads a vector a sequence
///   --set target=classes    a model on features whose outputs are classes, not values
///   --set ignore=A,B        tensors, by the beginnings of their names, that are left out
///
/// Optimiser states are left out. Throws ErrorCode::kUnsupported with the names of tensors that
/// have no place, kInvalidArgument with the question if the file leaves one open.
SourceModel read_torch(const NamedArrays& arrays, const ReadOptions& options);

}  // namespace sluice::interchange
