#include <algorithm>
#include <utility>

#include "base/check.h"
#include "interchange/keras/keras_weights.h"

namespace sluice::interchange::keras {
namespace {

using Arrays = std::map<std::string, io::HostTensor>;

constexpr std::string_view kEnds[] = {
    "W",   "U",   "b",   "W_i", "W_f",  "W_c",          "W_o",         "W_z",  "W_r", "W_h",
    "U_i", "U_f", "U_c", "U_o", "U_z",  "U_r",          "U_h",         "b_i",  "b_f", "b_c",
    "b_o", "b_z", "b_r", "b_h", "beta", "running_mean", "running_std", "gamma"};

/// The arrays of all gates side by side. They must have the same shape.
io::HostTensor side_by_side(const Arrays& arrays, std::string_view kind, std::string_view gates,
                            const Layer& layer) {
  std::vector<const io::HostTensor*> parts;
  for (const char gate : gates) {
    const std::string end = std::string(kind) + "_" + gate;
    const auto found = arrays.find(end);
    if (found == arrays.end()) {
      base::fail(ErrorCode::kFormat, "layer '{}' ({}) has no weight that ends in '_{}'", layer.name,
                 layer.type, end);
    }
    const base::Shape& shape = found->second.shape;
    if (shape.rank() == 0 || shape.rank() > 2 || (!parts.empty() && shape != parts[0]->shape)) {
      base::fail(ErrorCode::kFormat, "layer '{}' ({}): the weight that ends in '_{}' has shape {}",
                 layer.name, layer.type, end, shape.to_string());
    }
    parts.push_back(&found->second);
  }
  const base::Shape& shape = parts[0]->shape;
  const auto count = static_cast<std::int64_t>(parts.size());
  const bool is_matrix = shape.rank() == 2;
  const std::int64_t rows = is_matrix ? shape[0] : 1;
  const std::int64_t columns = is_matrix ? shape[1] : shape[0];
  io::HostTensor joined =
      io::HostTensor::make(base::DType::kFloat32, is_matrix ? base::Shape{rows, count * columns}
                                                            : base::Shape{count * columns});
  auto out = joined.values<float>().begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const io::HostTensor* part : parts) {
      const auto begin = part->values<float>().begin() + row * columns;
      out = std::copy(begin, begin + columns, out);
    }
  }
  return joined;
}

}  // namespace

std::string_view keras1_end(std::string_view name) {
  for (const std::string_view end : kEnds) {
    if (name.size() > end.size() && name.ends_with(end) &&
        name[name.size() - end.size() - 1] == '_') {
      return end;
    }
  }
  return {};
}

Tensors join_keras1(const Arrays& arrays, const Layer& layer) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"W", "kernel"},
      {"W", "embeddings"},
      {"U", "recurrent_kernel"},
      {"b", "bias"},
      {"gamma", "gamma"},
      {"running_mean", "moving_mean"},
      {"beta", "beta"},
      {"running_std", "moving_variance"}};  // Keras 1 calls a variance running_std.
  Tensors tensors;
  for (const auto& [end, name] : kNames) {
    const auto found = arrays.find(std::string(end));
    if (found != arrays.end()) tensors.emplace(name, found->second);
  }
  const bool is_lstm = arrays.contains("W_i"), is_gru = arrays.contains("W_z");
  if (is_lstm || is_gru) {
    const std::string_view gates = is_lstm ? "ifco" : "zrh";
    tensors.emplace("kernel", side_by_side(arrays, "W", gates, layer));
    tensors.emplace("recurrent_kernel", side_by_side(arrays, "U", gates, layer));
    tensors.emplace("bias", side_by_side(arrays, "b", gates, layer));
  }
  return tensors;
}

}  // namespace sluice::interchange::keras
