#include "layers/initializer.h"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"
#include "runtime/rng.h"

namespace sluice::layers {
namespace {

constexpr std::array kNames{std::pair{Distribution::kUniform, "uniform"},
                            std::pair{Distribution::kXavierUniform, "xavier_uniform"},
                            std::pair{Distribution::kXavierNormal, "xavier_normal"},
                            std::pair{Distribution::kOrthogonal, "orthogonal"}};

// FNV-1a: names decide the random stream, so that adding a parameter leaves the others' draw alone.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3ull;
  }
  return hash;
}

// Random numbers of one parameter's elements.
class Numbers {
 public:
  explicit Numbers(std::uint64_t key) : key_(key) {}

  // In (0, 1).
  double uniform(std::size_t element) const { return unit(words(element / 4, 0)[element % 4]); }

  // Standard normal, by Box and Muller.
  double normal(std::size_t element) const {
    const auto two = words(element, 1);
    return std::sqrt(-2 * std::log(unit(two[0]))) * std::cos(2 * std::numbers::pi * unit(two[1]));
  }

 private:
  std::array<std::uint32_t, 4> words(std::size_t block, std::uint32_t stream) const {
    const auto wide = static_cast<std::uint64_t>(block);
    return runtime::philox(key_, {static_cast<std::uint32_t>(wide),
                                  static_cast<std::uint32_t>(wide >> 32), stream, 0});
  }
  static double unit(std::uint32_t word) { return (word + 0.5) / 4294967296.0; }

  std::uint64_t key_;
};

// In an order of its own, whatever the width of the machine's registers.
double dot(const double* a, const double* b, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[i % kLanes] += a[i] * b[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// Makes `count` vectors [count, length], count <= length, orthonormal: the modified method of Gram
// and Schmidt, whose factor R has a positive diagonal, so that normal vectors end uniformly
// distributed.
void orthonormalize(std::vector<double>& vectors, std::size_t count, std::size_t length) {
  for (std::size_t k = 0; k < count; ++k) {
    double* own = vectors.data() + k * length;
    const double scale = 1 / std::sqrt(dot(own, own, length));
    for (std::size_t i = 0; i < length; ++i) own[i] *= scale;
#pragma omp parallel for schedule(static) if (length * (count - k) > 65536)
    for (std::size_t j = k + 1; j < count; ++j) {
      double* other = vectors.data() + j * length;
      const double along = dot(own, other, length);
      for (std::size_t i = 0; i < length; ++i) other[i] -= along * own[i];
    }
  }
}

// Calls put(row, column, value) for an orthogonal matrix; element (0, 0) is number `first` of the
// parameter's.
template <typename Put>
void draw_orthogonal(const Numbers& numbers, std::size_t rows, std::size_t columns,
                     std::size_t first, const Put& put) {
  const bool by_rows = rows <= columns;
  const std::size_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
  std::vector<double> vectors(count * length);
  for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] = numbers.normal(first + i);
  orthonormalize(vectors, count, length);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < length; ++i) {
      by_rows ? put(k, i, vectors[k * length + i]) : put(i, k, vectors[k * length + i]);
    }
  }
}

Distribution distribution_of(const Initializer& initializer, const Initialization& chosen) {
  if (initializer.role == Role::kWeight) return chosen.weights;
  return initializer.role == Role::kRecurrentWeight ? chosen.recurrent : Distribution::kUniform;
}

template <typename T>
std::vector<T> draw_matrix(Distribution distribution, const Numbers& numbers, std::int64_t gates,
                           const base::Shape& shape) {
  const auto blocks = static_cast<std::size_t>(gates);
  const auto rows = static_cast<std::size_t>(shape[0]) / blocks;
  const auto columns = static_cast<std::size_t>(shape[1]);
  const double fans = static_cast<double>(rows + columns);
  std::vector<T> values(blocks * rows * columns);
  for (std::size_t i = 0; i < values.size() && distribution != Distribution::kOrthogonal; ++i) {
    values[i] = static_cast<T>(distribution == Distribution::kXavierUniform
                                   ? (2 * numbers.uniform(i) - 1) * std::sqrt(6 / fans)
                                   : numbers.normal(i) * std::sqrt(2 / fans));
  }
  for (std::size_t block = 0; distribution == Distribution::kOrthogonal && block < blocks;
       ++block) {
    const std::size_t first = block * rows * columns;
    draw_orthogonal(numbers, rows, columns, first, [&](std::size_t r, std::size_t c, double value) {
      values[first + r * columns + c] = static_cast<T>(value);
    });
  }
  return values;
}

}  // namespace

std::string_view name_of(Distribution distribution) {
  for (const auto& [one, name] : kNames) {
    if (one == distribution) return name;
  }
  SLUICE_ASSERT(false);
  return "";
}

Distribution parse_distribution(std::string_view name) {
  std::string known;
  for (const auto& [one, one_name] : kNames) {
    if (name == one_name) return one;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one_name);
  }
  base::fail(ErrorCode::kInvalidArgument, "unknown initializer \"{}\"; known are {}", name, known);
}

template <typename T>
std::vector<T> draw(const Initializer& initializer, const Initialization& chosen,
                    std::string_view name, const base::Shape& shape, std::uint64_t seed) {
  const Numbers numbers(seed ^ hash_name(name));
  const Distribution distribution = distribution_of(initializer, chosen);
  if (distribution != Distribution::kUniform) {
    return draw_matrix<T>(distribution, numbers, initializer.gates, shape);
  }
  const auto count = static_cast<std::size_t>(shape.element_count());
  std::vector<T> values(count, static_cast<T>(initializer.center));
  for (std::size_t i = 0; initializer.range != 0 && i < count; ++i) {
    values[i] =
        static_cast<T>(initializer.center + (2 * numbers.uniform(i) - 1) * initializer.range);
  }
  if (initializer.role != Role::kGateBias || chosen.gate_bias.empty()) return values;
  const auto gates = static_cast<std::size_t>(initializer.gates);
  SLUICE_ASSERT(chosen.gate_bias.size() == gates);
  const std::size_t hidden = count / gates;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(values[i] + chosen.gate_bias[i / hidden]);
  }
  return values;
}

template std::vector<float> draw(const Initializer&, const Initialization&, std::string_view,
                                 const base::Shape&, std::uint64_t);
template std::vector<double> draw(const Initializer&, const Initialization&, std::string_view,
                                  const base::Shape&, std::uint64_t);

}  // namespace sluice::layers
