#include "interchange/onnx/onnx_fold.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/dtype.h"
#include "interchange/onnx/onnx_constants.h"

namespace sluice::interchange::onnx {
namespace {

using io::HostTensor;
using io::formats::OnnxNode;
using Sizes = std::vector<std::int64_t>;

std::int64_t product(std::span<const std::int64_t> sizes) {
  return base::Shape(sizes).element_count();
}

/// A tensor as blocks: before the axis, along it, and the bytes of what is behind it.
struct Blocks {
  std::int64_t outer, along;
  std::size_t inner;
};
Blocks blocks_of(const HostTensor& tensor, std::size_t axis) {
  const std::span<const std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
  const std::int64_t inner = product(sizes.subspan(axis + 1));
  return {product(sizes.first(axis)), sizes[axis],
          static_cast<std::size_t>(inner) * base::size_of(tensor.dtype)};
}

/// Computes the output of one node.
class Folder {
 public:
  Folder(const OnnxNode& node, const std::vector<std::optional<Constant>>& inputs,
         const std::filesystem::path& model, Budget& budget)
      : node_(node), inputs_(inputs), model_(model), budget_(budget) {}

  std::optional<HostTensor> fold() {
    if (inputs_.empty() || !inputs_[0]) return std::nullopt;
    const std::string& op = node_.op_type;
    if (op == "Concat") return concat();
    if (op == "Transpose") return transpose();
    if (op == "Unsqueeze" || op == "Squeeze") return change_axes(op == "Unsqueeze");
    if (op == "Reshape") return reshape();
    if (op == "Slice") return slice();
    return std::nullopt;
  }

 private:
  HostTensor take(std::size_t index) {
    budget_.charge(*inputs_[index], describe(node_));
    return load(*inputs_[index], model_);
  }
  std::optional<Numbers> integers(std::size_t index) const {
    if (index >= inputs_.size() || !inputs_[index]) return std::nullopt;
    return integers_of(*inputs_[index], model_);
  }
  static std::optional<HostTensor> reshaped(HostTensor tensor, const Sizes& sizes) {
    if (sizes.size() > base::Shape::kMaxRank) return std::nullopt;
    tensor.shape = base::Shape(sizes);
    return tensor;
  }

  std::optional<HostTensor> transpose() {
    const std::size_t rank = sizes_of(*inputs_[0]).size();
    if (rank != 2) return std::nullopt;
    const Sizes perm = ints_of(node_, "perm").value_or(Sizes{1, 0});
    HostTensor tensor = take(0);
    if (perm == Sizes{0, 1}) return tensor;
    if (perm != Sizes{1, 0}) return std::nullopt;
    return transposed(tensor.dtype == base::DType::kFloat32 ? tensor : to_float32(tensor));
  }

  std::optional<HostTensor> change_axes(bool adds) {
    const std::optional<Sizes> axes =
        axes_of(node_, inputs_.size() > 1 ? inputs_[1] : std::nullopt, model_);
    Sizes sizes = sizes_of(*inputs_[0]);
    if (!axes && adds) return std::nullopt;
    if (!axes) {
      std::erase(sizes, 1);
      return reshaped(take(0), sizes);
    }
    const std::size_t rank = adds ? sizes.size() + axes->size() : sizes.size();
    Sizes marks(rank, 0);
    for (const std::int64_t axis : *axes) marks[checked_axis(node_, axis, rank)] = 1;
    Sizes result;
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (marks[axis] == 0) {
        if (next >= sizes.size()) return std::nullopt;
        result.push_back(sizes[next++]);
      } else if (adds) {
        result.push_back(1);
      } else if (sizes[next++] != 1) {
        return std::nullopt;
      }
    }
    return reshaped(take(0), result);
  }

  std::optional<HostTensor> reshape() {
    const std::optional<Numbers> wanted = integers(1);
    if (!wanted || wanted->is_scalar) return std::nullopt;
    const Sizes sizes = sizes_of(*inputs_[0]);
    Sizes result;
    std::int64_t known = 1;
    for (std::size_t axis = 0; axis < wanted->values.size(); ++axis) {
      std::int64_t size = *wanted->values[axis].value;
      if (size == 0 && axis < sizes.size()) size = sizes[axis];
      if (size < -1) return std::nullopt;
      if (size >= 0) {
        known = static_cast<std::int64_t>(
            base::checked_mul(static_cast<std::size_t>(known), static_cast<std::size_t>(size)));
      }
      result.push_back(size);
    }
    const auto open = std::ranges::find(result, -1);
    if (open != result.end()) *open = known == 0 ? 0 : product(sizes) / known;
    if (result.size() > base::Shape::kMaxRank || std::ranges::count(result, -1) > 0 ||
        product(result) != product(sizes)) {
      return std::nullopt;
    }
    return reshaped(take(0), result);
  }

  std::optional<HostTensor> concat() {
    std::vector<HostTensor> parts;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i]) return std::nullopt;
      parts.push_back(take(i));
    }
    const std::size_t axis = checked_axis(node_, int_of(node_, "axis", 0), parts[0].shape.rank());
    Sizes sizes(parts[0].shape.begin(), parts[0].shape.end());
    sizes[axis] = 0;
    for (const HostTensor& part : parts) {
      Sizes others(part.shape.begin(), part.shape.end());
      if (part.dtype != parts[0].dtype || others.size() != sizes.size()) return std::nullopt;
      sizes[axis] += std::exchange(others[axis], sizes[axis]);
      others[axis] = sizes[axis];
      if (others != sizes) return std::nullopt;
    }
    HostTensor result = HostTensor::make(parts[0].dtype, base::Shape(sizes));
    std::byte* to = result.data.data();
    for (std::int64_t outer = 0; outer < blocks_of(result, axis).outer; ++outer) {
      for (const HostTensor& part : parts) {
        const Blocks blocks = blocks_of(part, axis);
        const std::size_t size = static_cast<std::size_t>(blocks.along) * blocks.inner;
        if (size > 0) {
          std::memcpy(to, part.data.data() + static_cast<std::size_t>(outer) * size, size);
        }
        to += size;
      }
    }
    return result;
  }

  /// Slices with steps of 1.
  std::optional<HostTensor> slice() {
    const std::optional<Sizes> starts = bounds("starts", 1), ends = bounds("ends", 2);
    std::optional<Sizes> axes = bounds("axes", 3);
    const std::optional<Sizes> steps = bounds("steps", 4);
    if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
    if (steps && std::ranges::any_of(*steps, [](std::int64_t step) { return step != 1; })) {
      return std::nullopt;
    }
    HostTensor tensor = take(0);
    for (std::size_t i = 0; i < starts->size(); ++i) {
      if (axes && i >= axes->size()) return std::nullopt;
      const std::int64_t axis = axes ? (*axes)[i] : static_cast<std::int64_t>(i);
      tensor = slice_axis(tensor, checked_axis(node_, axis, tensor.shape.rank()), (*starts)[i],
                          (*ends)[i]);
    }
    return tensor;
  }
  static HostTensor slice_axis(const HostTensor& tensor, std::size_t axis, std::int64_t start,
                               std::int64_t end) {
    const Blocks blocks = blocks_of(tensor, axis);
    const auto place = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + blocks.along : at, 0, blocks.along);
    };
    const std::int64_t first = place(start), count = std::max<std::int64_t>(place(end) - first, 0);
    Sizes sizes(tensor.shape.begin(), tensor.shape.end());
    sizes[axis] = count;
    HostTensor result = HostTensor::make(tensor.dtype, base::Shape(sizes));
    const std::size_t size = static_cast<std::size_t>(count) * blocks.inner;
    for (std::int64_t outer = 0; size > 0 && outer < blocks.outer; ++outer) {
      const std::size_t from = static_cast<std::size_t>(outer * blocks.along + first);
      std::memcpy(result.data.data() + static_cast<std::size_t>(outer) * size,
                  tensor.data.data() + from * blocks.inner, size);
    }
    return result;
  }
  /// An attribute until opset 9, an input since.
  std::optional<Sizes> bounds(const char* name, std::size_t index) const {
    if (inputs_.size() == 1) return ints_of(node_, name);
    const std::optional<Numbers> numbers = integers(index);
    if (!numbers) return std::nullopt;
    Sizes result;
    for (const Number& number : numbers->values) result.push_back(*number.value);
    return result;
  }

  const OnnxNode& node_;
  const std::vector<std::optional<Constant>>& inputs_;
  const std::filesystem::path& model_;
  Budget& budget_;
};

/// Whether a constant is of a type that has fractions.
bool has_fractions(const Constant& constant) {
  using base::DType;
  const std::optional<DType> type = constant.stored != nullptr
                                        ? constant.stored->type->dtype
                                        : std::optional(constant.made->dtype);
  return !type || *type == DType::kFloat32 || *type == DType::kFloat64 ||
         *type == DType::kFloat16 || *type == DType::kBFloat16;
}

}  // namespace

bool casts_to_integers(const OnnxNode& node) {
  // FLOAT, FLOAT16, DOUBLE, BFLOAT16
  constexpr std::array<std::int64_t, 4> kFloats{1, 10, 11, 16};
  const io::formats::OnnxAttribute* to = node.find("to");
  const auto* type = to == nullptr ? nullptr : std::get_if<std::int64_t>(&to->value);
  return type == nullptr || std::ranges::find(kFloats, *type) == kFloats.end();
}

std::optional<Constant> fold(const OnnxNode& node,
                             const std::vector<std::optional<Constant>>& inputs,
                             const std::filesystem::path& model, Budget& budget) {
  const bool is_same = node.op_type == "Identity" || node.op_type == "Cast";
  if (!node.domain.empty() || inputs.empty()) return std::nullopt;
  if (node.op_type == "Cast" && inputs[0] && casts_to_integers(node) && has_fractions(*inputs[0])) {
    return std::nullopt;
  }
  if (is_same) return inputs[0];  // numbers become float32, and indices int64, when they are read
  std::optional<HostTensor> tensor = Folder(node, inputs, model, budget).fold();
  if (!tensor) return std::nullopt;
  return Constant{nullptr, std::make_shared<const HostTensor>(std::move(*tensor))};
}

std::optional<std::vector<std::int64_t>> axes_of(const OnnxNode& node,
                                                 const std::optional<Constant>& input,
                                                 const std::filesystem::path& model) {
  if (!input) return ints_of(node, "axes");
  const std::optional<Numbers> numbers = integers_of(*input, model);
  if (!numbers) {
    base::fail(ErrorCode::kUnsupported, "{} has axes that are no short list of integers",
               describe(node));
  }
  std::vector<std::int64_t> axes;
  for (const Number& number : numbers->values) axes.push_back(*number.value);
  return axes;
}

std::size_t checked_axis(const OnnxNode& node, std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count) {
    base::fail(ErrorCode::kFormat, "{} works along axis {} of a tensor with {} axes",
               describe(node), axis, rank);
  }
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

}  // namespace sluice::interchange::onnx
