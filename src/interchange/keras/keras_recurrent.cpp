#include "interchange/keras/keras_recurrent.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/check.h"

namespace sluice::interchange::keras {
namespace {

struct CellType {
  std::string_view layer, cell;  ///< "LSTM" and "LSTMCell"
  CellKind kind;
  Convention convention;
};

constexpr std::array<CellType, 5> kCellTypes = {
    CellType{"LSTM", "LSTMCell", CellKind::kLstm, Convention::kKeras},
    CellType{"GRU", "GRUCell", CellKind::kGru, Convention::kKeras},
    CellType{"SimpleRNN", "SimpleRNNCell", CellKind::kRnn, Convention::kKeras},
    CellType{"CuDNNLSTM", "", CellKind::kLstm, Convention::kKerasCudnn},
    CellType{"CuDNNGRU", "", CellKind::kGru, Convention::kKerasCudnn}};

const CellType* find_type(std::string_view type) {
  for (const CellType& one : kCellTypes) {
    if (type == one.layer || (!one.cell.empty() && type == one.cell)) return &one;
  }
  return nullptr;
}

bool is_bias_used(const Layer& layer, const CellType& type) {
  return type.convention == Convention::kKerasCudnn || flag(layer, {"use_bias"}, true);
}

/// Reads the layers of Keras one by one.
class RecurrentReader {
 public:
  RecurrentReader(const Layer& layer, const Reading& reading) : layer_(layer), reading_(reading) {}

  RecurrentPart read(bool is_reversed) {
    if (layer_.type == "Bidirectional") return read_bidirectional(is_reversed);
    note_options(layer_);
    const bool is_backward = flag(layer_, {"go_backwards"}, false) != is_reversed;
    RecurrentPart part;
    part.returns_sequences = flag(layer_, {"return_sequences"}, false);
    part.is_reversed = is_backward;
    std::vector<SourceCell> cells = read_cells(layer_, Part::Side::kNone);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      RecurrentLayer one;
      one.name = cells.size() == 1 ? layer_.name : fmt::format("{}.{}", layer_.name, i);
      (is_backward ? one.backward : one.forward) = std::move(cells[i]);
      part.layers.push_back(std::move(one));
    }
    return part;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    base::fail(ErrorCode::kUnsupported, "layer '{}' ({}) {}", layer_.name, layer_.type, what);
  }

  RecurrentPart read_bidirectional(bool is_reversed) {
    if (is_reversed) refuse("reads the output of a layer with go_backwards, which is not read");
    if (find(layer_, {"merge_mode"}) == nullptr || text(layer_, {"merge_mode"}) != "concat") {
      const Json* mode = find(layer_, {"merge_mode"});
      refuse(fmt::format("has merge_mode {}; 'concat' is read",
                         mode == nullptr ? "None" : mode->dump()));
    }
    const Json* entry = find(layer_, {"layer"});
    if (entry == nullptr) refuse("has no layer in its configuration");
    const Layer forward = inner_layer(layer_, *entry);
    const Json* own = find(layer_, {"backward_layer"});
    const Layer backward = own == nullptr ? forward : inner_layer(layer_, *own);
    note_options(forward);
    if (flag(forward, {"go_backwards"}, false) ||
        (own != nullptr && !flag(backward, {"go_backwards"}, false))) {
      refuse("has its directions exchanged by go_backwards, which is not read");
    }
    RecurrentPart part;
    part.is_bidirectional = true;
    part.returns_sequences = flag(forward, {"return_sequences"}, false);
    std::vector<SourceCell> one = read_cells(forward, Part::Side::kForward);
    std::vector<SourceCell> other = read_cells(backward, Part::Side::kBackward);
    if (one.size() != 1 || other.size() != 1) {
      refuse("has several cells in each direction, which is not read");
    }
    part.layers.push_back({layer_.name, std::move(one[0]), std::move(other[0])});
    return part;
  }

  void note_options(const Layer& layer) const {
    require_plain(layer);
    if (flag(layer, {"time_major"}, false)) {
      refuse("has time_major, which is not read; save the model without it");
    }
    if (flag(layer, {"stateful"}, false)) {
      reading_.account.leave_out(fmt::format(
          "{}: stateful; here every sequence begins with a state of zeros", layer_.name));
    }
  }

  std::vector<SourceCell> read_cells(const Layer& layer, Part::Side side) const {
    std::vector<SourceCell> cells;
    Part part{.side = side, .is_cell = true};
    if (layer.type != "RNN") {
      cells.push_back(read_cell(layer, part));
      return cells;
    }
    const Json* entry = find(layer, {"cell"});
    if (entry == nullptr) refuse("has no cell in its configuration");
    const Layer cell = inner_layer(layer, *entry);
    if (cell.type != "StackedRNNCells") {
      cells.push_back(read_cell(cell, part));
      return cells;
    }
    const Json* list = find(cell, {"cells"});
    if (list == nullptr || !list->is_array() || list->empty()) refuse("has no cells");
    std::vector<Layer> stack;
    for (const Json& one : *list) {
      stack.push_back(inner_layer(cell, one));
      part.stack.push_back(stack.back().type);
    }
    for (; part.index < stack.size(); ++part.index) {
      cells.push_back(read_cell(stack[part.index], part));
    }
    return cells;
  }

  SourceCell read_cell(const Layer& layer, const Part& part) const {
    const CellType* type = find_type(layer.type);
    if (type == nullptr) {
      refuse(
          fmt::format("has a cell of the class '{}'; LSTM, GRU and SimpleRNN, also of cuDNN, "
                      "are read",
                      layer.type));
    }
    SourceCell cell;
    cell.convention = type->convention;
    cell.kind = type->kind;
    std::vector<std::string_view> names = {"kernel", "recurrent_kernel"};
    if (is_bias_used(layer, *type)) names.push_back("bias");
    cell.tensors = reading_.weights.read(layer_, part, names);
    set_sizes(cell, layer_.name);
    check_units(layer, cell);
    if (cell.convention == Convention::kKeras) set_activations(layer, cell);
    if (cell.kind == CellKind::kGru) set_reset(layer, cell);
    note(layer, cell, part);
    return cell;
  }

  void check_units(const Layer& layer, const SourceCell& cell) const {
    const std::int64_t units = integer(layer, {"units", "output_dim"});
    if (units == cell.hidden) return;
    base::fail(ErrorCode::kFormat,
               "layer '{}' ({}) has {} units in its configuration and {} in its weights",
               layer_.name, layer_.type, units, cell.hidden);
  }

  void set_activations(const Layer& layer, SourceCell& cell) const {
    const std::string name = activation(layer, {"activation"});
    cell.candidate = cell.state = {name.empty() ? "linear" : name};
    if (cell.kind == CellKind::kRnn) {
      if (name == "tanh" || name == "relu") return;
      refuse(fmt::format("has the activation '{}'; tanh and relu are read", cell.candidate.name));
    }
    const std::string gate = activation(layer, {"recurrent_activation", "inner_activation"});
    if (gate.empty()) refuse("has no recurrent_activation");
    cell.gate = gate == "hard_sigmoid" ? hard_sigmoid(layer_.name, reading_) : Activation{gate};
  }

  void set_reset(const Layer& layer, SourceCell& cell) const {
    if (cell.convention == Convention::kKerasCudnn) return;
    // Before Keras 2.1.3 there was no such key, and every GRU reset before the product.
    cell.reset_after = flag(layer, {"reset_after"}, false);
    const io::HostTensor* bias = cell.find("bias");
    if (bias == nullptr || (bias->shape.rank() == 2) == cell.reset_after) return;
    base::fail(ErrorCode::kFormat, "layer '{}' ({}) has reset_after={}, but a bias of shape {}",
               layer_.name, layer_.type, cell.reset_after, shape_text(cell, "bias"));
  }

  void note(const Layer& layer, const SourceCell& cell, const Part& part) const {
    if (part.side == Part::Side::kBackward) return;
    std::string line = fmt::format("{}: {} of {} units", layer_.name, layer.type, cell.hidden);
    if (cell.convention == Convention::kKerasCudnn) {
      line += ", sigmoid and tanh, as cuDNN has them";
    } else if (cell.kind == CellKind::kRnn) {
      line += fmt::format(", activation {}", cell.candidate.name);
    } else {
      line += fmt::format(", activation {}, gates {}", cell.candidate.name, cell.gate.name);
      if (cell.gate.is("hard_sigmoid")) {
        line += fmt::format(" = clip({:.4g} a + {:.4g}, 0, 1)", cell.gate.alpha, cell.gate.beta);
        if (!reading_.version.empty()) line += " as in Keras " + reading_.version;
      }
    }
    if (cell.kind == CellKind::kGru) {
      line += cell.reset_after ? ", resets after the product" : ", resets before the product";
    }
    reading_.account.find(fmt::format("{} ({})", line, reading_.origin));
  }

  const Layer& layer_;
  const Reading& reading_;
};

}  // namespace

bool is_recurrent(std::string_view type) {
  if (type == "RNN" || type == "Bidirectional") return true;
  for (const CellType& one : kCellTypes) {
    if (type == one.layer) return true;
  }
  return false;
}

RecurrentPart read_recurrent(const Layer& layer, bool is_reversed, const Reading& reading) {
  return RecurrentReader(layer, reading).read(is_reversed);
}

Activation hard_sigmoid(std::string_view layer, const Reading& reading) {
  if (const std::optional<double> slope = reading.options.find_number("hard_sigmoid_slope")) {
    reading.account.find(
        fmt::format("{}: the slope {} of hard_sigmoid, which you said", layer, *slope));
    return {"hard_sigmoid", *slope, 0.5};
  }
  int major = 0;
  const std::string& version = reading.version;
  std::from_chars(version.data(), version.data() + version.size(), major);
  if (major == 0) {
    base::fail(ErrorCode::kUnsupported,
               "layer '{}' has hard_sigmoid, and the file does not say its version of Keras; say "
               "--set hard_sigmoid_slope=0.2 for Keras 1 and 2, "
               "--set hard_sigmoid_slope=0.16666667 for Keras 3",
               layer);
  }
  return {"hard_sigmoid", major < 3 ? 0.2 : 1.0 / 6, 0.5};
}

void set_sizes(SourceCell& cell, std::string_view layer) {
  const base::Shape& kernel = cell.get("kernel").shape;
  const base::Shape& recurrent = cell.get("recurrent_kernel").shape;
  const std::int64_t gates =
      cell.kind == CellKind::kLstm ? 4 : (cell.kind == CellKind::kGru ? 3 : 1);
  const bool fits = kernel.rank() == 2 && recurrent.rank() == 2 && recurrent[0] > 0 &&
                    kernel[0] > 0 && recurrent[1] == gates * recurrent[0] &&
                    kernel[1] == recurrent[1];
  if (!fits) {
    base::fail(ErrorCode::kFormat,
               "layer '{}': a kernel of shape {} and a recurrent_kernel of shape {} are no {}",
               layer, kernel.to_string(), recurrent.to_string(), name_of(cell.kind));
  }
  cell.input = kernel[0];
  cell.hidden = cell.output = recurrent[0];
  const io::HostTensor* bias = cell.find("bias");
  if (bias == nullptr) return;
  const std::int64_t rows = gates * cell.hidden;
  const bool is_cudnn = cell.convention == Convention::kKerasCudnn;
  const bool is_vector = bias->shape == base::Shape{is_cudnn ? 2 * rows : rows};
  const bool is_matrix =
      !is_cudnn && cell.kind == CellKind::kGru && bias->shape == base::Shape{2, rows};
  if (is_vector || is_matrix) return;
  base::fail(ErrorCode::kFormat, "layer '{}': the bias has shape {}, which no {} of {} units has",
             layer, bias->shape.to_string(), name_of(cell.kind), cell.hidden);
}

std::string shape_text(const SourceCell& cell, std::string_view tensor) {
  return cell.get(tensor).shape.to_string();
}

}  // namespace sluice::interchange::keras
