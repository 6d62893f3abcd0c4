#include "models/carried_states.h"

#include <algorithm>

#include "kernels/embedding/embedding.h"
#include "runtime/span.h"

namespace sluice::models {
namespace {

Tensor make_kept(const Context& context, runtime::Buffer& memory, std::int64_t rows, DType dtype,
                 const Shape& of_row) {
  const Shape shape{of_row[0], 1 + rows, of_row[2]};
  const auto count = static_cast<std::size_t>(shape.element_count());
  memory = runtime::Buffer(context.device(), base::checked_mul(base::size_of(dtype), count));
  const Tensor kept = memory.tensor(dtype, shape);
  context.zero(kept);
  return kept;
}

void keep_rows(const Context& context, const Tensor& states, std::int64_t most,
               const Tensor& kept) {
  const std::int64_t rows = std::min(states.size(1), most);
  kernels::embedding::gather(context, states, {}, kept.slice(1, 1, 1 + rows));
}

}  // namespace

CarriedStates::CarriedStates(const Context& context, std::int64_t rows, DType storage,
                             const Shape& h_of_row, const Shape& c_of_row)
    : rows_(rows) {
  kept_.h = make_kept(context, h_memory_, rows, storage, h_of_row);
  if (c_of_row.rank() == 0) return;
  kept_.c = make_kept(context, c_memory_, rows, base::policy_of(storage).cell_state, c_of_row);
}

void CarriedStates::load(const Context& context, const Tensor& from,
                         const RecurrentStates& states) const {
  const runtime::Span span(context, "states", "load");
  kernels::embedding::gather(context, kept_.h, from, states.h);
  if (states.c) kernels::embedding::gather(context, kept_.c, from, states.c);
}

void CarriedStates::store(const Context& context, const RecurrentStates& states) const {
  const runtime::Span span(context, "states", "store");
  keep_rows(context, states.h, rows_, kept_.h);
  if (states.c) keep_rows(context, states.c, rows_, kept_.c);
}

}  // namespace sluice::models
