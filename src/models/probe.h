#pragma once

#include <cstdint>
#include <string>

#include "runtime/context.h"

namespace sluice::models {

using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// The output of a part of a model in one run, on the device: valid until the next operation.
struct Shown {
  /// The name of the part's parameters: "embedding", "encoder.l0", "output". Final states are
  /// "encoder.l0.h_n", and "encoder.l0.h_n_reverse" for the backward direction.
  std::string name;
  Tensor value;                 ///< [steps, rows, columns], of any floating-point dtype
  Tensor lengths = {};          ///< int32 [rows]: valid steps of each row; absent: all
  std::int64_t first_step = 0;  ///< the first step in `value`: steps may come in several parts
  std::int64_t steps = 0;       ///< steps of all parts together; 0: those of `value`
  std::int64_t width = 0;       ///< valid columns, the first ones; 0: all
  std::int64_t directions = 1;  ///< 2: the second half of the columns is the backward direction's
  std::int64_t sums = 1;        ///< layers of sums of products that this part adds
  bool is_input = false;        ///< computed without sums of products
};

/// Receives the outputs of a model's parts, in the order in which they run. A Pass carries it.
/// Evaluation and scoring show their parts, training does not.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void show(const Context& context, const Shown& shown) = 0;
};

/// Shows the input of a model's layers: [steps, rows, columns], computed without sums of products.
inline void show_input(const Context& context, Probe* probe, const char* name, const Tensor& value,
                       const Tensor& lengths) {
  if (probe == nullptr) return;
  probe->show(context,
              {.name = name, .value = value, .lengths = lengths, .sums = 0, .is_input = true});
}

}  // namespace sluice::models
