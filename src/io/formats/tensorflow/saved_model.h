#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/byte_source.h"
#include "io/formats/tensorflow/graph_def.h"

namespace sluice::io::formats {

/// A tensor that goes into or out of a signature (message TensorInfo).
struct SignatureTensor {
  std::string name;       ///< "node:0"; empty for a tensor made of several (sparse, composite)
  std::int32_t type = 0;  ///< TensorFlow's number
  TensorflowShape shape;
};

/// An entry point of a saved model (message SignatureDef).
struct Signature {
  std::string method;  ///< "tensorflow/serving/predict"
  std::map<std::string, SignatureTensor> inputs, outputs;
};

/// A graph of a saved model with its tags and signatures (message MetaGraphDef).
struct MetaGraph {
  std::vector<std::string> tags;  ///< "serve"
  std::string tensorflow_version;
  GraphDef graph;
  std::map<std::string, Signature> signatures;  ///< "serving_default"
  bool has_objects = false;  ///< saved by TensorFlow 2, with an object graph, which is not read
};

/// A saved model of TensorFlow (message SavedModel): the file saved_model.pb. The variables are a
/// checkpoint beside it (saved_model_variables()).
struct SavedModel {
  std::vector<MetaGraph> graphs;
};

/// Reads a saved model's folder, or its saved_model.pb. Memory and errors as read_graph_def(); a
/// schema newer than 1 is refused (ErrorCode::kUnsupported).
SavedModel read_saved_model(const std::filesystem::path& path);
SavedModel read_saved_model(const ByteSource& source);

/// The prefix of the checkpoint in a saved model's folder: `<folder>/variables/variables`.
std::filesystem::path saved_model_variables(const std::filesystem::path& folder);

/// The bytes of a saved_model.pb. TensorFlow loads models whose weights are constants of the graph;
/// no saver is written for a folder of variables.
std::string write_saved_model(const SavedModel& model);

}  // namespace sluice::io::formats
