#pragma once

#include <cstdint>
#include <string>

#include "runtime/context.h"

namespace sluice::models {

using runtime::Context;
using runtime::DType;
using runtime::Shape;
using runtime::Tensor;

/// What a part of a model put out in one run, on the device: valid until the next operation.
struct Shown {
  /// As the part's parameters are named: "embedding", "encoder.l0", "output"; of final states
  /// "encoder.l0.h_n", and "encoder.l0.h_n_reverse" of the backward direction.
  std::string name;
  Tensor value;                 ///< [steps, rows, columns], of any floating-point dtype
  Tensor lengths = {};          ///< int32 [rows]: each row's steps that count; absent: all
  std::int64_t first_step = 0;  ///< of `value`, whose steps may come in several parts
  std::int64_t steps = 0;       ///< of all parts together; 0: those of `value`
  std::int64_t width = 0;       ///< columns that count, the first ones; 0: all
  std::int64_t directions = 1;  ///< 2: the second half of the columns is the backward direction's
  std::int64_t sums = 1;        ///< layers of sums of products that it adds to those before
  bool is_input = false;        ///< whether no sum of products has made it
};

/// Is shown what the parts of a model put out, in the order in which they run. A Pass carries it;
/// evaluation and scoring show their parts, training does not.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void show(const Context& context, const Shown& shown) = 0;
};

/// Shows what enters a model's layers: [steps, rows, columns], which no sum of products has made.
inline void show_input(const Context& context, Probe* probe, const char* name, const Tensor& value,
                       const Tensor& lengths) {
  if (probe == nullptr) return;
  probe->show(context,
              {.name = name, .value = value, .lengths = lengths, .sums = 0, .is_input = true});
}

}  // namespace sluice::models
