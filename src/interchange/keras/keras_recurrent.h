#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "interchange/keras/keras_config.h"
#include "interchange/keras/keras_weights.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange::keras {

/// LSTM, GRU, SimpleRNN, CuDNNLSTM, CuDNNGRU, RNN or Bidirectional.
bool is_recurrent(std::string_view type);

/// What a reader needs beside the layers themselves.
struct Reading {
  Weights& weights;
  std::string version;  ///< of Keras, as the file says it; empty if it does not
  const ReadOptions& options;
  Account& account;
  std::string_view origin = "configuration";  ///< of what is known of the layers
};

/// A recurrent layer of Keras: a chain of layers, more than one for StackedRNNCells.
struct RecurrentPart {
  std::vector<RecurrentLayer> layers;
  bool returns_sequences = false;
  bool is_bidirectional = false;
  /// The next layer would get the steps in reverse order, as after a layer with go_backwards.
  bool is_reversed = false;
};

/// Reads a layer whose input is in reverse order if `is_reversed`. Throws ErrorCode::kUnsupported,
/// naming the layer, for cells and options that are not read.
RecurrentPart read_recurrent(const Layer& layer, bool is_reversed, const Reading& reading);

/// hard_sigmoid of the file's version of Keras, or of --set hard_sigmoid_slope.
Activation hard_sigmoid(std::string_view layer, const Reading& reading);

/// Sets the sizes of a cell from its kernels, [input, G*H] and [H, G*H].
void set_sizes(SourceCell& cell, std::string_view layer);

/// "[2, 12]"
std::string shape_text(const SourceCell& cell, std::string_view tensor);

}  // namespace sluice::interchange::keras
