#pragma once

#include "interchange/source_model.h"
#include "interchange/tensorflow/cell_finder.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange::tensorflow {

/// Adds the layers that the variables make to `model`: [embedding], recurrent layers, [dense
/// layer]. Throws if there is no recurrent cell, or if variables are left that nothing explains.
void add_layers(Variables variables, const ReadOptions& options, const GraphFacts& facts,
                SourceModel& model);

}  // namespace sluice::interchange::tensorflow
