#pragma once

#include <string>
#include <vector>

#include "interchange/account.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"
#include "interchange/tensorflow/cell_finder.h"

namespace sluice::interchange::tensorflow {

/// Makes layers of cells, first to last.
///
/// - The scopes `fw` and `bw` of bidirectional_rnn are the directions. The answer `backward` lists
///   other scopes that run backward (TimeReversedFusedRNN), each beside the scope that reads the
///   same width.
/// - `cell_N` of MultiRNNCell and stack_bidirectional_rnn is the place of a layer. Stacks that
///   bidirectional_dynamic_rnn runs apart become layers of both directions, where a direction has
///   zeros for the output of the other.
/// - Stacks follow each other as the answer `order` lists them, "SCOPE,FORWARD+BACKWARD"; without
///   it, by the numbers of their scopes, or in the only order in which their widths fit.
///
/// Throws ErrorCode::kInvalidArgument if the order must be asked for, and kFormat if widths do not
/// fit.
std::vector<RecurrentLayer> order_layers(std::vector<FoundCell> cells, const ReadOptions& options,
                                         std::string_view file, Account& account);

}  // namespace sluice::interchange::tensorflow
