#pragma once

#include <filesystem>

#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// Reads a model of Keras: a .keras file (Keras 3, and Keras 2 from 2.12 on), or an HDF5 file of a
/// whole model (Keras 1, 2 and 3). The model must be a single chain of layers: Embedding, LSTM,
/// GRU, SimpleRNN, CuDNNLSTM, CuDNNGRU, RNN, Bidirectional, Dense, TimeDistributed(Dense),
/// Activation, Softmax, BatchNormalization, pooling, and layers that act in training alone.
/// options.subgraph takes recurrent layers alone: "lstm_1", or "lstm_1,lstm_2" for several in a
/// chain.
///
/// A file of weights alone has no configuration. Its recurrent layers are read, and
/// recurrent_activation must be answered (--set) unless they are CuDNNLSTM or CuDNNGRU.
///
/// Answers: hard_sigmoid_slope; of weights alone also activation and recurrent_activation.
///
/// Throws ErrorCode::kUnsupported, naming layer and class, for what is not read, kFormat for a
/// damaged file, and as ZipArchive and Hdf5File.
SourceModel read_keras(const std::filesystem::path& path, const ReadOptions& options);

}  // namespace sluice::interchange
