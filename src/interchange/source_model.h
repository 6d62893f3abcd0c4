#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "interchange/account.h"
#include "io/host_tensor.h"

/// Models as other programs hold them: the reader of a format makes a SourceModel of a file, and
/// the writer makes a file of one. Tensors stay in the layout of the source.
namespace sluice::interchange {

/// An activation by the name that the source has for it, in lower case: "tanh", "sigmoid", "relu",
/// "linear", "hard_sigmoid" (clip(alpha a + beta, 0, 1)) and others, which to_canonical refuses.
struct Activation {
  std::string name;
  double alpha = 0.2;  ///< of a hard sigmoid
  double beta = 0.5;   ///< of a hard sigmoid

  bool is(std::string_view other) const { return name == other; }
  bool operator==(const Activation&) const = default;
};

/// The layouts of a recurrent layer's tensors. H is hidden, I the input's width, P the output's
/// (H without a projection), G the number of gates. Tensors in brackets may be absent.
enum class Convention {
  /// PyTorch, and Sluice itself. weight_ih [G*H, I], weight_hh [G*H, P], [bias_ih], [bias_hh]
  /// [G*H], [weight_hr] [P, H]; LSTM i f g o, GRU r z n. Sluice adds [weight_peephole] [3, H] for
  /// i f o, and has a GRU that resets before the product.
  kTorch,
  /// Keras. kernel [I, G*H], recurrent_kernel [H, G*H], [bias] [G*H], or [2, 3*H] of a GRU that
  /// resets after the product; LSTM i f c o, GRU z r h.
  kKeras,
  /// CuDNNLSTM and CuDNNGRU of Keras 2. kernel [I, G*H] and recurrent_kernel [H, G*H], of which
  /// the block of a gate is the transpose of cuDNN's matrix, reshaped in row-major order for the
  /// kernel (Keras says: from_cudnn); bias [2*G*H]; gates as kKeras.
  kKerasCudnn,
  /// Cells of TensorFlow 1. LSTM: kernel [I+P, 4*H], bias [4*H], [w_i_diag], [w_f_diag], [w_o_diag]
  /// [H], [projection] [H, P]; i c f o; forget_bias is added to f. GRUCell: gate_kernel [I+H, 2*H],
  /// gate_bias [2*H], candidate_kernel [I+H, H], candidate_bias [H]; r u. BasicRNNCell: kernel
  /// [I+H, H], bias [H].
  kTensorflow,
  /// CudnnCompatibleGRUCell: gate_kernel [I+H, 2*H], gate_bias [2*H] (r u), input_kernel [I, H],
  /// input_bias [H], hidden_kernel [H, H], hidden_bias [H]; resets after the product.
  kTensorflowCudnnGru,
  /// ONNX, one direction. w [G*H, I], r [G*H, H], [b] [2*G*H], [p] [3*H]; LSTM i o f c with
  /// peepholes i o f, GRU z r h.
  kOnnx,
  /// Paddle. LSTM: weight [H, 4*H] with gates c i f o, bias [1, 4*H], or [1, 7*H] with the
  /// peepholes
  /// i f o. GRU: weight [H, 3*H], of which the first 2*H*H numbers are [H, 2*H] for u r and the
  /// rest
  /// [H, H]; bias [1, 3*H] (u r c). Both: input_weight [I, G*H], [input_bias] [G*H], of the fully
  /// connected layer before them.
  kPaddle,
  /// Plain arrays, described by SourceCell::gates and by orientation: weight_ih, weight_hh,
  /// [bias_ih], [bias_hh], [weight_peephole], [weight_hr] as kTorch, in the order of `gates`.
  kArrays,
};

std::string_view name_of(Convention convention);

enum class CellKind { kLstm, kGru, kRnn };
std::string_view name_of(CellKind kind);  ///< "LSTM", "GRU", "RNN"

/// One direction of a recurrent layer.
struct SourceCell {
  Convention convention = Convention::kTorch;
  CellKind kind = CellKind::kLstm;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t output = 0;  ///< `hidden`, or the width of a projection
  /// By the names of Convention; all are float32.
  std::map<std::string, io::HostTensor, std::less<>> tensors = {};
  Activation gate{"sigmoid"};        ///< of i, f and o, or of r and z
  Activation candidate{"tanh"};      ///< of g or n, and of a plain RNN
  Activation state{"tanh"};          ///< of an LSTM's cell state, before o
  bool reset_after = true;           ///< of a GRU: r acts on the product, as in cuDNN
  bool keeps_by_complement = false;  ///< of a GRU: h' = (1 - z) h + z n (Paddle's origin_mode=0)
  double forget_bias = 0;            ///< what the source adds to f beside its biases
  /// Of kArrays: "ifgo" or "rzn" in the arrays' order. Of kTensorflow: "ifgo" if the operation is
  /// BlockLSTMV2, else empty.
  std::string gates = {};

  /// Null if there is none of that name.
  const io::HostTensor* find(std::string_view tensor) const;
  /// Throws ErrorCode::kFormat if there is none.
  const io::HostTensor& get(std::string_view tensor) const;
};

/// A row of `table` [ids, width] for each id.
struct EmbeddingLayer {
  std::string name;
  io::HostTensor table;
  std::optional<std::int64_t> padding = {};  ///< the id that marks the end of shorter rows
};

/// A recurrent layer that puts out every step, [steps, width]; two directions stand next to each
/// other, forward first.
struct RecurrentLayer {
  std::string name;
  /// One of them may be absent. The backward direction starts at the last step, and its output
  /// stands at the step that it belongs to.
  std::optional<SourceCell> forward = {}, backward = {};

  std::int64_t input() const { return (forward ? *forward : *backward).input; }
  std::int64_t output() const {
    return (forward ? forward->output : 0) + (backward ? backward->output : 0);
  }
};

/// y = activation(x weight^T + bias), with weight [out, in] and bias [out].
struct LinearLayer {
  std::string name;
  io::HostTensor weight;
  std::optional<io::HostTensor> bias = {};
  Activation activation{"linear"};  ///< also "softmax", "log_softmax"
};

/// y = x * scale + shift, a number for each feature: a batch normalisation in inference.
struct AffineLayer {
  std::string name;
  io::HostTensor scale, shift;
};

/// One vector for a sequence (docs/equations.md#pooling): "last", "mean", "max" or "attention".
/// `last` is the last step of the forward direction and the first step of the backward one.
struct PoolingLayer {
  std::string name;
  std::string kind;
  std::optional<io::HostTensor> query = {};  ///< of attention: [features]
};

/// A conditional random field over the outputs of the last layer (docs/equations.md). It changes
/// no output, but which labels are answered.
struct CrfLayer {
  std::string name;
  io::HostTensor transitions;  ///< [labels, labels], from row to column
  io::HostTensor start, end;   ///< [labels]
};

using SourceLayer =
    std::variant<EmbeddingLayer, RecurrentLayer, LinearLayer, AffineLayer, PoolingLayer, CrfLayer>;

/// A model of another program: a chain of layers.
struct SourceModel {
  std::string format;  ///< "a Keras file (.keras)", for messages
  std::string path;
  std::vector<SourceLayer> layers;
  /// The decoder of a model without attention whose encoder is `layers`: an embedding, recurrent
  /// layers in one direction and a linear layer. Recurrent layer l starts from the last states of
  /// recurrent layer l of `layers`, those of both directions next to each other, or from zero.
  std::vector<SourceLayer> decoder = {};
  /// The texts of the ids, and the labels: of a model of Sluice that is to be written.
  std::vector<std::string> pieces = {}, labels = {};
  Account account = {};
};

std::string_view name_of(const SourceLayer& layer);

/// Throws ErrorCode::kUnsupported: `program` has no CRF. export_model() leaves it out before.
[[noreturn]] void refuse_crf(const CrfLayer& layer, std::string_view program);

/// A copy in float32 of numbers of any type.
io::HostTensor to_float32(const io::HostTensor& tensor);
/// The transpose of a float32 matrix.
io::HostTensor transposed(const io::HostTensor& matrix);

}  // namespace sluice::interchange
