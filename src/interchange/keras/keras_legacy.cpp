#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "interchange/keras/keras_weights.h"

namespace sluice::interchange::keras {
namespace {

/// "kernel" of "lstm_1/lstm_cell/kernel:0".
std::string last_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  return std::string(name.substr(0, name.find(':')));
}

bool has_component(std::string_view name, const auto& accepts) {
  while (!name.empty()) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    if (accepts(name.substr(0, slash))) return true;
    name.remove_prefix(std::min(slash + 1, name.size()));
  }
  return false;
}

class LegacyWeights final : public Weights {
 public:
  LegacyWeights(io::formats::Hdf5File& file, std::string root, std::string name)
      : file_(file), root_(std::move(root)), name_(std::move(name)) {}

  Tensors read(const Layer& layer, const Part& part,
               std::span<const std::string_view> names) override {
    const std::string group = root_.empty() ? layer.group : root_ + "/" + layer.group;
    if (!file_.has(group)) {
      base::fail(ErrorCode::kFormat, "'{}' has no group '{}' with the weights of layer '{}' ({})",
                 name_, group, layer.name, layer.type);
    }
    const std::vector<std::string> weights = weights_of(layer, part, group);
    if (std::ranges::any_of(weights, [](const std::string& weight) {
          return !keras1_end(last_of(weight)).empty();
        })) {
      return read_keras1(layer, weights, group, names);
    }
    Tensors tensors;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& weight = find(layer, weights, names, i);
      tensors.emplace(names[i], to_float32(file_.read_tensor(group + "/" + weight)));
    }
    return tensors;
  }

 private:
  /// The names of the weights of a part, in the order of the file.
  std::vector<std::string> weights_of(const Layer& layer, const Part& part,
                                      const std::string& group) {
    std::vector<std::string> names = texts_of(file_, group, "weight_names");
    const auto keep = [&](const auto& accepts) {
      std::erase_if(names, [&](const std::string& name) { return !has_component(name, accepts); });
    };
    if (layer.is_nested) {
      keep([&](std::string_view component) {
        return component == layer.name || component.starts_with(layer.name + "_W") ||
               component.starts_with(layer.name + "_U") || component.starts_with(layer.name + "_b");
      });
    }
    if (part.side != Part::Side::kNone) {
      const std::string_view side = part.side == Part::Side::kForward ? "forward_" : "backward_";
      keep([&](std::string_view component) { return component.starts_with(side); });
    }
    if (part.stack.empty()) return names;
    // The cells stand one after the other.
    const std::size_t each = names.size() / part.stack.size();
    if (each * part.stack.size() != names.size()) {
      base::fail(ErrorCode::kFormat, "'{}': the {} cells of layer '{}' have {} weights", name_,
                 part.stack.size(), layer.name, names.size());
    }
    const auto begin = names.begin() + static_cast<std::ptrdiff_t>(part.index * each);
    return {begin, begin + static_cast<std::ptrdiff_t>(each)};
  }

  /// The weight of a name or, where the file has names of its own, of its place.
  const std::string& find(const Layer& layer, const std::vector<std::string>& weights,
                          std::span<const std::string_view> names, std::size_t index) const {
    const std::string* found = nullptr;
    bool is_known = false;
    for (const std::string& weight : weights) {
      const std::string last = last_of(weight);
      is_known = is_known || std::ranges::find(names, last) != names.end();
      if (last != names[index]) continue;
      if (found != nullptr) {
        base::fail(ErrorCode::kFormat, "'{}': layer '{}' ({}) has two weights '{}': '{}' and '{}'",
                   name_, layer.name, layer.type, last, *found, weight);
      }
      found = &weight;
    }
    if (found != nullptr) return *found;
    if (!is_known && weights.size() == names.size()) return weights[index];
    base::fail(ErrorCode::kFormat, "'{}': layer '{}' ({}) has no weight '{}'; it has: {}", name_,
               layer.name, layer.type, names[index], listed(weights));
  }

  Tensors read_keras1(const Layer& layer, const std::vector<std::string>& weights,
                      const std::string& group, std::span<const std::string_view> names) {
    std::map<std::string, io::HostTensor> arrays;
    for (const std::string& weight : weights) {
      const std::string end(keras1_end(last_of(weight)));
      if (end.empty()) continue;
      const bool is_new =
          arrays.emplace(end, to_float32(file_.read_tensor(group + "/" + weight))).second;
      if (is_new) continue;
      base::fail(ErrorCode::kFormat, "'{}': layer '{}' ({}) has two weights that end in '_{}'",
                 name_, layer.name, layer.type, end);
    }
    Tensors tensors = join_keras1(arrays, layer);
    for (const std::string_view wanted : names) {
      if (tensors.contains(wanted)) continue;
      base::fail(ErrorCode::kFormat, "'{}': layer '{}' ({}) has no weight '{}'; it has: {}", name_,
                 layer.name, layer.type, wanted, listed(weights));
    }
    return tensors;
  }

  static std::string listed(const std::vector<std::string>& weights) {
    std::string list;
    for (const std::string& weight : weights) list += (list.empty() ? "" : ", ") + weight;
    return list.empty() ? "none" : list;
  }

  io::formats::Hdf5File& file_;
  std::string root_, name_;
};

}  // namespace

std::unique_ptr<Weights> legacy_weights(io::formats::Hdf5File& file, std::string root,
                                        std::string name) {
  return std::make_unique<LegacyWeights>(file, std::move(root), std::move(name));
}

std::vector<std::string> texts_of(io::formats::Hdf5File& file, std::string_view group,
                                  std::string_view attribute) {
  if (file.has_attribute(group, attribute)) return file.attribute_texts(group, attribute);
  std::vector<std::string> texts;
  for (std::size_t part = 0;; ++part) {
    const std::string name = fmt::format("{}{}", attribute, part);
    if (!file.has_attribute(group, name)) return texts;
    const std::vector<std::string> more = file.attribute_texts(group, name);
    texts.insert(texts.end(), more.begin(), more.end());
  }
}

}  // namespace sluice::interchange::keras
