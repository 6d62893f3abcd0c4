#include "interchange/keras/keras_entries.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/check.h"
#include "interchange/keras/keras_names.h"

namespace sluice::interchange::keras {
namespace {

constexpr double kSlope = 1.0 / 6, kShift = 0.5;
/// Exact in binary, so that 1 - epsilon + epsilon is 1 in float32.
constexpr double kEpsilon = 1.0 / 1024;

/// Multiplies columns [first, last) of the rows of a matrix, or of a vector, and adds a number.
void scale_columns(io::HostTensor& tensor, std::int64_t first, std::int64_t last, double factor) {
  const std::int64_t columns = tensor.shape[tensor.shape.rank() - 1];
  const auto numbers = tensor.values<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t column = static_cast<std::int64_t>(i) % columns;
    if (column >= first && column < last) numbers[i] = static_cast<float>(factor * numbers[i]);
  }
}

/// Gives a hard sigmoid the slope and the shift of Keras 3.
void fold_hard_sigmoid(SourceCell& cell) {
  const Activation& gate = cell.gate;
  if (gate.alpha == kSlope && gate.beta == kShift) return;
  const std::int64_t h = cell.hidden;
  using Range = std::pair<std::int64_t, std::int64_t>;
  const std::vector<Range> ranges = cell.kind == CellKind::kLstm
                                        ? std::vector<Range>{{0, 2 * h}, {3 * h, 4 * h}}
                                        : std::vector<Range>{{0, 2 * h}};
  for (const auto& [first, last] : ranges) {
    for (auto& [name, tensor] : cell.tensors) {
      scale_columns(tensor, first, last, gate.alpha / kSlope);
    }
    const double shift = (gate.beta - kShift) / kSlope;
    if (shift == 0) continue;
    // The first row of a bias with two.
    const auto bias = cell.tensors.at("bias").values<float>();
    for (std::int64_t column = first; column < last; ++column) {
      float& number = bias[static_cast<std::size_t>(column)];
      number = static_cast<float>(number + shift);
    }
  }
  cell.gate = {"hard_sigmoid", kSlope, kShift};
}

/// Makes the entries of a chain.
class EntryMaker {
 public:
  std::vector<Entry> make(const SourceModel& model) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const auto* next =
          i + 1 < model.layers.size() ? std::get_if<PoolingLayer>(&model.layers[i + 1]) : nullptr;
      if (const auto* recurrent = std::get_if<RecurrentLayer>(&model.layers[i])) {
        const bool is_last = next != nullptr && next->kind == "last";
        add_recurrent(*recurrent, !is_last);
        if (is_last) ++i;
        continue;
      }
      std::visit([this](const auto& layer) { add(layer); }, model.layers[i]);
    }
    return std::move(entries_);
  }

 private:
  Entry& add_entry(const std::string& type, Json config) {
    Entry entry;
    entry.type = type;
    entry.name = counter_.unique(snake_case(type));
    entry.config = std::move(config);
    entry.config["name"] = entry.name;
    entry.config["trainable"] = true;
    entry.config["dtype"] = "float32";
    return entries_.emplace_back(std::move(entry));
  }

  void add(const EmbeddingLayer& layer) {
    Entry& entry = add_entry("Embedding", {{"input_dim", layer.table.shape[0]},
                                           {"output_dim", layer.table.shape[1]},
                                           {"mask_zero", layer.padding == 0}});
    entry.groups.push_back({"", "", {{"embeddings", layer.table}}});
  }

  void add(const LinearLayer& layer) {
    const std::int64_t out = layer.weight.shape[0], in = layer.weight.shape[1];
    io::HostTensor kernel = io::HostTensor::make(base::DType::kFloat32, {in, out});
    const auto from = layer.weight.values<float>();
    const auto to = kernel.values<float>();
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t i = 0; i < in; ++i) {
        to[static_cast<std::size_t>(i * out + o)] = from[static_cast<std::size_t>(o * in + i)];
      }
    }
    Entry& entry = add_entry("Dense", {{"units", out},
                                       {"activation", layer.activation.name},
                                       {"use_bias", layer.bias.has_value()}});
    entry.groups.push_back({"", "", {{"kernel", std::move(kernel)}}});
    if (layer.bias) entry.groups[0].weights.emplace_back("bias", *layer.bias);
  }

  void add(const AffineLayer& layer) {
    const auto constant = [&](double value) {
      io::HostTensor tensor = io::HostTensor::make(base::DType::kFloat32, layer.scale.shape);
      std::ranges::fill(tensor.values<float>(), static_cast<float>(value));
      return tensor;
    };
    Entry& entry = add_entry("BatchNormalization", {{"axis", -1},
                                                    {"momentum", 0.99},
                                                    {"epsilon", kEpsilon},
                                                    {"center", true},
                                                    {"scale", true}});
    entry.groups.push_back({"",
                            "",
                            {{"gamma", layer.scale},
                             {"beta", layer.shift},
                             {"moving_mean", constant(0)},
                             {"moving_variance", constant(1 - kEpsilon)}}});
  }

  void add(const CrfLayer& layer) const { refuse_crf(layer, "Keras"); }
  void add(const PoolingLayer& layer) {
    if (layer.kind == "last") {
      base::fail(ErrorCode::kUnsupported,
                 "layer '{}' takes the last step of another layer than a recurrent one, which a "
                 "chain of Keras cannot",
                 layer.name);
    }
    if (layer.kind != "mean" && layer.kind != "max") {
      base::fail(ErrorCode::kUnsupported,
                 "layer '{}' is {} pooling, which Keras lacks; write the model without it",
                 layer.name, layer.kind);
    }
    add_entry(layer.kind == "mean" ? "GlobalAveragePooling1D" : "GlobalMaxPooling1D",
              {{"data_format", "channels_last"}, {"keepdims", false}});
  }

  // Recurrent layers are added with the pooling after them.
  void add(const RecurrentLayer&) { SLUICE_ASSERT(false); }

  void add_recurrent(const RecurrentLayer& layer, bool returns_sequences) {
    SLUICE_ASSERT(layer.forward || layer.backward);
    if (layer.forward && layer.backward) {
      Cell forward(*layer.forward, layer.name), backward(*layer.backward, layer.name);
      Entry& entry = add_entry("Bidirectional",
                               {{"merge_mode", "concat"},
                                {"layer", forward.entry("forward_", returns_sequences, false)}});
      // Keras makes an equal one itself, and Keras 2.2 knows no other.
      if (backward.config(false, false) != forward.config(false, false)) {
        entry.config["backward_layer"] = backward.entry("backward_", returns_sequences, true);
      }
      entry.groups.push_back(forward.group("forward_layer/", "forward_"));
      entry.groups.push_back(backward.group("backward_layer/", "backward_"));
      return;
    }
    if (layer.backward && returns_sequences) {
      base::fail(ErrorCode::kUnsupported,
                 "layer '{}' has a backward direction alone, whose steps Keras puts out in reverse "
                 "order; write the model with both directions",
                 layer.name);
    }
    Cell cell(layer.forward ? *layer.forward : *layer.backward, layer.name);
    Entry& entry = add_entry(cell.type(), cell.config(returns_sequences, !layer.forward));
    entry.groups.push_back(cell.group("", ""));
  }

  class Cell {
   public:
    Cell(SourceCell cell, std::string_view layer) : cell_(std::move(cell)) {
      if (cell_.convention != Convention::kKeras) {
        base::fail(ErrorCode::kInvalidArgument, "layer '{}' is in the layout of {}, not of Keras",
                   layer, name_of(cell_.convention));
      }
      if (cell_.kind != CellKind::kRnn && cell_.gate.is("hard_sigmoid")) {
        if (cell_.find("bias") == nullptr) add_bias();
        fold_hard_sigmoid(cell_);
      }
    }

    std::string type() const {
      return cell_.kind == CellKind::kRnn ? "SimpleRNN" : std::string(name_of(cell_.kind));
    }
    Json config(bool returns_sequences, bool goes_backwards) const {
      Json config = {{"units", cell_.hidden},
                     {"activation", cell_.candidate.name},
                     {"use_bias", cell_.find("bias") != nullptr},
                     {"return_sequences", returns_sequences},
                     {"return_state", false},
                     {"go_backwards", goes_backwards},
                     {"stateful", false},
                     {"unroll", false}};
      if (cell_.kind != CellKind::kRnn) config["recurrent_activation"] = cell_.gate.name;
      if (cell_.kind == CellKind::kGru) config["reset_after"] = cell_.reset_after;
      return config;
    }
    /// The configuration of a layer inside Bidirectional.
    Json entry(const std::string& prefix, bool returns_sequences, bool goes_backwards) const {
      Json inner = config(returns_sequences, goes_backwards);
      inner["name"] = prefix + snake_case(type());
      inner["trainable"] = true;
      inner["dtype"] = "float32";
      return {{"module", "keras.layers"},
              {"class_name", type()},
              {"config", std::move(inner)},
              {"registered_name", nullptr}};
    }
    WeightGroup group(const std::string& place, const std::string& prefix) const {
      WeightGroup group;
      group.place = place + "cell";
      const std::string cell = snake_case(type() + "Cell");
      group.scope = prefix.empty() ? cell : prefix + snake_case(type()) + "/" + cell;
      for (const char* name : {"kernel", "recurrent_kernel", "bias"}) {
        if (const io::HostTensor* tensor = cell_.find(name)) {
          group.weights.emplace_back(name, *tensor);
        }
      }
      return group;
    }

   private:
    void add_bias() {
      const std::int64_t rows = cell_.get("kernel").shape[1];
      const bool is_double = cell_.kind == CellKind::kGru && cell_.reset_after;
      cell_.tensors["bias"] = io::HostTensor::make(
          base::DType::kFloat32, is_double ? base::Shape{2, rows} : base::Shape{rows});
    }

    SourceCell cell_;
  };

  Counter counter_;
  std::vector<Entry> entries_;
};

}  // namespace

std::vector<Entry> entries_of(const SourceModel& model) { return EntryMaker().make(model); }

}  // namespace sluice::interchange::keras
