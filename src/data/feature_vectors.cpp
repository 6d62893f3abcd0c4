#include "data/feature_vectors.h"

#include <cmath>

#include "base/check.h"
#include "data/frames.h"

namespace sluice::data {
namespace {

using base::fail;

void check_array(const std::string& where, const io::NpyArray& array) {
  if (array.is_integer) {
    fail(ErrorCode::kFormat, "{}: it holds integers; features are float16, float32 or float64",
         where);
  }
  const std::size_t axes = array.shape.size();
  if ((axes != 1 && axes != 2) || array.element_count() == 0) {
    fail(ErrorCode::kFormat,
         "{}: an array of shape {} holds no feature vectors; it must be [vectors, features], or "
         "[features] for one",
         where, io::to_string(array.shape));
  }
}

void add_array(const std::string& where, const io::NpyArray& array, FeatureVectors& vectors) {
  check_array(where, array);
  const std::int64_t width = array.shape.back();
  if (vectors.width != 0 && vectors.width != width) {
    fail(ErrorCode::kFormat, "{}: its vectors have {} features, but those before have {}", where,
         width, vectors.width);
  }
  vectors.width = width;
  for (std::int64_t i = 0; i < array.element_count(); ++i) {
    const float value = array.floats[static_cast<std::size_t>(i)];
    if (std::isfinite(value)) continue;
    fail(ErrorCode::kFormat,
         "{}: vector {}, column {} (counted from 0) is {}; features must be finite numbers", where,
         i / width, i % width, std::isnan(value) ? "nan" : "infinite in float32");
  }
  vectors.add(array.floats);
}

}  // namespace

FeatureVectors FeatureVectors::select(std::span<const std::int64_t> indices) const {
  FeatureVectors chosen{width, {}};
  for (const std::int64_t i : indices) chosen.add(vector(i));
  return chosen;
}

FeatureVectors read_feature_vectors(const std::filesystem::path& path) {
  FeatureVectors vectors;
  for_each_array(path, [&](const std::string& where, const std::string&,
                           const io::NpyArray& array) { add_array(where, array, vectors); });
  return vectors;
}

}  // namespace sluice::data
