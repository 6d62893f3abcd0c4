#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/keras/keras_config.h"
#include "io/formats/hdf5/hdf5.h"
#include "io/host_tensor.h"

namespace sluice::interchange::keras {

/// Tensors by the names that Keras 2 and 3 have for them: kernel, recurrent_kernel, bias,
/// embeddings, gamma, beta, moving_mean, moving_variance. All are float32.
using Tensors = std::map<std::string, io::HostTensor, std::less<>>;

/// The part of a layer that holds weights.
struct Part {
  enum class Side { kNone, kForward, kBackward };
  Side side = Side::kNone;  ///< of Bidirectional
  bool is_cell = false;     ///< of a recurrent layer
  bool is_wrapped = false;  ///< in TimeDistributed
  /// The classes of all cells of StackedRNNCells, and which of them it is.
  std::vector<std::string> stack = {};
  std::size_t index = 0;
};

/// The weights of a Keras model.
class Weights {
 public:
  virtual ~Weights() = default;
  /// The tensors of a layer's part. `names` are those that the configuration promises, in Keras's
  /// order. Throws ErrorCode::kFormat if one is missing.
  virtual Tensors read(const Layer& layer, const Part& part,
                       std::span<const std::string_view> names) = 0;
};

/// Weights of model.weights.h5: datasets 0, 1, 2 in groups "vars".
std::unique_ptr<Weights> container_weights(io::formats::Hdf5File& file, std::string name);
/// Weights of older files: datasets that the attribute weight_names of a layer's group names.
/// `root` is "model_weights" or "".
std::unique_ptr<Weights> legacy_weights(io::formats::Hdf5File& file, std::string root,
                                        std::string name);

/// The texts of an attribute, which Keras cuts into NAME0, NAME1 and so on if it is large.
std::vector<std::string> texts_of(io::formats::Hdf5File& file, std::string_view group,
                                  std::string_view attribute);

/// Joins the arrays of Keras 1, one for each gate (W_i, U_i, b_i), to those of Keras 2. `arrays`
/// has them by the ends of their names: "W_i", "U", "running_mean".
Tensors join_keras1(const std::map<std::string, io::HostTensor>& arrays, const Layer& layer);
/// The end of a name of Keras 1, such as "W_i" of "lstm_1_W_i"; empty for other names.
std::string_view keras1_end(std::string_view name);

}  // namespace sluice::interchange::keras
