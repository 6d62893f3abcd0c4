#include "checking/layer_values.h"

#include <algorithm>

#include "base/check.h"
#include "base/dtype.h"

namespace sluice::checking {
namespace {

using runtime::DType;

template <typename T>
std::vector<float> download_as(const models::Context& context, const models::Tensor& value) {
  const std::vector<T> values = context.download<T>(value);
  std::vector<float> wide(values.size());
  std::ranges::transform(values, wide.begin(), [](T one) { return static_cast<float>(one); });
  return wide;
}

std::vector<float> numbers_of(const models::Context& context, const models::Tensor& value) {
  switch (value.dtype()) {
    case DType::kFloat64:
      return download_as<double>(context, value);
    case DType::kFloat32:
      return context.download<float>(value);
    case DType::kBFloat16:
      return download_as<base::BFloat16>(context, value);
    case DType::kFloat16:
      return download_as<base::Float16>(context, value);
    default:
      base::fail(ErrorCode::kUnsupported, "a layer's output of dtype {} can't be recorded",
                 base::name_of(value.dtype()));
  }
}

}  // namespace

LayerValues& Recorder::layer_of(const models::Shown& shown) {
  const auto found = std::ranges::find(layers_, shown.name, &LayerValues::name);
  if (found != layers_.end()) return *found;
  sums_ += shown.sums;
  LayerValues& made = layers_.emplace_back();
  made.name = shown.name;
  made.steps = shown.steps == 0 ? shown.value.size(0) : shown.steps;
  made.rows = shown.value.size(1);
  made.width = shown.width == 0 ? shown.value.size(2) : shown.width;
  made.directions = shown.directions;
  made.sums = shown.is_input ? 0 : sums_;
  made.values.resize(static_cast<std::size_t>(made.steps * made.rows * made.width));
  return made;
}

void Recorder::show(const models::Context& context, const models::Shown& shown) {
  SLUICE_ASSERT(shown.value.rank() == 3);
  LayerValues& layer = layer_of(shown);
  const std::vector<float> numbers = numbers_of(context, shown.value);
  const std::int64_t columns = shown.value.size(2), vectors = shown.value.size(0) * layer.rows;
  SLUICE_ASSERT(shown.value.size(1) == layer.rows && columns >= layer.width &&
                shown.first_step + shown.value.size(0) <= layer.steps);
  float* to = layer.values.data() + shown.first_step * layer.rows * layer.width;
  for (std::int64_t i = 0; i < vectors; ++i) {
    const float* from = numbers.data() + i * columns;
    std::copy(from, from + layer.width, to + i * layer.width);
  }
  if (!layer.lengths.empty()) return;
  if (shown.lengths) {
    layer.lengths = context.download<std::int32_t>(shown.lengths);
  } else {
    layer.lengths.assign(static_cast<std::size_t>(layer.rows),
                         static_cast<std::int32_t>(layer.steps));
  }
}

const LayerValues* Recorder::find(std::string_view name) const {
  const auto found = std::ranges::find(layers_, name, &LayerValues::name);
  return found == layers_.end() ? nullptr : &*found;
}

void Recorder::clear() {
  layers_.clear();
  sums_ = 0;
}

}  // namespace sluice::checking
