#include "interchange/canonical_cell.h"

#include <algorithm>

#include "base/check.h"
#include "interchange/gate_blocks.h"

namespace sluice::interchange {
namespace {

using kernels::recurrent::CellType;

// Sluice's hard sigmoid is clip(kSlope a + kShift, 0, 1).
constexpr double kSlope = 0.2, kShift = 0.5;

[[noreturn]] void refuse_activation(std::string_view layer, std::string_view what,
                                    const Activation& activation, std::string_view has) {
  base::fail(ErrorCode::kUnsupported, "{}: the activation of {} is '{}'; Sluice has {}", layer,
             what, activation.name, has);
}

CellType type_of(const SourceCell& cell, std::string_view layer) {
  if (cell.kind == CellKind::kRnn) {
    if (cell.candidate.is("tanh")) return CellType::kRnnTanh;
    if (cell.candidate.is("relu")) return CellType::kRnnRelu;
    refuse_activation(layer, "a plain RNN", cell.candidate, "tanh and relu");
  }
  if (!cell.gate.is("sigmoid") && !cell.gate.is("hard_sigmoid")) {
    refuse_activation(layer, "the gates", cell.gate, "sigmoid and hard_sigmoid");
  }
  const std::string_view candidate =
      cell.kind == CellKind::kLstm ? "the cell's input" : "the new state";
  if (!cell.candidate.is("tanh")) refuse_activation(layer, candidate, cell.candidate, "tanh");
  if (cell.kind == CellKind::kLstm) {
    if (!cell.state.is("tanh")) refuse_activation(layer, "the cell state", cell.state, "tanh");
    return CellType::kLstm;
  }
  return cell.reset_after ? CellType::kGru : CellType::kGruResetBefore;
}

/// Multiplies everything that the activation of a gate sees, and then adds `shift`.
void scale_gate(GateBlocks& blocks, char gate, double factor, double shift) {
  const std::int64_t first = blocks.row_of(gate);
  const auto scale = [&](std::vector<float>& numbers, std::int64_t width) {
    for (std::int64_t at = first * width; at < (first + blocks.hidden) * width; ++at) {
      float& number = numbers[static_cast<std::size_t>(at)];
      number = static_cast<float>(factor * number);
    }
  };
  scale(blocks.weight_ih, blocks.input);
  scale(blocks.weight_hh, blocks.output);
  scale(blocks.bias_ih, 1);
  scale(blocks.bias_hh, 1);
  for (std::int64_t row = first; row < first + blocks.hidden; ++row) {
    float& bias = blocks.bias_ih[static_cast<std::size_t>(row)];
    bias = static_cast<float>(bias + shift);
  }
  const std::size_t peephole = blocks.peephole_order.find(gate);
  if (blocks.weight_peephole.empty() || peephole == std::string::npos) return;
  for (std::int64_t unit = 0; unit < blocks.hidden; ++unit) {
    float& number = blocks.weight_peephole[peephole * static_cast<std::size_t>(blocks.hidden) +
                                           static_cast<std::size_t>(unit)];
    number = static_cast<float>(factor * number);
  }
}

/// Folds another slope and shift of a hard sigmoid into the weights and biases of the gates.
void fold_hard_sigmoid(GateBlocks& blocks, const Activation& gate) {
  if (gate.alpha == kSlope && gate.beta == kShift) return;
  for (const char name : blocks.order) {
    const bool is_gate = name != 'g' && name != 'n';
    if (is_gate) scale_gate(blocks, name, gate.alpha / kSlope, (gate.beta - kShift) / kSlope);
  }
}

void check_hard_sigmoid(const Activation& gate, std::string_view layer) {
  if (gate.alpha > 0) return;
  base::fail(ErrorCode::kUnsupported,
             "{}: the hard sigmoid has the slope alpha = {}, which must be positive", layer,
             gate.alpha);
}

CellKind kind_of(CellType type) {
  if (type == CellType::kLstm) return CellKind::kLstm;
  const bool is_gru = type == CellType::kGru || type == CellType::kGruResetBefore;
  return is_gru ? CellKind::kGru : CellKind::kRnn;
}

void refuse_what_lacks(const CanonicalCell& cell, Convention convention, std::string_view layer) {
  const auto refuse = [&](bool has, std::string_view what) {
    if (!has) return;
    base::fail(ErrorCode::kUnsupported, "{} has {}, which {} lacks", layer, what,
               name_of(convention));
  };
  const bool is_keras = convention == Convention::kKeras;
  const bool is_onnx = convention == Convention::kOnnx;
  const bool is_tensorflow = convention == Convention::kTensorflow;
  refuse(!cell.weight_hr.empty() && (is_keras || is_onnx), "a projection");
  refuse(!cell.weight_peephole.empty() && is_keras, "peepholes");
  refuse(cell.type == CellType::kGru && is_tensorflow, "a GRU that resets after the product");
  refuse(cell.type == CellType::kGruResetBefore && convention == Convention::kTensorflowCudnnGru,
         "a GRU that resets before the product");
}

}  // namespace

CanonicalCell to_canonical(const SourceCell& source, std::string_view layer) {
  CanonicalCell cell;
  cell.type = type_of(source, layer);
  cell.hard_sigmoid = source.kind != CellKind::kRnn && source.gate.is("hard_sigmoid");
  cell.input = source.input;
  cell.hidden = source.hidden;
  cell.output = source.output;
  GateBlocks blocks = blocks_of(source, layer).in_order(canonical_order(source.kind));
  if (cell.hard_sigmoid) {
    check_hard_sigmoid(source.gate, layer);
    fold_hard_sigmoid(blocks, source.gate);
  }
  if (source.kind == CellKind::kLstm && source.forget_bias != 0) {
    // It stands beside the stored bias, so it takes part in the slope of a hard sigmoid.
    const double slope = cell.hard_sigmoid ? source.gate.alpha / kSlope : 1;
    scale_gate(blocks, 'f', 1, slope * source.forget_bias);
  }
  if (source.kind == CellKind::kGru && source.keeps_by_complement) {
    if (cell.hard_sigmoid && source.gate.beta != kShift) {
      base::fail(ErrorCode::kUnsupported,
                 "{}: a hard sigmoid with beta = {} of a GRU that keeps by 1 - z is not read",
                 layer, source.gate.beta);
    }
    // 1 - sigmoid(a) = sigmoid(-a), and the same of the hard one.
    scale_gate(blocks, 'z', -1, 0);
  }
  cell.weight_ih = std::move(blocks.weight_ih);
  cell.weight_hh = std::move(blocks.weight_hh);
  cell.bias_ih = std::move(blocks.bias_ih);
  cell.bias_hh = std::move(blocks.bias_hh);
  cell.weight_hr = std::move(blocks.weight_hr);
  cell.weight_peephole = std::move(blocks.weight_peephole);
  return cell;
}

SourceCell from_canonical(const CanonicalCell& cell, Convention convention,
                          std::string_view layer) {
  refuse_what_lacks(cell, convention, layer);
  SourceCell source;
  source.convention = convention;
  source.kind = kind_of(cell.type);
  source.input = cell.input;
  source.hidden = cell.hidden;
  source.output = cell.output;
  if (cell.hard_sigmoid) source.gate = {"hard_sigmoid", kSlope, kShift};
  if (cell.type == CellType::kRnnRelu) source.candidate = {"relu"};
  source.reset_after = cell.type == CellType::kGru;
  GateBlocks blocks{.order = std::string(canonical_order(source.kind)),
                    .hidden = cell.hidden,
                    .input = cell.input,
                    .output = cell.output,
                    .weight_ih = cell.weight_ih,
                    .weight_hh = cell.weight_hh,
                    .bias_ih = cell.bias_ih,
                    .bias_hh = cell.bias_hh,
                    .weight_peephole = cell.weight_peephole,
                    .weight_hr = cell.weight_hr};
  set_tensors(source, blocks);
  return source;
}

CanonicalCell zero_cell(const CanonicalCell& like, std::int64_t input) {
  CanonicalCell cell = like;
  cell.input = input;
  cell.weight_ih.assign(static_cast<std::size_t>(cell.gates() * cell.hidden * input), 0);
  for (std::vector<float>* numbers :
       {&cell.weight_hh, &cell.bias_ih, &cell.bias_hh, &cell.weight_hr, &cell.weight_peephole}) {
    std::ranges::fill(*numbers, 0.0F);
  }
  return cell;
}

}  // namespace sluice::interchange
