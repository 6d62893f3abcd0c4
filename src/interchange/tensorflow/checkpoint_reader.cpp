#include "interchange/tensorflow/checkpoint_reader.h"

#include "interchange/tensorflow/chain.h"
#include "interchange/tensorflow/variables.h"

namespace sluice::interchange {

SourceModel read_tensorflow_checkpoint(const std::filesystem::path& path,
                                       const ReadOptions& options) {
  const auto checkpoint = io::formats::TensorflowCheckpoint::open(path);
  SourceModel model;
  model.format =
      checkpoint.is_v1() ? "a checkpoint of TensorFlow (V1)" : "a checkpoint of TensorFlow";
  model.path = path.string();
  tensorflow::Variables variables = tensorflow::variables_of(checkpoint, model.account);
  tensorflow::add_layers(std::move(variables), options, {}, model);
  return model;
}

}  // namespace sluice::interchange
