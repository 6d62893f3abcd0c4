#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "interchange/account.h"
#include "interchange/arrays/named_arrays.h"
#include "interchange/read_options.h"
#include "interchange/source_model.h"

namespace sluice::interchange {

/// A module of nn.LSTM, nn.GRU, nn.RNN or of their cells, by the names of its tensors.
struct TorchModule {
  std::string prefix;    ///< "encoder.lstm."; empty if names have none
  bool is_cell = false;  ///< names end without a layer's number: nn.LSTMCell
  /// Of each layer and direction the names of its tensors, by their parts: "weight_ih".
  using Direction = std::map<std::string, std::string, std::less<>>;
  struct Layer {
    Direction forward, backward;
  };
  std::map<std::int64_t, Layer> layers;

  /// "encoder.lstm", or "(no name)"
  std::string name() const;
};

/// The recurrent modules among the arrays, in their order.
std::vector<TorchModule> torch_modules(const NamedArrays& arrays);

/// The layers of a module. Throws ErrorCode::kFormat if a layer lacks a tensor or shapes disagree,
/// kInvalidArgument if the nonlinearity of a plain RNN is not given (--set nonlinearity=).
std::vector<RecurrentLayer> layers_of(const TorchModule& module, const NamedArrays& arrays,
                                      const ReadOptions& options, Account& account);

}  // namespace sluice::interchange
