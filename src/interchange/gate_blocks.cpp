#include "interchange/gate_blocks.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "base/check.h"

namespace sluice::interchange {
namespace {

using io::HostTensor;
using Numbers = std::vector<float>;
using base::Shape;

/// The gates of each convention as its tensors hold them: the only place that knows.
struct Gates {
  std::string_view lstm, gru, lstm_peepholes;
};

Gates gates_of(Convention convention) {
  switch (convention) {
    case Convention::kTorch:
      return {"ifgo", "rzn", "ifo"};
    case Convention::kKeras:
    case Convention::kKerasCudnn:
      return {"ifgo", "zrn", "ifo"};
    case Convention::kTensorflow:
    case Convention::kTensorflowCudnnGru:
      return {"igfo", "rzn", "ifo"};
    case Convention::kOnnx:
      return {"iofg", "zrn", "iof"};
    case Convention::kPaddle:
      return {"gifo", "zrn", "ifo"};
    case Convention::kArrays:
      break;
  }
  return {"ifgo", "rzn", "ifo"};
}

std::string_view order_of(const SourceCell& cell) {
  if (cell.kind == CellKind::kRnn) return "n";
  if (!cell.gates.empty()) return cell.gates;
  const Gates gates = gates_of(cell.convention);
  return cell.kind == CellKind::kLstm ? gates.lstm : gates.gru;
}

Numbers numbers_of(const HostTensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

HostTensor tensor_of(const Numbers& numbers, const Shape& shape) {
  return HostTensor::copy_of<float>(numbers, shape);
}

/// The transpose of the rows [first, first + rows) of a matrix with `columns` columns.
Numbers transposed_rows(const Numbers& matrix, std::int64_t first, std::int64_t rows,
                        std::int64_t columns) {
  Numbers result(static_cast<std::size_t>(rows * columns));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      result[static_cast<std::size_t>(column * rows + row)] =
          matrix[static_cast<std::size_t>((first + row) * columns + column)];
    }
  }
  return result;
}

Numbers transposed(const Numbers& matrix, std::int64_t rows, std::int64_t columns) {
  return transposed_rows(matrix, 0, rows, columns);
}

Numbers joined(std::initializer_list<const Numbers*> parts) {
  Numbers result;
  for (const Numbers* part : parts) result.insert(result.end(), part->begin(), part->end());
  return result;
}

Numbers part_of(const Numbers& numbers, std::int64_t first, std::int64_t count) {
  const auto begin = numbers.begin() + first;
  return {begin, begin + count};
}

Numbers sum_of(const Numbers& one, const Numbers& other) {
  Numbers result(one.size());
  std::ranges::transform(one, other, result.begin(), std::plus<>());
  return result;
}

/// Reads the tensors of one cell and checks their shapes.
class Reader {
 public:
  Reader(const SourceCell& cell, std::string_view layer) : cell_(cell), layer_(layer) {}

  GateBlocks read() {
    blocks_.order = order_of(cell_);
    blocks_.peephole_order = gates_of(cell_.convention).lstm_peepholes;
    blocks_.hidden = h_;
    blocks_.input = i_;
    blocks_.output = p_;
    switch (cell_.convention) {
      case Convention::kTorch:
      case Convention::kArrays:
        read_torch();
        break;
      case Convention::kKeras:
        read_keras();
        break;
      case Convention::kKerasCudnn:
        read_keras_cudnn();
        break;
      case Convention::kTensorflow:
        read_tensorflow();
        break;
      case Convention::kTensorflowCudnnGru:
        read_tensorflow_cudnn_gru();
        break;
      case Convention::kOnnx:
        read_onnx();
        break;
      case Convention::kPaddle:
        read_paddle();
        break;
    }
    for (Numbers* bias : {&blocks_.bias_ih, &blocks_.bias_hh}) {
      bias->resize(static_cast<std::size_t>(rows_));
    }
    return std::move(blocks_);
  }

 private:
  Numbers get(std::string_view name, const Shape& shape) const {
    const HostTensor* tensor = cell_.find(name);
    if (tensor == nullptr) {
      base::fail(ErrorCode::kFormat, "{} lacks the tensor '{}'", layer_, name);
    }
    if (tensor->shape != shape) {
      base::fail(ErrorCode::kFormat, "{}: '{}' has the shape {} instead of {}", layer_, name,
                 tensor->shape.to_string(), shape.to_string());
    }
    return numbers_of(*tensor);
  }
  Numbers get_if(std::string_view name, const Shape& shape) const {
    return cell_.find(name) == nullptr ? Numbers() : get(name, shape);
  }

  void read_torch() {
    blocks_.weight_ih = get("weight_ih", {rows_, i_});
    blocks_.weight_hh = get("weight_hh", {rows_, p_});
    blocks_.bias_ih = get_if("bias_ih", {rows_});
    blocks_.bias_hh = get_if("bias_hh", {rows_});
    blocks_.weight_hr = get_if("weight_hr", {p_, h_});
    blocks_.weight_peephole = get_if("weight_peephole", {3, h_});
  }

  void read_keras() {
    blocks_.weight_ih = transposed(get("kernel", {i_, rows_}), i_, rows_);
    blocks_.weight_hh = transposed(get("recurrent_kernel", {h_, rows_}), h_, rows_);
    if (cell_.find("bias") == nullptr) return;
    if (cell_.kind == CellKind::kGru && cell_.reset_after) {
      const Numbers both = get("bias", {2, rows_});
      blocks_.bias_ih = part_of(both, 0, rows_);
      blocks_.bias_hh = part_of(both, rows_, rows_);
    } else {
      blocks_.bias_ih = get("bias", {rows_});
    }
  }

  void read_keras_cudnn() {
    const Numbers kernel = get("kernel", {i_, rows_});
    const Numbers recurrent = get("recurrent_kernel", {h_, rows_});
    blocks_.weight_ih = blocks_of_columns(kernel, i_);
    blocks_.weight_hh = blocks_of_columns(recurrent, h_);
    const Numbers both = get("bias", {2 * rows_});
    blocks_.bias_ih = part_of(both, 0, rows_);
    blocks_.bias_hh = part_of(both, rows_, rows_);
  }
  /// The numbers of each block of H columns, row by row: cuDNN's matrix [H, height] of that gate.
  Numbers blocks_of_columns(const Numbers& matrix, std::int64_t height) const {
    Numbers result;
    result.reserve(matrix.size());
    for (std::int64_t gate = 0; gate < rows_; gate += h_) {
      for (std::int64_t row = 0; row < height; ++row) {
        const auto begin = matrix.begin() + row * rows_ + gate;
        result.insert(result.end(), begin, begin + h_);
      }
    }
    return result;
  }

  void read_tensorflow() {
    if (cell_.kind == CellKind::kGru) {
      const Numbers gates = get("gate_kernel", {i_ + h_, 2 * h_});
      const Numbers candidate = get("candidate_kernel", {i_ + h_, h_});
      set_weights(transposed_rows(gates, 0, i_, 2 * h_), transposed_rows(candidate, 0, i_, h_),
                  transposed_rows(gates, i_, h_, 2 * h_), transposed_rows(candidate, i_, h_, h_));
      const Numbers gate_bias = get("gate_bias", {2 * h_});
      const Numbers candidate_bias = get("candidate_bias", {h_});
      blocks_.bias_ih = joined({&gate_bias, &candidate_bias});
      return;
    }
    const Numbers kernel = get("kernel", {i_ + p_, rows_});
    blocks_.weight_ih = transposed_rows(kernel, 0, i_, rows_);
    blocks_.weight_hh = transposed_rows(kernel, i_, p_, rows_);
    blocks_.bias_ih = get_if("bias", {rows_});
    if (cell_.find("w_i_diag") != nullptr) {
      const Numbers i = get("w_i_diag", {h_}), f = get("w_f_diag", {h_}), o = get("w_o_diag", {h_});
      blocks_.weight_peephole = joined({&i, &f, &o});
    }
    if (cell_.find("projection") != nullptr) {
      blocks_.weight_hr = transposed(get("projection", {h_, p_}), h_, p_);
    }
  }

  void read_tensorflow_cudnn_gru() {
    const Numbers gates = get("gate_kernel", {i_ + h_, 2 * h_});
    set_weights(
        transposed_rows(gates, 0, i_, 2 * h_), transposed(get("input_kernel", {i_, h_}), i_, h_),
        transposed_rows(gates, i_, h_, 2 * h_), transposed(get("hidden_kernel", {h_, h_}), h_, h_));
    const Numbers gate_bias = get("gate_bias", {2 * h_});
    const Numbers input_bias = get("input_bias", {h_}), hidden_bias = get("hidden_bias", {h_});
    blocks_.bias_ih = joined({&gate_bias, &input_bias});
    blocks_.bias_hh.resize(static_cast<std::size_t>(2 * h_));
    blocks_.bias_hh.insert(blocks_.bias_hh.end(), hidden_bias.begin(), hidden_bias.end());
  }

  void set_weights(const Numbers& input_gates, const Numbers& input_candidate,
                   const Numbers& hidden_gates, const Numbers& hidden_candidate) {
    blocks_.weight_ih = joined({&input_gates, &input_candidate});
    blocks_.weight_hh = joined({&hidden_gates, &hidden_candidate});
  }

  void read_onnx() {
    blocks_.weight_ih = get("w", {rows_, i_});
    blocks_.weight_hh = get("r", {rows_, h_});
    if (cell_.find("b") != nullptr) {
      const Numbers both = get("b", {2 * rows_});
      blocks_.bias_ih = part_of(both, 0, rows_);
      blocks_.bias_hh = part_of(both, rows_, rows_);
    }
    blocks_.weight_peephole = get_if("p", {3 * h_});
  }

  void read_paddle() {
    blocks_.weight_ih = transposed(get("input_weight", {i_, rows_}), i_, rows_);
    blocks_.bias_hh = get_if("input_bias", {rows_});
    const Numbers weight = get("weight", {h_, rows_});
    if (cell_.kind == CellKind::kGru) {
      const Numbers gates = transposed(part_of(weight, 0, 2 * h_ * h_), h_, 2 * h_);
      const Numbers candidate = transposed(part_of(weight, 2 * h_ * h_, h_ * h_), h_, h_);
      blocks_.weight_hh = joined({&gates, &candidate});
      if (cell_.find("bias") != nullptr) blocks_.bias_ih = get("bias", {1, rows_});
      return;
    }
    blocks_.weight_hh = transposed(weight, h_, rows_);
    const HostTensor& stored = cell_.get("bias");
    const bool peeps = stored.shape == Shape{1, 7 * h_};
    const Numbers bias = get("bias", {1, peeps ? 7 * h_ : rows_});
    blocks_.bias_ih = part_of(bias, 0, rows_);
    if (peeps) blocks_.weight_peephole = part_of(bias, rows_, 3 * h_);
  }

  const SourceCell& cell_;
  std::string_view layer_;
  const std::int64_t h_ = cell_.hidden, i_ = cell_.input, p_ = cell_.output;
  const std::int64_t rows_ = h_ * static_cast<std::int64_t>(order_of(cell_).size());
  GateBlocks blocks_;
};

/// Copies blocks of `size` numbers from one order of gates to another.
Numbers reordered(const Numbers& numbers, std::string_view from, std::string_view to,
                  std::int64_t size) {
  if (numbers.empty()) return {};
  Numbers result;
  result.reserve(numbers.size());
  for (const char gate : to) {
    const std::size_t place = from.find(gate);
    SLUICE_ASSERT(place != std::string_view::npos);
    const auto begin = numbers.begin() + static_cast<std::int64_t>(place) * size;
    result.insert(result.end(), begin, begin + size);
  }
  return result;
}

/// Makes the tensors of a cell from blocks in the order of its convention.
class Writer {
 public:
  Writer(SourceCell& cell, GateBlocks blocks) : cell_(cell), blocks_(std::move(blocks)) {}

  void write() {
    switch (cell_.convention) {
      case Convention::kTorch:
      case Convention::kArrays:
        return write_torch();
      case Convention::kKeras:
        return write_keras();
      case Convention::kTensorflow:
        return write_tensorflow();
      case Convention::kTensorflowCudnnGru:
        return write_tensorflow_cudnn_gru();
      case Convention::kOnnx:
        return write_onnx();
      case Convention::kKerasCudnn:
      case Convention::kPaddle:
        break;
    }
    base::fail(ErrorCode::kUnsupported, "Sluice reads the layout of {} but does not write it",
               name_of(cell_.convention));
  }

 private:
  void put(const char* name, const Numbers& numbers, const Shape& shape) {
    if (!numbers.empty()) cell_.tensors[name] = tensor_of(numbers, shape);
  }

  void write_torch() {
    put("weight_ih", blocks_.weight_ih, {rows_, i_});
    put("weight_hh", blocks_.weight_hh, {rows_, p_});
    put("bias_ih", blocks_.bias_ih, {rows_});
    put("bias_hh", blocks_.bias_hh, {rows_});
    put("weight_hr", blocks_.weight_hr, {p_, h_});
    put("weight_peephole", blocks_.weight_peephole, {3, h_});
  }

  void write_keras() {
    put("kernel", transposed(blocks_.weight_ih, rows_, i_), {i_, rows_});
    put("recurrent_kernel", transposed(blocks_.weight_hh, rows_, h_), {h_, rows_});
    if (cell_.kind == CellKind::kGru && cell_.reset_after) {
      put("bias", joined({&blocks_.bias_ih, &blocks_.bias_hh}), {2, rows_});
    } else {
      put("bias", sum_of(blocks_.bias_ih, blocks_.bias_hh), {rows_});
    }
  }

  void write_tensorflow() {
    const Numbers bias = sum_of(blocks_.bias_ih, blocks_.bias_hh);
    if (cell_.kind == CellKind::kGru) {
      write_tensorflow_gates(bias);
      const Numbers input = part_of(blocks_.weight_ih, 2 * h_ * i_, h_ * i_);
      const Numbers hidden = part_of(blocks_.weight_hh, 2 * h_ * h_, h_ * h_);
      put("candidate_kernel", stacked(input, hidden, h_, h_), {i_ + h_, h_});
      put("candidate_bias", part_of(bias, 2 * h_, h_), {h_});
      return;
    }
    put("kernel", stacked(blocks_.weight_ih, blocks_.weight_hh, rows_, p_), {i_ + p_, rows_});
    put("bias", bias, {rows_});
    if (!blocks_.weight_peephole.empty()) {
      put("w_i_diag", part_of(blocks_.weight_peephole, 0, h_), {h_});
      put("w_f_diag", part_of(blocks_.weight_peephole, h_, h_), {h_});
      put("w_o_diag", part_of(blocks_.weight_peephole, 2 * h_, h_), {h_});
    }
    if (!blocks_.weight_hr.empty()) {
      put("projection", transposed(blocks_.weight_hr, p_, h_), {h_, p_});
    }
  }
  void write_tensorflow_gates(const Numbers& bias) {
    const Numbers input = part_of(blocks_.weight_ih, 0, 2 * h_ * i_);
    const Numbers hidden = part_of(blocks_.weight_hh, 0, 2 * h_ * h_);
    put("gate_kernel", stacked(input, hidden, 2 * h_, h_), {i_ + h_, 2 * h_});
    put("gate_bias", part_of(bias, 0, 2 * h_), {2 * h_});
  }
  void write_tensorflow_cudnn_gru() {
    write_tensorflow_gates(sum_of(blocks_.bias_ih, blocks_.bias_hh));
    put("input_kernel", transposed(part_of(blocks_.weight_ih, 2 * h_ * i_, h_ * i_), h_, i_),
        {i_, h_});
    put("hidden_kernel", transposed(part_of(blocks_.weight_hh, 2 * h_ * h_, h_ * h_), h_, h_),
        {h_, h_});
    put("input_bias", part_of(blocks_.bias_ih, 2 * h_, h_), {h_});
    put("hidden_bias", part_of(blocks_.bias_hh, 2 * h_, h_), {h_});
  }
  /// The transposes of two matrices with `rows` rows, one above the other.
  Numbers stacked(const Numbers& input, const Numbers& hidden, std::int64_t rows,
                  std::int64_t hidden_columns) const {
    const Numbers upper = transposed(input, rows, i_);
    const Numbers lower = transposed(hidden, rows, hidden_columns);
    return joined({&upper, &lower});
  }

  void write_onnx() {
    put("w", blocks_.weight_ih, {rows_, i_});
    put("r", blocks_.weight_hh, {rows_, h_});
    put("b", joined({&blocks_.bias_ih, &blocks_.bias_hh}), {2 * rows_});
    put("p", blocks_.weight_peephole, {3 * h_});
  }

  SourceCell& cell_;
  const GateBlocks blocks_;
  const std::int64_t h_ = cell_.hidden, i_ = cell_.input, p_ = cell_.output;
  const std::int64_t rows_ = h_ * static_cast<std::int64_t>(blocks_.order.size());
};

}  // namespace

std::int64_t GateBlocks::row_of(char gate) const {
  const std::size_t place = order.find(gate);
  SLUICE_ASSERT(place != std::string::npos);
  return static_cast<std::int64_t>(place) * hidden;
}

GateBlocks GateBlocks::in_order(std::string_view wanted, std::string_view wanted_peepholes) const {
  GateBlocks result = *this;
  result.order = wanted;
  result.weight_ih = reordered(weight_ih, order, wanted, hidden * input);
  result.weight_hh = reordered(weight_hh, order, wanted, hidden * output);
  result.bias_ih = reordered(bias_ih, order, wanted, hidden);
  result.bias_hh = reordered(bias_hh, order, wanted, hidden);
  result.peephole_order = wanted_peepholes;
  result.weight_peephole = reordered(weight_peephole, peephole_order, wanted_peepholes, hidden);
  return result;
}

std::string_view canonical_order(CellKind kind) {
  if (kind == CellKind::kRnn) return "n";
  return kind == CellKind::kLstm ? "ifgo" : "rzn";
}

GateBlocks blocks_of(const SourceCell& cell, std::string_view layer) {
  // Sizes of configurations are no sizes of tensors yet.
  constexpr std::int64_t kMost = 1 << 24;
  for (const std::int64_t size : {cell.hidden, cell.input, cell.output}) {
    if (size >= 1 && size <= kMost) continue;
    base::fail(ErrorCode::kFormat, "{} has a width of {}, which is not in 1..{}", layer, size,
               kMost);
  }
  return Reader(cell, layer).read();
}

void set_tensors(SourceCell& cell, const GateBlocks& canonical) {
  Writer(cell, canonical.in_order(order_of(cell), gates_of(cell.convention).lstm_peepholes))
      .write();
}

}  // namespace sluice::interchange
