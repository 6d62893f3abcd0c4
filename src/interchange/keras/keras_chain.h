#pragma once

#include <string_view>
#include <vector>

#include "interchange/keras/keras_config.h"
#include "interchange/keras/keras_recurrent.h"
#include "interchange/source_model.h"

namespace sluice::interchange::keras {

/// Makes a chain of the layers of a model, which stand in the order in which they run. Throws
/// ErrorCode::kUnsupported, naming the layer, for a class or an option that is not read.
void read_chain(const std::vector<Layer>& layers, const Reading& reading, SourceModel& model);

/// Makes a chain of the recurrent layers that `names` has: "lstm_1" or "lstm_1,lstm_2".
void read_subgraph(const std::vector<Layer>& layers, std::string_view names, const Reading& reading,
                   SourceModel& model);

}  // namespace sluice::interchange::keras
