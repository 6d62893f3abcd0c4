#pragma once

#include <string>
#include <utility>
#include <vector>

#include "interchange/keras/keras_config.h"
#include "interchange/source_model.h"
#include "io/host_tensor.h"

namespace sluice::interchange::keras {

/// Weights that stand in one group, in Keras's order.
struct WeightGroup {
  std::string place;  ///< below the layer, in model.weights.h5: "forward_layer/cell"
  std::string scope;  ///< in names of older files: "forward_lstm/lstm_cell"
  std::vector<std::pair<std::string, io::HostTensor>> weights;
};

/// A layer as Keras writes it.
struct Entry {
  std::string type;
  std::string name;
  Json config;
  std::vector<WeightGroup> groups;
};

/// The layers of a chain without its input. Throws as write_keras.
std::vector<Entry> entries_of(const SourceModel& model);

}  // namespace sluice::interchange::keras
