#include "checking/reference_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/counted.h"
#include "base/suggest.h"

namespace sluice::checking {
namespace {

using base::DType;
using base::fail;

constexpr const char* kInput = "input.";
constexpr const char* kPrecision = "sluice.precision";

std::vector<float> as_floats(std::span<const std::int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

LayerValues lengths_of(std::string name, const std::vector<std::int32_t>& lengths) {
  LayerValues values;
  values.name = std::move(name);
  values.steps = values.width = 1;
  values.rows = std::ssize(lengths);
  values.integers = true;
  values.values = as_floats(lengths);
  values.lengths.assign(lengths.size(), 1);
  return values;
}

/// Converts the elements of `bytes` to floats.
template <typename T>
void widen(std::span<const std::byte> bytes, float* to) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    T value{};
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    to[i] = static_cast<float>(value);
  }
}

void widen(DType dtype, std::span<const std::byte> bytes, float* to) {
  switch (dtype) {
    case DType::kFloat64:
      return widen<double>(bytes, to);
    case DType::kFloat32:
      return widen<float>(bytes, to);
    case DType::kBFloat16:
      return widen<base::BFloat16>(bytes, to);
    case DType::kFloat16:
      return widen<base::Float16>(bytes, to);
    case DType::kInt64:
      return widen<std::int64_t>(bytes, to);
    case DType::kInt32:
      return widen<std::int32_t>(bytes, to);
    case DType::kUInt8:
      return widen<std::uint8_t>(bytes, to);
    case DType::kInt8:
      return widen<std::int8_t>(bytes, to);
  }
}

bool is_integer(DType dtype) {
  return dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kUInt8 ||
         dtype == DType::kInt8;
}

/// The sizes without axes of one.
std::vector<std::int64_t> squeezed(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> kept;
  std::ranges::copy_if(sizes, std::back_inserter(kept), [](auto size) { return size != 1; });
  return kept;
}

std::string shape_text(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

/// The rounding of the run that a file records; none if the file does not name its precision.
Rounding recorded_rounding(const io::SafetensorsFile& file) {
  const auto found = file.metadata().find(kPrecision);
  if (found == file.metadata().end()) return {};
  try {
    return rounding_of(runtime::Precision::parse(found->second));
  } catch (const Error&) {
    fail(ErrorCode::kFormat, "'{}': {} is {}, but must be float32, tf32, bfloat16, float16 or int8",
         file.path().native(), kPrecision, io::quote_name(found->second));
  }
}

}  // namespace

std::vector<LayerValues> inputs_of(const data::Batch& batch) {
  std::vector<LayerValues> inputs;
  const auto add = [&](std::string name, std::int64_t steps, std::vector<float> values,
                       bool integers, const std::vector<std::int32_t>& lengths) {
    if (values.empty()) return;
    LayerValues made;
    made.name = std::move(name);
    made.steps = steps;
    made.rows = batch.rows;
    made.width = std::ssize(values) / (steps * batch.rows);
    made.integers = integers;
    made.values = std::move(values);
    made.lengths = lengths;
    if (lengths.empty()) made.lengths.assign(static_cast<std::size_t>(batch.rows), 1);
    inputs.push_back(std::move(made));
  };
  add("input.source", batch.source_time, as_floats(batch.source), true, batch.source_lengths);
  add("input.source", batch.source_time, batch.features, false, batch.source_lengths);
  add("input.target", batch.target_time, as_floats(batch.target_in), true, batch.target_lengths);
  if (!batch.source_lengths.empty()) {
    inputs.push_back(lengths_of("input.source_lengths", batch.source_lengths));
  }
  if (!batch.target_in.empty()) {
    inputs.push_back(lengths_of("input.target_lengths", batch.target_lengths));
  }
  return inputs;
}

void ReferenceWriter::add(const LayerValues& layer, std::span<const std::int64_t> inputs) {
  const auto has_name = [&](const Collected& one) { return one.first.name == layer.name; };
  auto found = std::ranges::find_if(layers_, has_name);
  if (found == layers_.end()) {
    layers_.push_back({layer, std::vector<Row>(static_cast<std::size_t>(inputs_))});
    found = layers_.end() - 1;
    found->first.values.clear();
  }
  for (std::int64_t row = 0; row < layer.rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    Row& to = found->rows[static_cast<std::size_t>(inputs[r])];
    to.width = layer.width;
    for (std::int64_t step = 0; step < layer.lengths[r]; ++step) {
      const auto from = layer.values.begin() + (step * layer.rows + row) * layer.width;
      to.values.insert(to.values.end(), from, from + layer.width);
    }
  }
}

void ReferenceWriter::write(const std::filesystem::path& path, const std::string& precision) const {
  io::SafetensorsWriter writer;
  writer.set_metadata(kPrecision, precision);
  std::vector<io::HostTensor> tensors;
  tensors.reserve(layers_.size());
  for (const Collected& layer : layers_) {
    std::int64_t width = layer.first.width, steps = 0;
    for (const Row& row : layer.rows) {
      if (row.values.empty()) continue;
      width = std::max(width, row.width);
      steps = std::max(steps, std::ssize(row.values) / row.width);
    }
    const bool of_lengths = layer.first.name.ends_with("_lengths");
    const base::Shape shape = of_lengths             ? base::Shape{inputs_}
                              : layer.first.integers ? base::Shape{steps, inputs_}
                                                     : base::Shape{steps, inputs_, width};
    const DType dtype = layer.first.integers ? DType::kInt32 : DType::kFloat32;
    io::HostTensor& tensor = tensors.emplace_back(io::HostTensor::make(dtype, shape));
    for (std::size_t r = 0; r < layer.rows.size(); ++r) {
      const Row& row = layer.rows[r];
      const auto row_width = static_cast<std::size_t>(row.width);
      for (std::size_t i = 0; i < row.values.size(); ++i) {
        const std::size_t vector = i / row_width * layer.rows.size() + r;
        const std::size_t at = vector * static_cast<std::size_t>(width) + i % row_width;
        if (layer.first.integers) {
          tensor.values<std::int32_t>()[at] = static_cast<std::int32_t>(row.values[i]);
        } else {
          tensor.values<float>()[at] = row.values[i];
        }
      }
    }
    writer.add(layer.first.name, dtype, shape, tensor.data);
  }
  writer.write(path);
}

ReferenceFile::ReferenceFile(const std::filesystem::path& path, std::int64_t inputs)
    : file_(io::SafetensorsFile::open(path)), inputs_(inputs), made_(recorded_rounding(file_)) {}

Rounding ReferenceFile::rounding_of(const std::string& name) const {
  const io::SafetensorsEntry* entry = file_.find(name);
  SLUICE_ASSERT(entry != nullptr);
  const Rounding stored = checking::rounding_of(entry->dtype.value_or(DType::kFloat32));
  return {std::max(stored.stored, made_.stored), std::max(stored.sums, made_.sums)};
}

ReferenceFile::Extent ReferenceFile::extent_of(const io::SafetensorsEntry& entry,
                                               const LayerValues& like) const {
  const std::int64_t width = entry.sizes.size() == 3 ? entry.sizes[2] : like.width;
  std::int64_t count = 1;
  for (const std::int64_t size : entry.sizes) count *= size;
  const std::int64_t steps = count / std::max<std::int64_t>(1, inputs_ * width);
  const std::int64_t wanted[] = {steps, inputs_, width};
  if (width < like.width || squeezed(entry.sizes) != squeezed(wanted)) {
    refuse_shape(entry, like, like.steps);
  }
  return {steps, width};
}

void ReferenceFile::refuse_shape(const io::SafetensorsEntry& entry, const LayerValues& like,
                                 std::int64_t steps) const {
  if (entry.name.starts_with(kInput)) require_counts(entry, like, steps);
  const std::vector<std::int64_t> wanted{steps, inputs_, like.width};
  std::vector<std::int64_t> swapped = entry.sizes;
  if (swapped.size() == 3) std::swap(swapped[0], swapped[1]);
  fail(ErrorCode::kFormat, "'{}': tensor {} is {}, but [steps, inputs, units] of this run is {}{}",
       name(), io::quote_name(entry.name), shape_text(entry.sizes), shape_text(wanted),
       swapped == wanted ? "; swap its first two axes" : "");
}

void ReferenceFile::require_counts(const io::SafetensorsEntry& entry, const LayerValues& like,
                                   std::int64_t steps) const {
  const bool holds_lengths = entry.name.ends_with("_lengths");
  const std::size_t axes = holds_lengths ? 1 : like.integers ? 2 : 3;
  if (entry.sizes.size() != axes) return;
  const std::int64_t recorded = entry.sizes[holds_lengths ? 0 : 1];
  if (recorded != inputs_) {
    fail(ErrorCode::kFormat, "'{}' was recorded with {}, but this run has {}; give the same inputs",
         name(), base::counted(recorded, "input"), base::counted(inputs_, "input"));
  }
  if (!holds_lengths && entry.sizes[0] != steps) {
    fail(ErrorCode::kFormat,
         "'{}' was recorded with inputs of up to {}, but this run has one of {}; give the same "
         "inputs",
         name(), base::counted(entry.sizes[0], "step"), base::counted(steps, "step"));
  }
}

LayerValues ReferenceFile::read(const LayerValues& like, std::span<const std::int64_t> inputs) {
  const io::SafetensorsEntry* entry = file_.find(like.name);
  SLUICE_ASSERT(entry != nullptr && std::ssize(inputs) == like.rows);
  if (!entry->dtype) {
    fail(ErrorCode::kFormat, "'{}': tensor {} has the dtype {}, which Sluice does not read", name(),
         io::quote_name(entry->name), entry->dtype_name);
  }
  if (!like.integers && is_integer(*entry->dtype)) {
    fail(ErrorCode::kFormat,
         "'{}': tensor {} holds integers ({}); save it as float32, float64, float16 or bfloat16",
         name(), io::quote_name(entry->name), entry->dtype_name);
  }
  const Extent extent = extent_of(*entry, like);
  const std::int64_t longest = like.lengths.empty() ? 0 : *std::ranges::max_element(like.lengths);
  if (extent.steps < longest) refuse_shape(*entry, like, longest);
  LayerValues& seen = longest_[like.name];
  seen.width = std::max(seen.width, like.width);
  seen.steps = std::max<std::int64_t>(seen.steps, longest);

  LayerValues found = like;
  std::ranges::fill(found.values, 0.0f);
  const std::size_t size = base::size_of(*entry->dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(like.width) * size);
  for (std::int64_t step = 0; step < longest; ++step) {
    for (std::int64_t row = 0; row < like.rows; ++row) {
      const auto r = static_cast<std::size_t>(row);
      if (step >= like.lengths[r]) continue;
      const auto at = static_cast<std::uint64_t>((step * inputs_ + inputs[r]) * extent.width);
      file_.read_part(*entry, at * size, bytes);
      widen(*entry->dtype, bytes, found.values.data() + (step * like.rows + row) * like.width);
    }
  }
  return found;
}

void ReferenceFile::require_inputs(const data::Batch& batch) {
  for (const LayerValues& given : inputs_of(batch)) {
    if (!has(given.name)) continue;
    const LayerValues recorded = read(given, batch.global_row);
    for (std::size_t i = 0; i < given.values.size(); ++i) {
      const auto vector = static_cast<std::int64_t>(i) / given.width;
      const auto row = static_cast<std::size_t>(vector % given.rows);
      if (vector / given.rows >= given.lengths[row] || given.values[i] == recorded.values[i]) {
        continue;
      }
      fail(ErrorCode::kFormat,
           "'{}' was recorded with other inputs: {} is {} at step {} of row {}, but {} here",
           name(), io::quote_name(given.name), recorded.values[i], vector / given.rows,
           batch.global_row[row], given.values[i]);
    }
  }
}

void ReferenceFile::finish(std::span<const std::string> layers) const {
  const std::vector<std::string_view> known(layers.begin(), layers.end());
  bool any = false;
  for (const io::SafetensorsEntry& entry : file_.tensors()) {
    if (entry.name.starts_with(kInput)) continue;
    any = true;
    if (std::ranges::find(known, entry.name) == known.end()) {
      fail(ErrorCode::kFormat, "'{}': tensor {} is no layer of this model, whose layers are {}{}",
           name(), io::quote_name(entry.name), fmt::join(known, ", "),
           base::did_you_mean(entry.name, known));
    }
  }
  if (!any) {
    fail(ErrorCode::kFormat, "'{}' has no tensor of a layer; this model's layers are {}", name(),
         fmt::join(known, ", "));
  }
  for (const auto& [tensor, seen] : longest_) {
    const io::SafetensorsEntry& entry = *file_.find(tensor);
    const Extent extent = extent_of(entry, seen);
    if (extent.steps != seen.steps || extent.width != seen.width) {
      refuse_shape(entry, seen, seen.steps);
    }
  }
}

}  // namespace sluice::checking
