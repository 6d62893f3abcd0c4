#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/recurrent/recurrent.h"
#include "runtime/context.h"
#include "runtime/tensor.h"

/// A decoder with attention and input feeding over a whole target sequence (teacher forcing),
/// forward and backward, as one operation, and its single step for decoding.
///
/// For every row, with a_{-1} = a0 or zero, at step t:
///   x_0 = [emb_t ; a_{t-1}],  x_l = dropout(h_{l-1,t})
///   h_{l,t} = cell_l(x_l, h_{l,t-1}),  q = h_{top,t}
///   score_s = v . tanh(W_q q + W_m m_s)   additive (Bahdanau et al. 2015)
///           = q . (W_a m_s)               multiplicative (Luong et al. 2015, "general")
///   alpha = softmax of score over s < source length (all zero for length 0)
///   context = sum over s of alpha_s m_s
///   a_t = tanh(W_c [context ; q] + b_c)
/// At t >= its target length a row is inactive: a_t and alpha are zero and its state stays.
namespace sluice::kernels::attention_decoder {

using recurrent::CellType;
using runtime::Context;
using runtime::DType;
using runtime::Tensor;

/// packed, workspace and reserve of a plan, as for recurrent layers.
using recurrent::Memory;

enum class AttentionType { kAdditive, kMultiplicative };

std::string_view name_of(AttentionType attention);
/// "additive" or "multiplicative"; anything else is refused.
AttentionType parse_attention(std::string_view name);

/// What a plan is made for. The times and `rows` are capacities; each run may be smaller.
struct Descriptor {
  CellType cell = CellType::kLstm;  ///< any but the GRU that resets before the product
  AttentionType attention = AttentionType::kAdditive;
  std::int64_t layers = 1;
  std::int64_t embedding = 0;  ///< E, features of emb
  std::int64_t hidden = 0;     ///< H
  std::int64_t memory = 0;     ///< M, features of the attended memory (the encoder's output)
  std::int64_t key = 0;        ///< K, width of the additive score; 0 if multiplicative
  std::int64_t output = 0;     ///< A, width of a
  std::int64_t target_time = 0;
  std::int64_t source_time = 0;
  std::int64_t rows = 0;
  /// Storage of emb, memory, h, a, alpha and packed weights: float64, float32, bfloat16 or float16;
  /// an implementation refuses what it lacks. Sums, c, softmax and gradients of weights are kept in
  /// policy_of(dtype): float32 for the 16-bit ones.
  DType dtype = DType::kFloat32;
  /// As of a recurrent stack; attention itself stays float32.
  bool int8 = false;
  /// Whether products of float32 round their factors to TF32; make_plan takes it from the context.
  /// What is kept of a run that trains may be rounded to as many bits of float16, for which numbers
  /// of emb, memory, h0 and a0 from 65,520 on are infinite.
  bool tf32 = false;
  bool training = false;  ///< whether backward will be called
  double dropout = 0;     ///< rate between layers; applied only when training

  std::int64_t gates() const { return recurrent::gates_of(cell); }
  /// Width of the input of a layer.
  std::int64_t input_of(std::int64_t layer) const {
    return layer == 0 ? embedding + output : hidden;
  }
  /// Width of a key: what a query is compared with.
  std::int64_t key_width() const { return attention == AttentionType::kAdditive ? key : hidden; }
  /// Throws ErrorCode::kInvalidArgument for sizes that make no sense.
  void validate() const;
};

/// Canonical weights, or their gradients, in the master dtype.
struct Weights {
  /// One a layer, without weight_hr; of layer 0 weight_ih is [G*H, E+A]: columns [emb ; a].
  std::vector<recurrent::LayerWeights> cells;
  Tensor query_weight;     ///< additive: W_q [K, H]
  Tensor memory_weight;    ///< additive: W_m [K, M]
  Tensor score_vector;     ///< additive: v [K]
  Tensor bilinear_weight;  ///< multiplicative: W_a [H, M]
  Tensor output_weight;    ///< W_c [A, M+H]: columns [context ; q]
  Tensor output_bias;      ///< b_c [A]
};

/// Absent optional tensors are default Tensors. All contiguous; states in the storage dtype but c,
/// which has the cell-state dtype.
struct ForwardArgs {
  std::int64_t target_time = 0;  ///< extents of this run, at most the capacities
  std::int64_t source_time = 0;
  std::int64_t rows = 0;
  Tensor emb;             ///< [target_time, rows, E]
  Tensor memory;          ///< [source_time, rows, M]; never used past a row's source length
  Tensor source_lengths;  ///< int32 [rows], 0..source_time; absent: all `source_time`
  Tensor target_lengths;  ///< int32 [rows], 0..target_time; absent: all `target_time`
  Tensor h0;              ///< [L, rows, H]; absent: zero
  Tensor c0;              ///< LSTM [L, rows, H]; absent: zero
  Tensor a0;              ///< [rows, A]; absent: zero
  Tensor a;               ///< out [target_time, rows, A]
  Tensor alpha;           ///< out [target_time, rows, source_time]; optional
  Tensor hn;              ///< out [L, rows, H]; optional
  Tensor cn;              ///< out, LSTM [L, rows, H]; optional
  Tensor row_ids;         ///< int32 [rows]: global row for dropout; absent: the row index
  /// Stream `dropout.stream + l` masks the output of layer l (l < L-1), unit = feature.
  runtime::DropoutSource dropout;
};

/// Gradients flow in through da, dhn, dcn and out through the others.
struct BackwardArgs {
  ForwardArgs forward;  ///< exactly the arguments of the forward run; `a` as it left it
  Tensor da;            ///< [target_time, rows, A]. Ignored past a row's end
  Tensor dhn;           ///< [L, rows, H]; absent: zero
  Tensor dcn;           ///< LSTM [L, rows, H]; absent: zero
  Tensor d_emb;         ///< out, optional, overwritten; zero past a row's end
  Tensor d_memory;      ///< out, optional, overwritten; zero past a row's source length
  Tensor dh0;           ///< out, optional, overwritten
  Tensor dc0;           ///< out, optional, overwritten
  Tensor da0;           ///< out, optional, overwritten
  /// Added to (never overwritten); an absent tensor is not computed. `cells`: L entries, or none.
  Weights gradients;
};

/// The memory of `inputs` inputs as steps want it: computed once an input, shared by its rows.
struct PrepareArgs {
  std::int64_t source_time = 0;
  std::int64_t inputs = 0;
  Tensor memory;          ///< [source_time, inputs, M]
  Tensor source_lengths;  ///< int32 [inputs]; absent: all `source_time`
  Tensor keys;            ///< out [inputs, source_time, Plan::key_stride()], storage dtype
  Tensor values;          ///< out [inputs, source_time, Plan::value_stride()]
};

/// One step of `rows` rows. The new state may be the old state's own tensors.
struct StepArgs {
  std::int64_t source_time = 0;
  std::int64_t inputs = 0;
  std::int64_t rows = 0;
  Tensor emb;             ///< [rows, E]
  Tensor keys, values;    ///< as prepare_memory left them
  Tensor source_lengths;  ///< int32 [inputs]; absent: all `source_time`
  Tensor input_of_row;    ///< int32 [rows]: the input a row attends to; absent: row r to input r
  Tensor h, c, a;         ///< [L, rows, H], LSTM [L, rows, H], [rows, A]
  Tensor h_next, c_next, a_next;  ///< out
  Tensor alpha;                   ///< out [rows, source_time]; optional
};

/// One implementation bound to one descriptor. Runs allocate nothing. Not thread-safe: one plan,
/// one stream at a time.
class Plan {
 public:
  virtual ~Plan() = default;

  virtual std::string_view implementation() const = 0;
  virtual std::size_t packed_bytes() const = 0;
  /// As recurrent::Plan's, of the plans of one decoder.
  virtual std::string packed_layout() const { return {}; }
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::size_t reserve_bytes() const = 0;
  /// Width in memory of one key and of one memory vector as steps read them.
  virtual std::int64_t key_stride() const = 0;
  virtual std::int64_t value_stride() const = 0;

  /// Canonical weights -> packed. To be called again whenever the weights change.
  virtual void pack(const Context& context, const Weights& weights, const Memory& memory) = 0;
  virtual void forward(const Context& context, const ForwardArgs& args, const Memory& memory) = 0;
  virtual void backward(const Context& context, const BackwardArgs& args, const Memory& memory) = 0;
  /// `inputs` may be anything; the source time is bound by the capacity.
  virtual void prepare_memory(const Context& context, const PrepareArgs& args,
                              const Memory& memory) = 0;
  /// Needs packed and workspace only. A row gives what it gives in forward without dropout: the
  /// same bits on the CPU, on a GPU within the rounding of sums.
  virtual void step(const Context& context, const StepArgs& args, const Memory& memory) = 0;
};

/// An entry of the ordered list of implementations; the first that doesn't refuse is the default.
struct Candidate {
  std::string_view name;
  /// The reason why it can't or won't run this, or nothing.
  std::optional<std::string> (*refuse)(const Descriptor&, const runtime::Device&);
  std::unique_ptr<Plan> (*create)(const Descriptor&, const runtime::Device&);
};

/// The ordered list of one kind of device.
struct Candidates {
  std::span<const Candidate> list;
};

std::span<const Candidate> candidates(const runtime::Device& device);

struct Choice {
  std::unique_ptr<Plan> plan;
  std::vector<recurrent::Declined> declined;  ///< those asked before the chosen one
};

/// Picks by name, or with "auto" the first candidate that accepts. Throws
/// ErrorCode::kUnsupported with every reason when none does.
Choice make_plan(const Context& context, const Descriptor& descriptor,
                 std::string_view implementation = "auto");

}  // namespace sluice::kernels::attention_decoder
