#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

/// What parameters start from. All of it is drawn on the host, in double, from (seed, name of the
/// parameter, element), so that it is the same on every device.
namespace sluice::layers {

/// How a matrix may be drawn; with fan-in the columns and fan-out the rows of one gate's matrix.
enum class Distribution {
  kUniform,        ///< as its layer declares it: uniform in +- 1/sqrt of a width
  kXavierUniform,  ///< uniform in +- sqrt(6 / (fan-in + fan-out)), Glorot and Bengio 2010
  kXavierNormal,   ///< normal with the variance 2 / (fan-in + fan-out), likewise
  kOrthogonal,     ///< orthonormal rows or columns, whichever are fewer, Saxe et al. 2014
};

std::string_view name_of(Distribution distribution);
/// "uniform", "xavier_uniform", "xavier_normal" or "orthogonal"; anything else is refused.
Distribution parse_distribution(std::string_view name);

/// What a user may choose for a whole model.
struct Initialization {
  Distribution weights = Distribution::kUniform;    ///< of matrices but embeddings and recurrent
  Distribution recurrent = Distribution::kUniform;  ///< of recurrent matrices
  /// Added to what biases of recurrent layers' gates are drawn as, a number a gate, such as 1 for
  /// the forget gate of an LSTM (Jozefowicz et al. 2015); empty: nothing.
  std::vector<double> gate_bias = {};
};

/// What a parameter is to an Initialization.
enum class Role {
  kOther,  ///< nothing: it starts as declared
  kWeight,
  kRecurrentWeight,
  kGateBias,  ///< one of a recurrent layer's two, which takes what is added
};

/// How a layer declares a parameter to start: every element uniform in [center - range, center +
/// range]. Matrices and biases of recurrent layers are blocks of rows, one a gate.
struct Initializer {
  double range = 0;
  double center = 0;
  Role role = Role::kOther;
  std::int64_t gates = 1;
};

/// Values of a parameter. T is float or double.
template <typename T>
std::vector<T> draw(const Initializer& initializer, const Initialization& chosen,
                    std::string_view name, const base::Shape& shape, std::uint64_t seed);

}  // namespace sluice::layers
